"""What a replica tells Prometheus of its release's queue, every few seconds."""

from __future__ import annotations

from collections import Counter

from inference import metrics, queue, queue_snapshot, registry
from inference.forecast import Costs
from inference.queue_snapshot import Snapshot
from kernel.redis import Client
from tenants.priority import CLASSES


async def observe(redis: Client, release_id: str, release_name: str) -> None:
    """Raises what Redis raises."""
    snapshot = await queue_snapshot.read(redis, release_id)
    replicas = [each for each in await registry.replicas(redis) if each.release_id == release_id]
    batch_tokens = sum(each.batch_tokens for each in replicas)
    longest_prompt = max((each.longest_prompt for each in replicas), default=0)
    waiting = Counter(each.priority_class for each in snapshot.waiting)
    gap_bound = bound(snapshot, queue.costs(), batch_tokens, longest_prompt)
    for each in CLASSES:
        metrics.WAITING.labels(release_name, each).set(waiting[each])
        metrics.FAIRNESS_GAP.labels(release_name, each).set(gap(snapshot, each))
        metrics.FAIRNESS_BOUND.labels(release_name, each).set(gap_bound)


def gap(snapshot: Snapshot, priority_class: str) -> float:
    """How far apart the counters are of the tenants that wait."""
    tenants = {each.tenant_id for each in snapshot.waiting if each.priority_class == priority_class}
    counters = snapshot.counters.get(priority_class, {})
    waiting = [counters[tenant] for tenant in tenants if tenant in counters]
    return max(waiting) - min(waiting) if waiting else 0.0


def bound(snapshot: Snapshot, costs: Costs, batch_tokens: int, longest_prompt: int) -> float:
    """How far apart they may be: Lemma 4.3 of VTC's paper, by the least weight that waits. Of
    what two tenants have had since they both wait, the difference is at most twice that.
    """
    weight = min((each.weight for each in snapshot.waiting), default=1.0)
    prompts = [each.prompt_tokens for each in snapshot.waiting]
    longest = max([longest_prompt, *prompts])
    return max(costs.input * longest, costs.output * batch_tokens) / weight
