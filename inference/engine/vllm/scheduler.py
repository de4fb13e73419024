"""vLLM's scheduler with three things more: it can hold single requests and let them go on, give a
running request's slot to a waiting one of a higher class (`inference/engine/classes.py`), and take
over requests whose first tokens were made elsewhere (`restoring.py`).

Upstream pauses the whole engine or nothing, and at a full batch an urgent request waits. A request
that is set aside here, held for its reader or parked for a higher class, keeps its KV blocks but is
not decoded: its next eligible step is out of reach. It is the first to be preempted when blocks run
short, for running requests and for waiting ones, and, preempted, stays waiting until it may go on.
What it produces is bit-identical to an uninterrupted run. A slot is a place in a step: with model
runner V1, which knows only who is in its step, those set aside have none; V2 has a place for each
running request, so there they are preempted when others want it. Rests on vLLM 0.32's
`Request.priority`, `next_decode_eligible_step`, `max_num_active_reqs`, `_preempt_request` and
`_handle_blocked_waiting_request`, which its pin guards.

Loaded by name (`scheduler_cls`) inside EngineCore's process; AsyncScheduler is the base, since
with the plain one asynchronous scheduling would be lost on a GPU.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.request import Request, RequestStatus

from inference.engine.classes import Claimant, Debts, State, seats
from inference.engine.vllm import grammar, utilities
from inference.engine.vllm.restoring import made

# In vLLM's `additional_config`: what a lower class gets at least of the steps of those above it.
FLOOR = "nehir_class_floor"
NEVER = sys.maxsize
# vLLM starts the smallest number first and preempts the largest. Else it is the class's rank.
PROMOTED, LAST = -1, 2**31 - 1


class HoldScheduler(AsyncScheduler):  # type: ignore[misc]
    max_num_active_reqs: int
    max_num_running_reqs: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # By internal request ids, of requests that have not finished.
        self._ranks: dict[str, int] = {}
        self._held: set[str] = set()
        self._parked: set[str] = set()
        self._promoted: set[str] = set()
        # of those set aside, from which step on they may be decoded once they aren't
        self._eligible: dict[str, int] = {}
        self._debts = Debts(float(self.vllm_config.additional_config.get(FLOOR, 0.0)))
        self._times_parked = 0
        # What vLLM was told; with those set aside it is let have as many more.
        self._most_active: int = self.max_num_active_reqs
        self._most_running: int = self.max_num_running_reqs
        # and of these, how many may share a step at present
        self._limit = self._most_active
        self._aside = 0
        self._claimants: list[Claimant] = []
        # one that waits and for which blocks were short in the last step
        self._short: Request | None = None
        self._preemptions = 0
        self._allocate = self.kv_cache_manager.allocate_slots
        self.kv_cache_manager.allocate_slots = self._allocate_slots

    def add_request(self, request: Request) -> None:
        """What was made before is output from the beginning; it is computed with the prompt, as
        after a preemption.
        """
        if tokens := made(request.sampling_params):
            request.append_output_token_ids(tokens)
        self._ranks[request.request_id] = request.priority
        super().add_request(request)

    # -- Held for their readers

    def hold(self, request_id: str) -> bool:
        """Stop decoding it. False if it is unknown or has finished; holding twice is one hold."""
        request = self.requests.get(request_id)
        if request is None or request.is_finished():
            return False
        self._held.add(request_id)
        self._promoted.discard(request_id)
        self._place(request)
        return True

    def release(self, request_id: str) -> bool:
        """Go on decoding it, once it has a slot. False if it is not held."""
        request = self.requests.get(request_id)
        if request is None or request_id not in self._held:
            return False
        self._held.remove(request_id)
        if request.status == RequestStatus.RUNNING:
            self._parked.add(request_id)
        # Of drafts from before, an asynchronous worker no longer knows the tokens.
        request.spec_token_ids = []
        self._place(request)
        return True

    def held_shares(self) -> dict[str, float]:
        """Of the KV cache, the share that each held request keeps. A block that several requests
        use counts for each of them in part.
        """
        total = self.kv_cache_manager.block_pool.num_gpu_blocks - 1
        return {request_id: self._blocks(request_id) / total for request_id in self._held}

    def limit(self, requests: int | None) -> None:
        """How many may share a step from now on; None for all there are slots for."""
        self._limit = self._most_active if requests is None else min(requests, self._most_active)

    def yielded(self) -> tuple[int, list[str]]:
        """How often requests gave up their slots, and which of them wait for one."""
        return self._times_parked, [name for name in self._parked if name not in self._held]

    def kv_cache(self) -> tuple[int, int, int, int]:
        """As `KVCache`: blocks used and in all, tokens of each, preemptions."""
        pool = self.kv_cache_manager.block_pool
        total = pool.num_gpu_blocks - 1
        return total - pool.get_num_free_blocks(), total, self.block_size, self._preemptions

    def _blocks(self, request_id: str) -> float:
        groups = self.kv_cache_manager.get_blocks(request_id).blocks
        kept = (block for group in groups for block in group)
        return float(sum(1 / block.ref_cnt for block in kept if not block.is_null))

    def _is_aside(self, request: Request) -> bool:
        return request.request_id in self._held or request.request_id in self._parked

    def _place(self, request: Request) -> None:
        """Where it belongs in vLLM's order. A waiting request leaves its heap before its key
        changes, and enters it again.
        """
        queue = next((q for q in (self.waiting, self.kv_holding_waiting) if request in q), None)
        if queue is not None:
            queue.remove_request(request)
        name = request.request_id
        if self._is_aside(request):
            self._eligible.setdefault(name, request.next_decode_eligible_step)
            request.priority, request.next_decode_eligible_step = LAST, NEVER
        else:
            request.priority = PROMOTED if name in self._promoted else self._ranks[name]
            request.next_decode_eligible_step = self._eligible.pop(
                name, request.next_decode_eligible_step
            )
        if queue is not None:
            queue.add_request(request)

    # -- Slots, by class

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        wanted = bool(self._held or self._parked or self.waiting or self.kv_holding_waiting)
        wanted = wanted or len(self.running) > self._limit
        if wanted:
            self._share_out()
        output = super().schedule(*args, **kwargs)
        if wanted or self._debts:
            self._note(output.num_scheduled_tokens)
        return output

    def _share_out(self) -> None:
        """Before a step: who has its slots."""
        self._claimants = self._wanting()
        promoted = Counter(self._ranks[name] for name in self._promoted)
        free = self._limit - self.num_waiting_for_streaming_input
        slots = self._slots_left(free)
        change = seats(slots, self._claimants, self._debts.due(promoted))
        self._promoted.update(change.promote)
        self._parked.update(change.park)
        self._parked.difference_update(change.resume)
        self._times_parked += len(change.park)
        for name in {*change.promote, *change.park, *change.resume}:
            self._place(self.requests[name])
        self._allow(sum(map(self._is_aside, self.running)))
        if self.use_v2_model_runner:
            starting = sum(not self._is_aside(each) for each in self._startable())
            for _ in range(min(starting, len(self.running) + starting - free)):
                self._preempt_aside()

    def _allow(self, aside: int) -> None:
        """aside: how many are among the running and have no slots"""
        self._aside = aside
        if not self.use_v2_model_runner:
            self.max_num_active_reqs = self._limit + aside
            self.max_num_running_reqs = min(self._limit, self._most_running) + aside

    def _slots_left(self, slots: int) -> int:
        """A higher class that is short of blocks takes them as it takes a slot: as if there was no
        free one, a lower class's request gives up its own.
        """
        short, self._short = self._short, None
        active = [each for each in self._claimants if each.state == "active"]
        if short is None or short.request_id not in self._ranks:
            return slots
        rank = self._ranks[short.request_id]
        lower = any(each.rank > rank and not each.promoted for each in active)
        return min(slots, len(active)) if lower else slots

    def _wanting(self) -> list[Claimant]:
        """All that could be in the next step, but for blocks and slots."""
        active = [each for each in self.running if not self._is_aside(each)]
        parked = [self.requests[name] for name in self._parked if name not in self._held]
        waiting = [each for each in self._startable() if not self._is_aside(each)]
        states: tuple[tuple[State, list[Request]], ...] = (
            ("active", active),
            ("parked", parked),
            ("waiting", waiting),
        )
        return [self._claimant(each, state) for state, found in states for each in found]

    def _claimant(self, request: Request, state: State) -> Claimant:
        name = request.request_id
        promoted = name in self._promoted
        return Claimant(name, self._ranks[name], request.arrival_time, state, promoted)

    def _startable(self) -> list[Request]:
        """Of the waiting those that wait for nothing but room, or to be let go on."""
        return [
            request
            for request in (*self.waiting, *self.kv_holding_waiting)
            if not self._is_blocked_waiting_status(request.status) or _has_grammar(request)
        ]

    def _note(self, scheduled: dict[str, int]) -> None:
        """After a step: what it came to for each class."""
        served = Counter(self._ranks[name] for name in scheduled)
        waiting = {each.rank for each in self._claimants if each.id not in scheduled}
        self._debts.note(served, waiting, present={*served, *waiting})
        self._claimants = []
        for name in [name for name in self._promoted if not self._debts.owes(self._ranks[name])]:
            self._promoted.remove(name)
            self._place(self.requests[name])

    # -- Blocks

    def _allocate_slots(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """vLLM preempts for a running request alone; a waiting one would wait for blocks of those
        set aside for as long as they are.
        """
        blocks = self._allocate(request, *args, **kwargs)
        if request.status == RequestStatus.RUNNING:
            return blocks
        rank = self._ranks[request.request_id]
        while blocks is None and self._preempt_aside(lowest_rank=rank):
            blocks = self._allocate(request, *args, **kwargs)
        if blocks is None:
            self._short = request
        return blocks

    def _preempt_aside(self, *, lowest_rank: int = 0) -> bool:
        """Take the newest of those set aside out of the batch, of the parked only of this class or
        a lower one; to be computed anew once it goes on. False if none can be.
        """
        found = [
            request
            for request in self.running
            if self._is_aside(request)
            and (request.request_id in self._held or self._ranks[request.request_id] >= lowest_rank)
            and self._request_blocks_can_be_freed(request)
        ]
        if not found:
            return False
        newest = max(found, key=lambda request: request.arrival_time)
        self.running.remove(newest)
        self._preempt_request(newest, time.monotonic(), drop_stale_output=self.requires_kv_delivery)
        return True

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """What it was promoted to was a slot, and that is gone. And for one that was set aside vLLM
        may no longer have one more.
        """
        self._preemptions += 1
        if request.request_id in self._promoted:
            self._promoted.remove(request.request_id)
            self._place(request)
        if self._is_aside(request):
            self._allow(self._aside - 1)
        super()._preempt_request(request, *args, **kwargs)

    # -- The rest of vLLM's own way

    def get_num_unfinished_requests(self) -> int:
        """Without the held: the engine's loop would spin on them when nothing else is left. A
        release wakes it, since it comes as a message.
        """
        return max(0, int(super().get_num_unfinished_requests()) - len(self._held))

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        name = request.request_id
        for known in (self._held, self._parked, self._promoted):
            known.discard(name)
        self._eligible.pop(name, None)
        self._ranks.pop(name, None)
        return super()._free_request(request, *args, **kwargs)

    def _handle_blocked_waiting_request(self, request: Request) -> bool:
        if self._is_aside(request):
            return False
        waited = request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
        ready = bool(super()._handle_blocked_waiting_request(request))
        if ready and waited and (tokens := made(request.sampling_params)):
            # Compiled just now, the grammar is at its beginning.
            request.structured_output_request.grammar.accept_tokens(request.request_id, tokens)
        return ready


def _has_grammar(request: Request) -> bool:
    """It waited for its grammar, which is there, or has failed to come."""
    waits = request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    return waits and request.structured_output_request.grammar is not None


utilities.add_to_core()
grammar.fail_instead_of_ending()
