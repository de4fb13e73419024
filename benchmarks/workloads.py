"""Who asks for what and when, in the simulations of fair sharing."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tenants.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class Arrival:
    """at_s: since the beginning; lengths in tokens"""

    at_s: float
    tenant: str
    prompt_tokens: int = 256
    output_tokens: int = 256
    priority_class: PriorityClass = "standard"
    weight: float = 1.0


def evenly(
    tenant: str, per_s: float, *, since_s: float = 0, until_s: float, shift: float = 0.5
) -> Iterator[Arrival]:
    """At even distances, the first `shift` of one after the beginning."""
    for number in range(int(per_s * (until_s - since_s))):
        yield Arrival(since_s + (number + shift) / per_s, tenant)


def on_and_off(arrivals: Iterator[Arrival], *, phase_s: float) -> Iterator[Arrival]:
    """Those of every other phase, beginning with one that is on."""
    return (each for each in arrivals if int(each.at_s // phase_s) % 2 == 0)


def poisson(
    tenant: str, per_s: float, *, until_s: float, tokens: int, chance: random.Random
) -> Iterator[Arrival]:
    """At random; prompts and answers of so many tokens."""
    at_s = chance.expovariate(per_s)
    while at_s < until_s:
        yield Arrival(at_s, tenant, tokens, tokens)
        at_s += chance.expovariate(per_s)


def people(
    tenants: int, requests: int, *, until_s: float, chance: random.Random, skew: float = 1.1
) -> list[Arrival]:
    """Tenants of very different size (Zipf), prompts and answers as chats have them: the logarithms
    of their lengths are normal, with a long tail, cut at the model's 1,024.
    """
    sizes = [1 / (rank + 1) ** skew for rank in range(tenants)]
    names = chance.choices(range(tenants), sizes, k=requests)
    return [
        Arrival(
            chance.uniform(0, until_s),
            f"ten_{name:02}",
            _length(chance, median=50, sigma=1.3),
            _length(chance, median=152, sigma=1.2),
        )
        for name in names
    ]


def _length(chance: random.Random, *, median: float, sigma: float) -> int:
    return max(2, min(1023, round(chance.lognormvariate(math.log(median), sigma))))
