"""An engine that only keeps time: continuous batching on one GPU with a bounded KV cache.

The pace is that of the machine on which VTC's authors measured (Sheng et al., OSDI 2024: Llama 2 7B
on an A10G), fitted by a line; so is the rule by which a request is let in: only when the batch can
run to its end without the cache running out, answers' lengths being known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

POOL_TOKENS = 10_000
# There each tenant is a LoRA adapter, which takes so much of the pool.
ADAPTER_TOKENS = 32
PREFILL_TOKENS = 3_072
# Decode steps between two looks at the queue while something runs.
STEPS_BETWEEN = 10

STEP_S, STEP_PER_REQUEST_S, STEP_PER_KV_TOKEN_S = 32.5e-3, 0.18e-3, 0.6e-6
PREFILL_S, PREFILL_PER_TOKEN_S = 5e-3, 0.215e-3


@dataclass(slots=True)
class Running:
    """made: tokens of its answer so far"""

    generation_id: str
    prompt_tokens: int
    output_tokens: int
    made: int = 0

    @property
    def left(self) -> int:
        return self.output_tokens - self.made


@dataclass(slots=True)
class SimulatedEngine:
    """fits, let_in: while a batch of new requests is put together; prefill and decode take time."""

    pool_tokens: int = POOL_TOKENS
    running: list[Running] = field(default_factory=list)
    coming: list[Running] = field(default_factory=list)

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether there is room for it beside what runs, however long that goes on."""
        new = sum(each.prompt_tokens for each in self.coming) + prompt_tokens
        if self.coming and new > PREFILL_TOKENS:
            return False
        candidate = Running("", prompt_tokens, output_tokens, made=1)
        together = [*self.running, *self.coming, candidate]
        return _peak(together) < self.pool_tokens or len(together) == 1

    def let_in(self, running: Running) -> None:
        self.coming.append(running)

    def prefill(self) -> float:
        """Seconds; what came in has its first token then."""
        tokens = sum(each.prompt_tokens for each in self.coming)
        for each in self.coming:
            each.made = 1
        self.running += self.coming
        self.coming = []
        return PREFILL_S + PREFILL_PER_TOKEN_S * tokens

    def decode(self) -> float:
        """Seconds; everything that runs has one token more then."""
        kv_tokens = sum(each.prompt_tokens + each.made for each in self.running)
        for each in self.running:
            each.made += 1
        batch = STEP_PER_REQUEST_S * len(self.running)
        return STEP_S + batch + STEP_PER_KV_TOKEN_S * kv_tokens

    def ended(self) -> list[Running]:
        """What has its last token, taken out."""
        done = [each for each in self.running if each.left <= 0]
        self.running = [each for each in self.running if each.left > 0]
        return done


def _peak(together: list[Running]) -> int:
    """Most KV tokens that these come to hold: as each of them ends, the others' answers have grown
    by what it had left.
    """
    peak = held = 0
    for number, each in enumerate(sorted(together, key=lambda one: -one.left), start=1):
        held += each.prompt_tokens + each.made
        peak = max(peak, held + number * each.left)
    return peak
