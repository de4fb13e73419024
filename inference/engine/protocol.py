"""The contract between the engine host and an engine.

An engine turns prompts into streams of deltas. What it can't do itself it says in its capabilities,
and the host makes up for it. An adapter translates every error of its engine into `EngineError` or
`EngineDead` and leaves nothing running when a stream is closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

FinishReason = Literal["stop", "length", "cancelled"]


class EngineError(Exception):
    """This one request failed in the engine; others go on. `args[0]` is for the operator's log, not
    for users.
    """


class GrammarFailed(EngineError):
    """What the answer has to be a value of can't be compiled, or has become too complex while the
    answer was made.
    """


class EngineDead(EngineError):
    """The engine as a whole has failed; nothing more will come from it."""


class Unsupported(EngineError):
    """Asked for something that the engine's capabilities say it can't do."""


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to choose tokens. Ranges are checked at admission, in OpenAI's terms.

    max_tokens: most tokens to make, at least 1; min_tokens: fewest, before which nothing ends it
    json_schema: as JSON text, checked by `grammar`; the answer is a value of it
    stop: up to four strings that end the answer and are not part of it
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    min_tokens: int = 0
    json_schema: str | None = None


class EngineRequest(msgspec.Struct, frozen=True):
    """One generation as an engine sees it.

    prompt_token_ids: the rendered prompt, never empty
    cache_salt: splits the prefix cache; derived from the tenant on the server
    rank: of its priority class, 0 being the highest; set by the host
    """

    generation_id: str
    prompt_token_ids: list[int]
    sampling: Sampling
    cache_salt: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """What a step added to one generation.

    text: may be empty while a character is incomplete or a stop string may be starting
    token_ids: the tokens made, in order; their number is what is billed
    finish_reason: set on the last delta, which may carry text and tokens as well
    cached_tokens: prompt tokens served from the prefix cache, on the first delta
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """hold: can pause one request and keep its state
    restore: can go on from output tokens made elsewhere
    restores_exactly: and then makes the very tokens that would have come undisturbed
    grammar: can keep an answer to a JSON schema
    yields: gives a running request's slot to a waiting one of a higher class (`classes.py`)
    kv_cache: can tell how much of its KV cache is used
    """

    hold: bool
    restore: bool
    restores_exactly: bool = True
    grammar: bool = False
    yields: bool = False
    kv_cache: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """running: requests that are decoding; waiting: requests submitted and not yet decoding;
    waiting_tokens: what of these is still to be prefilled, prompts and output made elsewhere
    """

    running: int
    waiting: int
    waiting_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Yielded:
    """times: how often requests have given their slots to higher classes since the start
    now: ids of generations that have done so and wait to go on, those held besides left out
    """

    times: int = 0
    now: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KVCache:
    """used_blocks: kept by requests, held ones too, not what is only cached; block_tokens: of each
    preemptions: how often since its start a request lost its blocks and had to be computed anew
    """

    used_blocks: int
    total_blocks: int
    block_tokens: int
    preemptions: int = 0


# Below every class.
LOWEST_RANK = 2**15


class Engine(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    async def start(self) -> None:
        """Load the model. Returns when requests can be submitted. Raises EngineDead if it can't."""
        ...

    async def stop(self) -> None:
        """Free everything, child processes too. Streams still open end with EngineDead."""
        ...

    def submit(self, request: EngineRequest) -> AsyncGenerator[Delta, None]:
        """The deltas of one generation, the last with a finish reason. Closing the generator aborts
        the request.

        Raises EngineError for this request, GrammarFailed for its schema, Unsupported without the
        capability for that, EngineDead for the engine.
        """
        ...

    async def abort(self, generation_id: str) -> None:
        """End a request; its stream ends with reason `cancelled`. Unknown ids are ignored."""
        ...

    async def hold(self, generation_id: str) -> None:
        """Stop decoding one request, keep its state. Raises Unsupported without the capability."""
        ...

    async def release(self, generation_id: str) -> None:
        """Go on with a held request. Raises Unsupported without the capability."""
        ...

    async def held_shares(self) -> dict[str, float]:
        """Of the KV cache, the share (0 to 1) that each held request keeps, by generation id. Empty
        if nothing is held, or if it keeps nothing there.
        """
        ...

    async def kv_cache(self) -> KVCache:
        """How much of its KV cache is used. Raises Unsupported without the capability."""
        ...

    def restore(
        self, request: EngineRequest, output_token_ids: list[int], text: str
    ) -> AsyncGenerator[Delta, None]:
        """Go on after `output_token_ids` as if this engine had made them; `text` is what has been
        told of them, which may end before they do. The deltas tell the rest. Raises Unsupported
        without the capability.
        """
        ...

    async def limit(self, requests: int | None) -> None:
        """How many may share a step from now on, at least 1; None for all slots. Those of lower
        classes beyond it give way, as to a higher one. Only with the capability `yields`.
        """
        ...

    async def yielded(self) -> Yielded:
        """Raises Unsupported without the capability."""
        ...

    def load(self, *, lowest_rank: int = LOWEST_RANK) -> Load:
        """lowest_rank: of requests up to this rank alone"""
        ...

    async def health(self) -> None:
        """Raises EngineDead if the engine can't make tokens any more."""
        ...
