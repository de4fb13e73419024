"""Fair sharing, simulated on the production queue, beside what VTC's authors published.
`python benchmarks/fairness.py [--write]` (10 minutes; --write renews docs/fairness.md)
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.ground import valkey

# So that nothing is refused: what is measured is who waits, and for how long.
ROOMY = {
    "NEHIR_QUEUE_LIMIT": "100000",
    "NEHIR_QUEUE_LIMIT_PER_TENANT": "100000",
    "NEHIR_QUEUE_TIMEOUT_S": "86400",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/fairness.md")
    parser.add_argument("--only", default="", help="the experiments whose name begins so")
    options = parser.parse_args()
    with valkey(**ROOMY):
        asyncio.run(_run(options.only, options.write))


async def _run(only: str, write: bool) -> None:
    from benchmarks import fairness_report, wait_estimates
    from benchmarks.experiments import EXPERIMENTS, Results
    from kernel.redis import client

    results = Results()
    for experiment in EXPERIMENTS:
        if experiment.__name__.startswith(only):
            begun, shown = time.monotonic(), len(results.rows)
            await experiment(client(), results)
            for row in results.rows[shown:]:
                print(fairness_report.line(row))
            print(f"({experiment.__name__}: {time.monotonic() - begun:.0f} s)\n")
    if "wait_estimates".startswith(only):
        results.estimates = await wait_estimates.table(client())
        print(results.estimates)
    if write:
        fairness_report.write(results)


if __name__ == "__main__":
    main()
