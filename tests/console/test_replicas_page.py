"""Who sees the replicas, and what an operator does to one."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.contrib.admin.models import LogEntry
from django.test import AsyncClient, Client
from redis.exceptions import ConnectionError as RedisAway

from console.replicas import supervision
from console.replicas.supervision import EngineProcess, NoSupervisor, NotDone, Supervised
from inference import queue, registry
from inference.messages import ReplicaRecord
from inference.models import EngineKind, Release
from inference.services import replicas
from kernel.redis import Client as Redis
from tests.inference.making import request
from tests.tenants.recorded import recorded
from tests.tenants.worlds import World, person, world

PAGE = "/admin/replicas/"
STATE, DRAIN, RESTART = f"{PAGE}state/", f"{PAGE}drain/", f"{PAGE}restart/"
METHODS = {PAGE: "get", STATE: "get", DRAIN: "post", RESTART: "post"}


class Crew:
    """A supervisor of one engine and a web process that writes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses: NotDone | None = None
        self.phase = "running"

    def state(self) -> Supervised:
        if isinstance(self.refuses, NoSupervisor):
            raise self.refuses
        return Supervised([EngineProcess("engine", "fake", self.phase, 7.0)], "restart of web")

    def drain(self, name: str) -> None:
        self._do(f"drain {name}")

    def restart(self, name: str, *, stop_first: bool) -> None:
        self._do(f"restart {name} {stop_first}")

    def _do(self, what: str) -> None:
        if self.refuses:
            raise self.refuses
        self.asked.append(what)


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Crew:
    crew = Crew()
    monkeypatch.setattr(supervision, "_provided", [crew])
    return crew


def of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("address", METHODS)
def test_for_operators_alone(address: str, crew: Crew, acme: World) -> None:
    data = {"replica": "engine"} if METHODS[address] == "post" else {}
    for stranger in (None, acme.member, person("staff-alone", staff=True)):
        client = of(stranger) if stranger else Client()
        response = getattr(client, METHODS[address])(address, data)
        assert response.status_code == 302
        assert response["Location"].startswith("/admin/login/?next=/admin/replicas/")
    for manager in (acme.admin, acme.owner):
        assert getattr(of(manager), METHODS[address])(address, data).status_code == 403
    assert crew.asked == []


@pytest.mark.parametrize("address", METHODS)
def test_each_by_its_own_method(address: str, crew: Crew, operator: Client) -> None:
    if METHODS[address] == "post":
        assert operator.get(address).status_code == 405
    elif address == STATE:
        assert operator.post(address).status_code == 405
    assert crew.asked == []


def test_the_navigation_leads_operators_there(acme: World, operator: Client) -> None:
    for address in ("/admin/", "/admin/tenants/tenant/"):
        assert f'href="{PAGE}"' in operator.get(address).content.decode()
    assert PAGE not in of(acme.admin).get("/admin/").content.decode()


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", ("Drain this replica?", "Nothing waits.")), ("tr", ("Bekleyen yok.", "durduruldu"))],
)
def test_the_page_speaks(language: str, words: tuple[str, ...], operator: Client) -> None:
    page = operator.get(PAGE, headers={"accept-language": language}).content.decode()
    assert f'lang="{language}"' in page
    for each in words:
        assert each in page


@pytest.mark.parametrize("address", [DRAIN, RESTART])
def test_forms_of_other_pages_do_nothing(address: str, crew: Crew, db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("operator", superuser=True))
    assert client.post(address, {"replica": "engine"}).status_code == 403
    assert crew.asked == []


@pytest.fixture
async def at_the_desk(transactional_db: None) -> AsyncClient:
    """An operator, while requests are answered as the server does: in the event loop."""
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(person)("operator", superuser=True))
    return client


async def on_record() -> list[tuple[str, str, str, str]]:
    def read() -> list[tuple[str, str, str, str]]:
        rows = [*recorded("replica.drain"), *recorded("replica.restart")]
        return [(row.action, row.object_id, row.outcome, row.reason) for row in rows]

    return await sync_to_async(read)()


async def entries() -> list[tuple[str, str, str]]:
    def read() -> list[tuple[str, str, str]]:
        rows = LogEntry.objects.select_related("user").order_by("pk")
        return [(row.user.get_username(), row.object_repr, row.change_message) for row in rows]

    return await sync_to_async(read)()


