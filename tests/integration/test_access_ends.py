"""What takes a right away ends what goes on by it, in every web process, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.ground.processes import wait_until
from tests.ground.stack import Stack, TenantAccess
from tests.integration.asking import CHAT, asking, client_of, streaming
from tests.integration.chatting import chatting

# Longer than any of these tests waits.
LONG = {"model": "lasting", "max_tokens": 6000}


@pytest.fixture(scope="module")
def second(stack: Stack) -> Iterator[str]:
    """A second web process of the same platform."""
    child, url = stack.start_web()
    yield url
    child.end()


def let_in(client: httpx.Client) -> None:
    """Until what an earlier test gave back is known: the key, and the model."""

    def is_known() -> bool:
        reply = client.get("/v1/models").json()
        return LONG["model"] in [each["id"] for each in reply.get("data", [])]

    wait_until(is_known, what="the key is good")


def id_of(key: str) -> str:
    return key.split("_")[2]


@contextmanager
def changed(stack: Stack, table: str, column: str, value: Any, **where: Any) -> Iterator[None]:
    """Inside this, rows say something else; as an operator with a shell would have it."""
    ((name, is_it),) = where.items()
    query = f"FROM {table} WHERE {name} = :is_it"
    (before,) = stack.store.rows(f"SELECT {column} {query}", is_it=is_it)
    update = f"UPDATE {table} SET {column} = :value WHERE {name} = :is_it"  # noqa: S608
    stack.store.rows(update, value=value, is_it=is_it)
    try:
        yield
    finally:
        stack.store.rows(update, value=before[column], is_it=is_it)


def account_of(stack: Stack, key: str) -> str:
    query = "SELECT service_account_id FROM tenants_apikey WHERE id = :id"
    (row,) = stack.store.rows(query, id=id_of(key))
    found: str = row["service_account_id"]
    return found


def revoked(stack: Stack, tenant: TenantAccess) -> contextlib.AbstractContextManager[None]:
    at = "2020-01-01 00:00:00+00:00"
    return changed(stack, "tenants_apikey", "revoked_at", at, id=id_of(tenant.key))


def account_switched_off(
    stack: Stack, tenant: TenantAccess
) -> contextlib.AbstractContextManager[None]:
    account = account_of(stack, tenant.key)
    return changed(stack, "tenants_serviceaccount", "is_active", False, id=account)


def tenant_suspended(stack: Stack, tenant: TenantAccess) -> contextlib.AbstractContextManager[None]:
    return changed(stack, "tenants_tenant", "is_active", False, id=tenant.id)


def model_taken_away(stack: Stack, tenant: TenantAccess) -> contextlib.AbstractContextManager[None]:
    names = json.dumps(["fake"])
    return changed(stack, "tenants_apikey", "model_names", names, id=id_of(tenant.key))


@pytest.mark.parametrize(
    ("take_away", "code"),
    [
        (revoked, "access_ended"),
        (account_switched_off, "access_ended"),
        (tenant_suspended, "tenant_suspended"),
        (model_taken_away, "model_not_allowed"),
    ],
)
def test_streams_end_in_every_process(stack: Stack, second: str, take_away: Any, code: str) -> None:
    with contextlib.ExitStack() as opened:
        streams = []
        for url in (stack.url, second):
            client = opened.enter_context(client_of(stack, stack.globex, url=url))
            let_in(client)
            streams.append(opened.enter_context(streaming(client, **LONG)))
        others = opened.enter_context(client_of(stack, url=second))
        goes_on = opened.enter_context(streaming(others, **LONG))
        for stream in (*streams, goes_on):
            stream.words(2)
        with take_away(stack, stack.globex):
            for stream in streams:
                *_, last = stream.events()
                assert last["error"]["code"] == code
                record = stack.settled(stream.generation_id)
                assert record["state"] == "cancelled"
                assert 0 < record["output_tokens"] < LONG["max_tokens"]  # type: ignore[operator]
        goes_on.words(2)
        others.delete(f"/v1/generations/{goes_on.generation_id}")
    stack.wait_until_idle()


async def test_a_whole_answer_ends_with_its_key(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {stack.globex.key}"}
    with client_of(stack, stack.globex) as waiting:
        await asyncio.to_thread(let_in, waiting)
    # What tests before have left behind is on its way out.
    await asyncio.to_thread(stack.wait_until_idle)
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=60) as client:
        asked = asyncio.create_task(client.post(CHAT, json=asking(**LONG)))
        await asyncio.to_thread(wait_until, lambda: stack.running() == 1, what="it runs")
        with revoked(stack, stack.globex):
            response = await asked
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "access_ended"
    await asyncio.to_thread(stack.wait_until_idle)


def test_an_answer_ends_though_its_reader_does_not_read(stack: Stack) -> None:
    with client_of(stack, stack.globex) as client:
        let_in(client)
        with streaming(client, **LONG) as stream:
            stream.words(1)  # and no more
            with revoked(stack, stack.globex):
                assert stack.settled(stream.generation_id)["state"] == "cancelled"
    stack.wait_until_idle()


def test_an_application_goes_on_with_its_other_keys_answers(stack: Stack) -> None:
    """One key of two is lost: it reads no more; what another application asked goes on."""
    other = {"Authorization": f"Bearer {stack.globex.other_key}"}
    with (
        httpx.Client(base_url=stack.url, headers=other, timeout=30) as client,
        streaming(client, **LONG) as stream,
    ):
        stream.words(2)
        with revoked(stack, stack.globex):
            with client_of(stack, stack.globex) as refused:
                wait_until(
                    lambda: refused.get("/v1/models").status_code == 401, what="it is refused"
                )
            stream.words(50)
        client.delete(f"/v1/generations/{stream.generation_id}")
    stack.wait_until_idle()


@pytest.mark.parametrize(
    ("table", "column", "value", "key", "event", "close"),
    [
        ("auth_user", "is_active", False, "username", "signed_out", 4401),
        ("tenants_tenant", "is_active", False, "id", "no_membership", 4403),
        ("tenants_membership", "role", "billing", "tenant_id", "no_membership", 4403),
    ],
)
async def test_a_chat_ends_with_its_person(
    stack: Stack,
    second: str,
    table: str,
    column: str,
    value: Any,
    key: str,
    event: str,
    close: int,
) -> None:
    who = stack.globex.username if key == "username" else stack.globex.id
    async with chatting(stack, stack.globex.session, url=second) as socket:
        accepted = await socket.accepted("a long story", model="lasting", high_water_tokens=9999)
        await socket.until("tokens")
        with changed(stack, table, column, value, **{key: who}):
            told = (await socket.until("error"))[-1]
            assert (told["error"]["code"], told["generation"]) == (event, accepted["generation"])
            assert await socket.close_code() == close
            record = await asyncio.to_thread(stack.settled, accepted["generation"])
            assert record["state"] == "cancelled"
    await asyncio.to_thread(stack.wait_until_idle)


async def test_a_chat_ends_with_its_session_and_its_answer_waits(stack: Stack) -> None:
    """Signed out in one browser, the person may be reading on in another."""
    session = stack.globex.session
    query = "SELECT * FROM django_session WHERE session_key = :key"
    (row,) = stack.store.rows(query, key=session)
    async with chatting(stack, session) as socket:
        accepted = await socket.accepted("a long story", model="fake", high_water_tokens=9999)
        await socket.until("tokens")
        stack.store.rows("DELETE FROM django_session WHERE session_key = :key", key=session)
        try:
            assert (await socket.until("error"))[-1]["error"]["code"] == "signed_out"
            assert await socket.close_code() == 4401
        finally:
            columns = ", ".join(row)
            values = ", ".join(f":{name}" for name in row)
            stack.store.rows(f"INSERT INTO django_session ({columns}) VALUES ({values})", **row)  # noqa: S608
    async with chatting(stack, session) as socket:
        await socket.resume(accepted["generation"])
        await socket.until("finished", generation=accepted["generation"])


async def test_an_idle_chat_is_closed_as_well(stack: Stack) -> None:
    name = stack.globex.username
    async with chatting(stack, stack.globex.session) as socket:
        await socket.until("hello")
        with changed(stack, "auth_user", "is_active", False, username=name):
            assert await socket.close_code() == 4401
