"""How long busy loops over many logs let more gather before their next round trip.

A round trip costs the same for one entry as for many, and while it is on its way nothing else is
done; a busy process that pauses for a fraction of a token's time makes fewer of them. An idle one
never pauses, so a lone stream is not delayed.
"""

from __future__ import annotations

# Timers are not finer, and pausing for less gathers nothing.
LEAST_S = 0.001
# A quarter of the 20 ms that a fast model takes for a token.
MOST_S = 0.005
PER_LOG_S = 0.00005


def pause_s(logs: int) -> float:
    """Seconds to pause after a round trip that moved entries of this many logs; 0 for few."""
    wanted = min(MOST_S, logs * PER_LOG_S)
    return wanted if wanted >= LEAST_S else 0.0
