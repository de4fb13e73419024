from __future__ import annotations

from inference import metrics, queue, registry
from inference.host import queue_gauges
from inference.messages import ReplicaRecord
from inference.queue import Charge
from kernel.redis import Client
from tests.inference.crowd import RELEASE, Crowd


async def test_the_gap_is_shown_beside_what_it_may_be(redis: Client) -> None:
    crowd = Crowd(redis)
    first = await crowd.arrive("ten_a", "batch", prompt=5)
    await crowd.arrive("ten_a", "batch")
    await crowd.arrive("ten_b", "batch")
    await crowd.take()
    charge = Charge(first.request, 0, 10)
    await queue.charge(redis, RELEASE, [charge], now_us=crowd.now_us)
    for number, tokens in enumerate((20, 30)):
        record = ReplicaRecord(
            *(f"slot_{number}", f"inc_{number}", RELEASE, "gauged", "ready"),
            batch_tokens=tokens,
            longest_prompt=7,
        )
        await registry.renew(redis, record, timeout_s=60)
    await queue_gauges.observe(redis, RELEASE, "gauged")

    def shown(gauge: metrics.Gauge, priority: str) -> float:
        return float(gauge.labels("gauged", priority)._value.get())

    assert shown(metrics.FAIRNESS_GAP, "batch") == 5 + 2 * 10
    assert shown(metrics.FAIRNESS_BOUND, "batch") == 2 * (20 + 30)
    assert shown(metrics.WAITING, "batch") == 2
    assert shown(metrics.WAITING, "interactive") == shown(metrics.FAIRNESS_GAP, "standard") == 0


def test_tenants_beyond_the_most_are_counted_together() -> None:
    labels = metrics.BoundedLabels(2)
    assert [labels.of(name) for name in "abcab"] == ["a", "b", "other", "a", "b"]
