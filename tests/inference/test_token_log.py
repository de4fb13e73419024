from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from inference import redis_keys, token_log
from inference.messages import Failed, Finished, Opened, Started, Tokens, Usage
from inference.token_log import BEGINNING, Write
from kernel.redis import Client, connected
from tests.inference.making import entries, leased, request

USAGE = Usage(prompt_tokens=3, output_tokens=2)
END = Finished(seq=2, text="", finish_reason="stop", usage=USAGE)


def tokens(seq: int, *ids: int) -> Tokens:
    return Tokens(seq=seq, text="".join(f"{number} " for number in ids), token_ids=ids)


async def test_a_log_holds_what_was_appended_in_order(redis: Client) -> None:
    asked = await leased(redis, "inc_a")
    batch = [
        Write(asked.tenant_id, asked.generation_id, entry) for entry in (tokens(1, 7), tokens(2, 8))
    ]
    assert await token_log.append(redis, "inc_a", batch) == [True, True]
    assert await entries(redis, asked) == [
        Opened(prompt_tokens=3),
        Started("inc_a"),
        tokens(1, 7),
        tokens(2, 8),
    ]
    content = await token_log.content(redis, asked.tenant_id, asked.generation_id)
    assert content is not None
    assert (content.text, content.seq, content.final) == ("7 8 ", 2, None)


async def test_only_the_holder_of_the_lease_appends(redis: Client) -> None:
    asked = await leased(redis, "inc_a")
    write = Write(asked.tenant_id, asked.generation_id, tokens(1, 7))
    never_queued = Write("ten_a", "gen_unknown", tokens(1, 7))
    assert await token_log.append(redis, "inc_b", [write]) == [False]
    assert await token_log.append(redis, "inc_a", [never_queued, write]) == [False, True]
    assert [type(entry) for entry in await entries(redis, asked)] == [Opened, Started, Tokens]
    assert not await redis.exists(redis_keys.log("ten_a", "gen_unknown"))


async def test_nothing_follows_the_last_entry(redis: Client) -> None:
    asked = await leased(redis, "inc_a")
    last = Write(asked.tenant_id, asked.generation_id, END)
    assert await token_log.append(redis, "inc_a", [last]) == [True]
    log, lease = (
        redis_keys.log(asked.tenant_id, asked.generation_id),
        redis_keys.lease(asked.generation_id),
    )
    assert 0 < await redis.ttl(log) <= 3600
    assert 0 < await redis.ttl(lease) <= 3600
    late = Write(asked.tenant_id, asked.generation_id, tokens(3, 9))
    assert await token_log.append(redis, "inc_b", [late, last]) == [False, False]
    await token_log.append(redis, "inc_a", [late])
    assert (await entries(redis, asked))[-1] == END


async def test_a_batch_sent_twice_answers_the_same_and_changes_nothing(redis: Client) -> None:
    asked = await leased(redis, "inc_a")
    batch = [
        Write(asked.tenant_id, asked.generation_id, entry)
        for entry in (tokens(1, 7), tokens(2, 8), END)
    ]
    first = await token_log.append(redis, "inc_a", batch)
    written = await entries(redis, asked)
    assert await token_log.append(redis, "inc_a", batch) == first == [True, True, True]
    assert await entries(redis, asked) == written


async def test_a_log_keeps_about_as_many_entries_as_it_may(
    redis: Client, settings: Settings
) -> None:
    settings.LOG_MAX_ENTRIES = 100
    asked = await leased(redis, "inc_a")
    batch = [
        Write(asked.tenant_id, asked.generation_id, tokens(seq, seq)) for seq in range(1, 1001)
    ]
    await token_log.append(redis, "inc_a", batch)
    log = redis_keys.log(asked.tenant_id, asked.generation_id)
    assert 100 <= await redis.xlen(log) <= 300
    content = await token_log.content(redis, asked.tenant_id, asked.generation_id)
    assert content is not None
    assert content.trimmed
    assert content.seq == 1000


async def test_the_content_of_a_log_ends_with_its_last_entry(redis: Client) -> None:
    asked = await leased(redis, "inc_a")
    failed = Failed(seq=1, code="engine_lost", message="Lost.", retryable=True, usage=USAGE)
    batch = [Write(asked.tenant_id, asked.generation_id, entry) for entry in (tokens(1, 7), failed)]
    await token_log.append(redis, "inc_a", batch)
    content = await token_log.content(redis, asked.tenant_id, asked.generation_id)
    assert content is not None
    assert (content.text, content.seq, content.final, content.trimmed) == ("7 ", 1, failed, False)
    assert await token_log.content(redis, "ten_b", asked.generation_id) is None


# An append of so many tokens in one entry, or a reader that reads on, at most so many entries.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["reader a", "reader b", "reader c"]), st.integers(1, 4)),
    ),
    max_size=25,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
async def test_every_reader_gets_every_token_once_and_in_order(
    valkey: object, steps: list[tuple[str, int]]
) -> None:
    async with connected() as redis:
        asked = await leased(redis, "inc_a", request(release_id="rel_property"))
        log = redis_keys.log(asked.tenant_id, asked.generation_id)
        positions = dict.fromkeys(("reader a", "reader b", "reader c"), BEGINNING)
        seen: dict[str, list[int]] = {reader: [] for reader in positions}

        async def read_on(reader: str, count: int | None) -> None:
            for logged in await token_log.read(redis, log, after=positions[reader], count=count):
                positions[reader] = logged.position
                if isinstance(logged.entry, Tokens):
                    seen[reader] += logged.entry.token_ids

        made = 0
        for what, number in steps:
            if what == "append":
                ids = tuple(range(made, made + number))
                made += number
                await token_log.append(
                    redis,
                    "inc_a",
                    [Write(asked.tenant_id, asked.generation_id, tokens(made, *ids))],
                )
            else:
                await read_on(what, number)
        for reader in positions:
            await read_on(reader, None)
        assert all(numbers == list(range(made)) for numbers in seen.values())
