"""vLLM's scheduler with two things more: it can hold single requests and let them go on, and take
over requests whose first tokens were made elsewhere (`restoring.py`).

Upstream pauses the whole engine or nothing. A held request here keeps its KV blocks and its place
in the batch but is not decoded: its next eligible step is out of reach. It is the first to be
preempted when blocks run short, for running requests and for waiting ones, and, preempted, stays
waiting until it is released. What it produces is bit-identical to an uninterrupted run. Rests on
vLLM 0.32's `Request.priority`, `next_decode_eligible_step`, `_preempt_request` and
`_handle_blocked_waiting_request`, which its pin guards.

Loaded by name (`scheduler_cls`) inside EngineCore's process; AsyncScheduler is the base, since
with the plain one asynchronous scheduling would be lost on a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import Request, RequestStatus

from inference.engine.vllm import grammar
from inference.engine.vllm.restoring import made

NEVER = sys.maxsize
# Preempted before any other: vLLM preempts the largest number first.
LAST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands in vLLM's order, and from which step on it may be decoded."""

    priority: int
    eligible_step: int


HELD = Place(LAST, NEVER)


class HoldScheduler(AsyncScheduler):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # internal request id -> the place to give back
        self._held: dict[str, Place] = {}
        self._preemptions = 0
        self._allocate = self.kv_cache_manager.allocate_slots
        self.kv_cache_manager.allocate_slots = self._allocate_slots

    def add_request(self, request: Request) -> None:
        """What was made before is output from the beginning; it is computed with the prompt, as
        after a preemption.
        """
        if tokens := made(request.sampling_params):
            request.append_output_token_ids(tokens)
        super().add_request(request)

    def hold(self, request_id: str) -> bool:
        """Stop decoding it. False if it is unknown or has finished; holding twice is one hold."""
        request = self.requests.get(request_id)
        if request is None or request.is_finished():
            return False
        if request_id not in self._held:
            place = Place(request.priority, request.next_decode_eligible_step)
            self._held[request_id] = place
            self._put(request, HELD)
        return True

    def release(self, request_id: str) -> bool:
        """Go on decoding it. False if it is not held."""
        place = self._held.pop(request_id, None)
        request = self.requests.get(request_id)
        if place is None or request is None:
            return False
        # Of drafts from before, an asynchronous worker no longer knows the tokens.
        request.spec_token_ids = []
        self._put(request, place)
        return True

    def held_shares(self) -> dict[str, float]:
        """Of the KV cache, the share that each held request keeps. A block that several requests
        use counts for each of them in part.
        """
        total = self.kv_cache_manager.block_pool.num_gpu_blocks - 1
        return {request_id: self._blocks(request_id) / total for request_id in self._held}

    def kv_cache(self) -> tuple[int, int, int, int]:
        """As `KVCache`: blocks used and in all, tokens of each, preemptions."""
        pool = self.kv_cache_manager.block_pool
        total = pool.num_gpu_blocks - 1
        return total - pool.get_num_free_blocks(), total, self.block_size, self._preemptions

    def _preempt_request(self, *args: Any, **kwargs: Any) -> Any:
        self._preemptions += 1
        return super()._preempt_request(*args, **kwargs)

    def _blocks(self, request_id: str) -> float:
        groups = self.kv_cache_manager.get_blocks(request_id).blocks
        kept = (block for group in groups for block in group)
        return float(sum(1 / block.ref_cnt for block in kept if not block.is_null))

    def _put(self, request: Request, place: Place) -> None:
        """A waiting request leaves its heap before its key changes, and enters it again."""
        queue = next((q for q in (self.waiting, self.kv_holding_waiting) if request in q), None)
        if queue is not None:
            queue.remove_request(request)
        request.priority = place.priority
        request.next_decode_eligible_step = place.eligible_step
        if queue is not None:
            queue.add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """A full batch makes no room for a waiting request, even if most of it is held."""
        waiting = self._may_start() if self._held else 0
        slots = len(self.running) + self.num_waiting_for_streaming_input
        for _ in range(min(waiting, slots + waiting - self.max_num_active_reqs)):
            self._preempt_held()
        return super().schedule(*args, **kwargs)

    def _may_start(self) -> int:
        """How many wait for nothing but room."""
        return sum(
            request.request_id not in self._held
            and not self._is_blocked_waiting_status(request.status)
            for request in (*self.waiting, *self.kv_holding_waiting)
        )

    def _allocate_slots(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """vLLM preempts for a running request alone; a waiting one would wait for blocks of held
        requests for as long as they are held.
        """
        blocks = self._allocate(request, *args, **kwargs)
        while blocks is None and request.status != RequestStatus.RUNNING and self._preempt_held():
            blocks = self._allocate(request, *args, **kwargs)
        return blocks

    def _preempt_held(self) -> bool:
        """Take the newest of the held out of the batch, to be computed anew once it is released.
        False if none can be.
        """
        held = [
            request
            for request in self.running
            if request.request_id in self._held and self._request_blocks_can_be_freed(request)
        ]
        if not held:
            return False
        newest = max(held, key=lambda request: request.arrival_time)
        self.running.remove(newest)
        self._preempt_request(newest, time.monotonic(), drop_stale_output=self.requires_kv_delivery)
        return True

    def get_num_unfinished_requests(self) -> int:
        """Without the held: the engine's loop would spin on them when nothing else is left. A
        release wakes it, since it comes as a message.
        """
        return max(0, int(super().get_num_unfinished_requests()) - len(self._held))

    def finish_requests(
        self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus
    ) -> list[Request]:
        finished: list[Request] = super().finish_requests(request_ids, finished_status)
        for request in finished:
            self._held.pop(request.request_id, None)
        return finished

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        self._held.pop(request.request_id, None)
        return super()._free_request(request, *args, **kwargs)

    def _handle_blocked_waiting_request(self, request: Request) -> bool:
        if request.request_id in self._held:
            return False
        waited = request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
        ready = bool(super()._handle_blocked_waiting_request(request))
        if ready and waited and (tokens := made(request.sampling_params)):
            # Compiled just now, the grammar is at its beginning.
            request.structured_output_request.grammar.accept_tokens(request.request_id, tokens)
        return ready


def _hold(core: EngineCore, request_id: str) -> bool:
    return bool(core.scheduler.hold(request_id))


def _release(core: EngineCore, request_id: str) -> bool:
    return bool(core.scheduler.release(request_id))


def _held_shares(core: EngineCore) -> dict[str, float]:
    return dict(core.scheduler.held_shares())


def _kv_cache(core: EngineCore) -> list[int]:
    return list(core.scheduler.kv_cache())


# EngineCore looks its utilities up by name on itself, in its own process.
EngineCore.nehir_hold = _hold
EngineCore.nehir_release = _release
EngineCore.nehir_held_shares = _held_shares
EngineCore.nehir_kv_cache = _kv_cache
grammar.fail_instead_of_ending()
