"""Restoring: a request whose first output tokens were made in another engine, as if in this one.

The tokens travel as an extra argument of the sampling parameters to the three places that have to
know them:

- the scheduler's request has them as output, so that `max_tokens`, `min_tokens` and a grammar count
  from the answer's beginning (`scheduler.py`);
- the worker's state of the request has them as output, so that penalties and `min_tokens` do as
  well, and its generator has made as many draws (`worker.py`; model runner V2 takes the whole list
  and samples by position, so nothing is needed there);
- the detokenizer has seen them, so that stop strings and characters that span the seam are found,
  and goes on behind the text that was told (`detokenizing.py`).
"""

from __future__ import annotations

from typing import Any

MADE = "nehir_made_token_ids"
TOLD = "nehir_told_characters"


def extra_args(token_ids: list[int], text: str) -> dict[str, Any] | None:
    """text: what has been told of these tokens"""
    return {MADE: token_ids, TOLD: len(text)} if token_ids else None


def made(params: Any) -> list[int]:
    """The tokens that a request's `SamplingParams` say are made already; none without any."""
    given = params.extra_args if params is not None else None
    return list(given.get(MADE, ())) if given else []


def told(params: Any) -> int:
    """How many characters of them have been told."""
    return int(params.extra_args[TOLD])
