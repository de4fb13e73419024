from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import openai
import pytest

from tests.ground.stack import Stack


@pytest.fixture
def api(stack: Stack) -> Iterator[openai.OpenAI]:
    """The official client, with acme's key."""
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key=stack.acme.key, max_retries=0) as client:
        yield client


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx.Client]:
    """A bare client, with acme's key."""
    headers = {"Authorization": f"Bearer {stack.acme.key}"}
    with httpx.Client(base_url=stack.url, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
async def ahttp(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {stack.acme.key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as client:
        yield client
