"""An engine host is lost at each point of an answer: before its first token, behind any, behind its
last with nobody told, and again while it is being restored.
"""

from __future__ import annotations

import asyncio

import pytest
from pytest_django.fixtures import Settings

from inference import queue, registry, token_log
from inference.engine.fake import word
from inference.host import engine_host
from inference.messages import Finished, QueuedRequest, ReplicaRecord, Tokens
from inference.services import takeover
from inference.token_log import Write
from kernel.database import database
from kernel.redis import Client
from tests.inference.making import Records, StoppedClock, entries, leased, request
from tests.inference.test_engine_host import ended, hosting, quick

LENGTH = 8
PROMPT = [1, 2, 3]
WORDS = [word(PROMPT, position) for position in range(LENGTH)]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(engine_host, "BLOCK_S", 0.1)


async def made(
    redis: Client, incarnation: str, asked: QueuedRequest, first: int, last: int
) -> None:
    """Append the tokens from `first` up to `last`, as that host would."""
    new = WORDS[first:last]
    entry = Tokens(last, "".join(text for _, text in new), tuple(token for token, _ in new))
    write = Write(asked.tenant_id, asked.generation_id, entry, asked.turn)
    if new:
        assert await token_log.append(redis, incarnation, [write]) == [True]


async def lost(redis: Client, incarnation: str) -> None:
    await registry.lose(redis, incarnation)
    await takeover.take_over(redis, StoppedClock(), {incarnation})


async def begun(redis: Client, records: Records, incarnation: str, tokens: int) -> QueuedRequest:
    await renew(redis, incarnation)
    asked = request(max_tokens=LENGTH, prompt=tuple(PROMPT))
    await database(records.open, asked)
    await leased(redis, incarnation, asked)
    await made(redis, incarnation, asked, 0, tokens)
    return asked


async def renew(redis: Client, incarnation: str) -> None:
    record = ReplicaRecord(incarnation, incarnation, "rel_a", "fake", "ready")
    await registry.renew(redis, record, timeout_s=60)


async def told(redis: Client, records: Records, asked: QueuedRequest) -> None:
    """The whole answer is in the log, no token twice, and settled once by its count."""
    async with asyncio.timeout(30):
        found = await ended(records, asked)
    assert (found.state, found.output_tokens) == ("finished", LENGTH)
    log = await entries(redis, asked)
    tokens = [each for each in log if isinstance(each, Tokens)]
    assert "".join(each.text for each in tokens) == "".join(text for _, text in WORDS)
    assert [token for each in tokens for token in each.token_ids] == [token for token, _ in WORDS]
    assert isinstance(log[-1], Finished)


@pytest.mark.parametrize("tokens", range(LENGTH + 1))
async def test_lost_behind_any_token(redis: Client, records: Records, tokens: int) -> None:
    asked = await begun(redis, records, "inc_a", tokens)
    await lost(redis, "inc_a")
    async with hosting(quick(), redis):
        await told(redis, records, asked)


@pytest.mark.parametrize("tokens", [0, 3, LENGTH])
@pytest.mark.parametrize("more", [0, 1])
async def test_lost_again_while_it_is_restored(
    redis: Client, records: Records, tokens: int, more: int
) -> None:
    """Before and behind the first token that the second host made of it."""
    asked = await begun(redis, records, "inc_a", tokens)
    await lost(redis, "inc_a")
    await renew(redis, "inc_b")
    again = await queue.claim(redis, "rel_a", "inc_b")
    assert again is not None
    await made(redis, "inc_b", again, tokens, min(LENGTH, tokens + more))
    await lost(redis, "inc_b")
    async with hosting(quick(), redis):
        await told(redis, records, asked)
