"""vLLM's scheduler with two things more: it can hold single requests and let them go on, and take
over requests whose first tokens were made elsewhere (`restoring.py`).

Upstream pauses the whole engine or nothing. A held request here keeps its KV blocks and its place
in the batch but is not decoded: its next eligible step is out of reach. It is the first to be
preempted when blocks run short, and, preempted, stays waiting until it is released. What it
produces is bit-identical to an uninterrupted run. Rests on vLLM 0.32's `Request.priority`,
`next_decode_eligible_step` and `_handle_blocked_waiting_request`, which its pin guards.

Loaded by name (`scheduler_cls`) inside EngineCore's process; AsyncScheduler is the base, since
with the plain one asynchronous scheduling would be lost on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import Request, RequestStatus

from inference.engine.vllm.restoring import made

NEVER = sys.maxsize
# Preempted before any other: vLLM preempts the largest number first.
LAST = 2**31 - 1


class HoldScheduler(AsyncScheduler):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # internal request id -> the priority to give back
        self._held: dict[str, int] = {}

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
            self._held[request_id] = request.priority
            self._place(request, priority=LAST, eligible_step=NEVER)
        return True

    def release(self, request_id: str) -> bool:
        """Go on decoding it. False if it is not held."""
        priority = self._held.pop(request_id, None)
        request = self.requests.get(request_id)
        if priority is None or request is None:
            return False
        self._place(request, priority=priority, eligible_step=0)
        return True

    def _place(self, request: Request, *, priority: int, eligible_step: int) -> None:
        """A waiting request leaves its heap before its key changes, and enters it again."""
        queue = next((q for q in (self.waiting, self.kv_holding_waiting) if request in q), None)
        if queue is not None:
            queue.remove_request(request)
        request.priority = priority
        request.next_decode_eligible_step = eligible_step
        if queue is not None:
            queue.add_request(request)

    def has_requests(self) -> bool:
        """False when nothing but held requests is left: the engine's loop would spin on them. A
        release wakes it, since it comes as a message.
        """
        if self._held and self.get_num_unfinished_requests() <= len(self._held):
            return bool(self.has_finished_requests())
        return bool(super().has_requests())

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


# EngineCore looks its utilities up by name on itself, in its own process.
EngineCore.nehir_hold = _hold
EngineCore.nehir_release = _release
