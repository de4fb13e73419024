"""What our scheduler class costs a step beside vLLM's own: processor time, which other work on the
machine hardly moves. No model. `python benchmarks/scheduler.py [--rounds 5]`
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import machine

STREAMS, STEPS = 32, 140


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each")
    rounds = parser.parse_args().rounds
    print(machine())
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, scheduler in schedulers().items():
            found.setdefault(name, []).append(step_ms(scheduler))
    for name, values in found.items():
        print(f"{name:<28}{median(values):6.3f} ms a step of {STREAMS}")


def schedulers() -> dict[str, type[Any]]:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    from inference.engine.vllm.scheduler import HoldScheduler

    return {"vLLM's": Scheduler, "vLLM's, asynchronous": AsyncScheduler, "ours": HoldScheduler}


def step_ms(scheduler: type[Any]) -> float:
    """Of scheduling a step and taking in what came of it, with everybody decoding."""
    from tests.model.scheduling import Steps

    steps = Steps(slots=64, blocks=2000, floor=0.05, scheduler=scheduler)
    for n in range(STREAMS):
        steps.submit(f"stream-{n}", rank=1, tokens=STEPS + 10)
    while not all(steps.made.values()):
        steps.step()
    spent = []
    for _ in range(STEPS - 20):
        began = time.thread_time()
        steps.step()
        spent.append((time.thread_time() - began) * 1000)
    return median(spent)


if __name__ == "__main__":
    main()