@pytest.mark.parametrize(
    ("address", "data", "asked", "noted"),
    [
        (DRAIN, {}, "drain engine", "Drained replica engine."),
        (RESTART, {}, "restart engine False", "Restarted replica engine."),
        (RESTART, {"stop_first": "yes"}, "restart engine True", "Restarted replica engine."),
    ],
)
async def test_what_is_asked_for_is_begun_and_written_down(
    at_the_desk: AsyncClient,
    crew: Crew,
    caplog: pytest.LogCaptureFixture,
    address: str,
    data: dict[str, str],
    asked: str,
    noted: str,
) -> None:
    with caplog.at_level(logging.INFO):
        response = await at_the_desk.post(address, {"replica": "engine", **data})
    assert response.status_code == 202
    assert crew.asked == [asked]
    assert await entries() == [("operator", "fake: engine", noted)]
    assert f"By operator: {noted}" in caplog.text
    action = "replica.drain" if address == DRAIN else "replica.restart"
    assert await on_record() == [(action, "engine", "done", "")]


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (NoSupervisor("None."), "No supervisor runs here"),
        (NotDone("A restart is going on."), "It was refused: A restart is going on."),
    ],
)
async def test_why_not_is_told(
    at_the_desk: AsyncClient, crew: Crew, refusal: NotDone, words: str
) -> None:
    crew.refuses = refusal
    for address in (DRAIN, RESTART):
        response = await at_the_desk.post(address, {"replica": "engine"})
        assert response.status_code == 409
        assert response.json()["error"]["message"].startswith(words)
    assert await entries() == []
    reason = "no_supervisor" if isinstance(refusal, NoSupervisor) else str(refusal)
    assert await on_record() == [
        ("replica.drain", "engine", "refused", reason),
        ("replica.restart", "engine", "refused", reason),
    ]


@pytest.mark.parametrize("name", ["web", "worker", "", "engine@2", "x" * 5000])
async def test_nothing_but_engines(at_the_desk: AsyncClient, crew: Crew, name: str) -> None:
    response = await at_the_desk.post(DRAIN, {"replica": name})
    assert response.status_code == 409
    assert "There is no replica" in response.json()["error"]["message"]
    assert crew.asked == []


async def test_the_state(at_the_desk: AsyncClient, crew: Crew, redis: Redis) -> None:
    def build() -> tuple[World, Release]:
        return world("acme"), Release.objects.create(
            name="fake", engine=EngineKind.FAKE, context_tokens=64
        )

    acme, release = await sync_to_async(build)()
    record = ReplicaRecord(
        *("engine", "inc_a", release.pk, "fake", "ready"),
        running=3,
        since=5.0,
        kv_used_blocks=2,
        kv_total_blocks=8,
    )
    record = msgspec.structs.replace(record, slots=64, limit=7, objective_s=0.04)
    await registry.renew(redis, record, timeout_s=60)
    await queue.enqueue(redis, request(acme.tenant.pk, release_id=release.pk))
    response = await at_the_desk.get(STATE)
    assert "no-store" in response["Cache-Control"]
    found = response.json()
    assert (found["redis"], found["supervisor"], found["going_on"]) == (
        True,
        True,
        "restart of web",
    )
    (replica,) = found["replicas"]
    told = {name: replica[name] for name in ("replica", "process", "state", "running", "since")}
    assert told == {
        "replica": "engine",
        "process": "engine",
        "state": "ready",
        "running": 3,
        "since": 5.0,
    }
    (latency,) = found["latency"]
    assert (latency["limit"], latency["slots"], latency["objective_ms"]) == (7, 64, 40.0)
    (waits,) = found["queues"]
    assert (waits["release"], waits["waiting"]) == ("fake", 1)
    assert waits["shares"][0]["tenant"] == acme.tenant.name
    assert waits["shares"][0]["begins_p50_s"] is None
    assert (replica["kv_used_blocks"], replica["kv_total_blocks"]) == (2, 8)
    (shared,) = found["shares"]
    (share,) = shared["shares"]
    assert (shared["release"], share["tenant"], share["entitled"]) == (
        "fake",
        acme.tenant.name,
        100.0,
    )


async def test_the_state_without_redis(
    at_the_desk: AsyncClient, crew: Crew, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: Redis) -> None:
        raise RedisAway("gone")

    monkeypatch.setattr(replicas, "replicas", away)
    crew.phase = "stopped"
    found = (await at_the_desk.get(STATE)).json()
    assert (found["redis"], found["queues"], found["shares"]) == (False, [], [])
    # What the supervisor knows is known all the same.
    assert [(row["process"], row["state"]) for row in found["replicas"]] == [("engine", "stopped")]


async def test_the_state_without_a_supervisor(
    at_the_desk: AsyncClient, crew: Crew, redis: Redis
) -> None:
    crew.refuses = NoSupervisor("None.")
    found = (await at_the_desk.get(STATE)).json()
    assert (found["supervisor"], found["replicas"], found["redis"]) == (False, [], True)
