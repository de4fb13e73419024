"""What a host asks the scheduler in EngineCore's process, by `call_utility_async`: EngineCore looks
utilities up by name on itself, so they are added to it.
"""

from __future__ import annotations

from vllm.v1.engine.core import EngineCore


def add_to_core() -> None:
    EngineCore.nehir_hold = _hold
    EngineCore.nehir_release = _release
    EngineCore.nehir_held_shares = _held_shares
    EngineCore.nehir_limit = _limit
    EngineCore.nehir_yielded = _yielded
    EngineCore.nehir_kv_cache = _kv_cache


def _hold(core: EngineCore, request_id: str) -> bool:
    return bool(core.scheduler.hold(request_id))


def _release(core: EngineCore, request_id: str) -> bool:
    return bool(core.scheduler.release(request_id))


def _held_shares(core: EngineCore) -> dict[str, float]:
    return dict(core.scheduler.held_shares())


def _limit(core: EngineCore, requests: int | None) -> None:
    core.scheduler.limit(requests)


def _yielded(core: EngineCore) -> tuple[int, list[str]]:
    times, names = core.scheduler.yielded()
    return times, names


def _kv_cache(core: EngineCore) -> list[int]:
    return list(core.scheduler.kv_cache())
