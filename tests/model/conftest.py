from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.engine.factory import vllm_engine
from inference.engine.protocol import Engine
from tests.environment import ROOT

# High enough to see it within a short answer.
CLASS_FLOOR = 0.25


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine(model_folder: Path) -> AsyncIterator[Engine]:
    """vLLM by itself."""
    # Small enough for a prompt to come in chunks.
    arguments = {"max_num_batched_tokens": 256}
    async with _started(model_folder, arguments, context_tokens=1024) as vllm:
        yield vllm


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def small_engine(model_folder: Path) -> AsyncIterator[Engine]:
    """One whose KV cache holds a few answers only: 12 blocks of 32 tokens, and four slots."""
    small = {"block_size": 32, "num_gpu_blocks_override": 13, "max_num_seqs": 4}
    arguments = small | {"max_num_batched_tokens": 64}
    async with _started(model_folder, arguments, context_tokens=320) as vllm:
        yield vllm


@asynccontextmanager
async def _started(
    model_folder: Path, arguments: dict[str, Any], *, context_tokens: int
) -> AsyncIterator[Engine]:
    """In float32: in bf16 greedy text depends on what else is in the batch."""
    roots = os.pathsep.join((str(ROOT / "platform"), str(ROOT)))
    with pytest.MonkeyPatch.context() as patch:
        # The scheduler is imported by name in vLLM's own process.
        patch.setenv("PYTHONPATH", roots)
        vllm = vllm_engine(
            model_folder,
            context_tokens=context_tokens,
            arguments={"dtype": "float32"} | arguments,
            kv_cache_gib=1,
            slots=64,
            class_floor=CLASS_FLOOR,
        )
        await vllm.start()
        yield vllm
        await vllm.stop()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever leaves the engine loading again goes last: nothing is waiting for it then."""
    items.sort(key=lambda item: item.path.parts[-2:] == ("model", "test_crash.py"))
