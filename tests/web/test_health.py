from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import connections
from django.test import AsyncRequestFactory
from django.urls import resolve
from pytest_django.fixtures import Settings

from kernel import redis
from web import health
from web.health import Health, healthz, readyz
from web.metrics import metrics

GET = AsyncRequestFactory().get


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> dict[str, health.Check]:
    mine: dict[str, health.Check] = {}
    monkeypatch.setattr(health, "_checks", mine)
    return mine


def saying(found: Health) -> Callable[[], Awaitable[Health]]:
    async def check() -> Health:
        return found

    return check


async def asked(path: str = "/readyz") -> tuple[int, dict[str, Any]]:
    response = await readyz(GET(path))
    return response.status_code, json.loads(response.content)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_the_pages_have_their_addresses(path: str) -> None:
    assert resolve(path).func in {healthz, readyz, metrics}


async def test_alive_without_any_input_or_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object) -> None:
        raise AssertionError("healthz touched something")

    monkeypatch.setattr(redis, "client", forbidden)
    monkeypatch.setattr(health, "database", forbidden)
    monkeypatch.setattr(type(connections["default"]), "cursor", forbidden)
    response = await healthz(GET("/healthz"))

    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]


async def test_other_methods_are_refused() -> None:
    for view in (healthz, readyz, metrics):
        response = await view(AsyncRequestFactory().post("/"))
        assert response.status_code == 405


async def test_ready_only_if_every_check_is_well(checks: dict[str, health.Check]) -> None:
    checks["one"] = saying(Health(True))
    assert await asked() == (200, {"ready": True, "checks": {"one": {"ok": True}}})

    checks["two"] = saying(Health(False, "loading"))
    status, body = await asked()
    assert status == 503
    assert body == {
        "ready": False,
        "checks": {"one": {"ok": True}, "two": {"ok": False, "reason": "loading"}},
    }


async def test_a_check_that_dies_is_told_by_its_kind_alone(
    checks: dict[str, health.Check], caplog: pytest.LogCaptureFixture
) -> None:
    async def dies() -> Health:
        raise ZeroDivisionError("postgres://user:secret@host")

    checks["broken"] = dies
    status, body = await asked()

    assert status == 503
    assert body["checks"]["broken"] == {"ok": False, "reason": "ZeroDivisionError"}
    assert "broken" in caplog.text


async def test_checks_run_at_the_same_time(checks: dict[str, health.Check]) -> None:
    met = asyncio.Barrier(3)

    async def meets() -> Health:
        await met.wait()
        return Health(True)

    checks.update(dict.fromkeys(("a", "b", "c"), meets))
    assert (await asked())[0] == 200


async def test_a_hanging_check_is_bounded_and_not_started_twice(
    checks: dict[str, health.Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = 0
    answer = asyncio.Event()

    async def hangs() -> Health:
        nonlocal starts
        starts += 1
        await answer.wait()
        return Health(True)

    checks["slow"] = hangs
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.01)
    answers = await asyncio.gather(*(asked() for _ in range(20)))
    assert {status for status, _ in answers} == {503}
    assert answers[0][1]["checks"]["slow"]["reason"] == "no answer in 0.01 s"
    assert starts == 1

    answer.set()
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 10)
    assert (await asked())[0] == 200
    assert starts == 2  # its late answer is not kept


async def test_a_probe_that_leaves_does_not_end_the_others_check(
    checks: dict[str, health.Check],
) -> None:
    answer = asyncio.Event()

    async def waits() -> Health:
        await answer.wait()
        return Health(True)

    checks["shared"] = waits
    leaving, staying = asyncio.create_task(asked()), asyncio.create_task(asked())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    answer.set()
    assert (await staying)[0] == 200


async def test_redis_out_of_reach_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    assert await health._redis() == Health(False, "unreachable")


@pytest.mark.django_db(transaction=True)
async def test_the_database_answers() -> None:
    assert await health._database() == Health(True)


async def scraped(settings: Settings, address: str = "127.0.0.1", **headers: str) -> int:
    request = GET("/metrics", headers=headers)
    request.META["REMOTE_ADDR"] = address
    response = await metrics(request)
    if response.status_code == 200:
        assert b"python_info" in response.content
        assert response["Content-Type"].startswith("text/plain; version=")
    else:
        assert b"python_info" not in response.content
    return response.status_code


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("127.0.0.1", 200),
        ("::1", 200),
        ("10.1.2.3", 200),
        ("::ffff:192.168.1.1", 200),
        ("8.8.8.8", 403),
        ("::ffff:8.8.8.8", 403),
        ("2001:4860:4860::8888", 403),
        ("", 403),
        ("unix", 403),
    ],
)
async def test_metrics_are_for_neighbours(settings: Settings, address: str, status: int) -> None:
    settings.METRICS_TOKEN = ""
    assert await scraped(settings, address) == status


async def test_a_proxy_is_no_neighbour(settings: Settings) -> None:
    settings.METRICS_TOKEN = ""
    assert await scraped(settings, "127.0.0.1", **{"X-Forwarded-For": "127.0.0.1"}) == 403


async def test_production_wants_a_token(settings: Settings) -> None:
    settings.METRICS_TOKEN, settings.PRODUCTION = "", True
    assert await scraped(settings) == 403


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer right", 200),
        ("bearer right", 200),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("right", 401),
        ("Bearer rïght", 401),
        ("", 401),
    ],
)
async def test_the_token_opens_the_metrics_from_anywhere(
    settings: Settings, header: str, status: int
) -> None:
    settings.METRICS_TOKEN, settings.PRODUCTION = "right", True
    assert await scraped(settings, "8.8.8.8", Authorization=header) == status


async def test_metrics_of_every_process(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    settings.METRICS_TOKEN = ""
    request = GET("/metrics")
    request.META["REMOTE_ADDR"] = "127.0.0.1"
    response = await metrics(request)

    assert response.status_code == 200
    assert b"python_info" not in response.content  # the process's own registry isn't merged
