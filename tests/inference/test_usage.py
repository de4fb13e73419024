"""The roll-up: every settled generation is in its hour once, to the last token."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.models import Generation, Release, Route, State, UsageHour
from inference.services import usage
from tenants import scope
from tenants.models import Tenant

START = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
SUMS = ("requests", "cancelled", "prompt_tokens", "cached_tokens", "output_tokens")

# tenant, hours later, principal, state, prompt tokens, output tokens; or None: count now
ENDS = st.tuples(
    st.integers(0, 1),
    st.integers(-3, 3),
    st.sampled_from(["user:1", "service_account:a"]),
    st.sampled_from([State.FINISHED, State.CANCELLED, State.FAILED, State.OPEN]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
)
STEPS = st.lists(st.one_of(ENDS, st.sampled_from(["count", "rebuild"])), max_size=12)


@pytest.fixture
def route(db: None) -> Route:
    release = Release.objects.create(name="small", engine="fake", context_tokens=64)
    return Route.objects.create(name="small", release=release)


def settled(
    route: Route,
    tenant: Tenant,
    *,
    at: datetime = START,
    principal: str = "user:1",
    state: State = State.FINISHED,
    prompt: int = 3,
    output: int = 5,
) -> Generation:
    with scope.tenant(tenant.pk):
        made: Generation = Generation.objects.create(
            tenant=tenant,
            principal=principal,
            route=route,
            release=route.release,
            state=state,
            error_code="engine_lost" if state == State.FAILED else "",
            prompt_tokens=prompt,
            cached_tokens=prompt // 2,
            output_tokens=output,
            created_at=START,
            settled_at=None if state == State.OPEN else at,
        )
    return made


def expected() -> dict[tuple[str, ...], tuple[int, ...]]:
    """Added up by hand, a generation at a time."""
    sums: dict[tuple[str, ...], Counter[str]] = {}
    with scope.whole_platform():
        for each in Generation.objects.exclude(state=State.OPEN):
            hour = each.settled_at.astimezone(UTC).strftime("%Y-%m-%d %H")
            key = (each.tenant_id, hour, each.principal, each.error_code)
            total = sums.setdefault(key, Counter())
            total["requests"] += 1
            total["cancelled"] += each.state == State.CANCELLED
            for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
                total[name] += getattr(each, name)
    return {key: tuple(total[name] for name in SUMS) for key, total in sums.items()}


def found() -> dict[tuple[str, ...], tuple[int, ...]]:
    with scope.whole_platform():
        return {
            (row.tenant_id, f"{row.hour:%Y-%m-%d %H}", row.principal, row.error_code): tuple(
                getattr(row, name) for name in SUMS
            )
            for row in UsageHour.objects.all()
        }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=STEPS)
def test_the_hours_come_to_what_the_generations_do(route: Route, steps: list[object]) -> None:
    with transaction.atomic():
        tenants = [Tenant.objects.create(slug=slug, name=slug) for slug in ("a", "b")]
        for step in steps:
            if step == "count":
                usage.count_settled(batch=2)
            elif step == "rebuild":
                usage.rebuild()
            elif isinstance(step, tuple):
                which, later, principal, state, prompt, output = step
                settled(
                    route,
                    tenants[which],
                    at=START + timedelta(hours=later),
                    principal=principal,
                    state=state,
                    prompt=prompt,
                    output=output,
                )
        usage.count_settled(batch=2)
        assert found() == expected()
        usage.rebuild()
        assert found() == expected()
        transaction.set_rollback(True)


def test_counting_again_changes_nothing(route: Route) -> None:
    tenant = Tenant.objects.create(slug="a", name="a")
    settled(route, tenant)
    assert usage.count_settled() == 1
    assert usage.count_settled() == 0
    assert [sums[0] for sums in found().values()] == [1]


def test_what_is_settled_late_is_added_to_its_hour(route: Route) -> None:
    tenant = Tenant.objects.create(slug="a", name="a")
    settled(route, tenant, at=START + timedelta(hours=5))
    usage.count_settled()
    settled(route, tenant, at=START)
    usage.count_settled()
    assert len(found()) == 2
    assert found() == expected()


def test_a_damaged_roll_up_is_made_anew(route: Route, capsys: pytest.CaptureFixture[str]) -> None:
    tenant = Tenant.objects.create(slug="a", name="a")
    settled(route, tenant)
    usage.count_settled()
    with scope.whole_platform():
        UsageHour.objects.update(output_tokens=99)
    call_command("rebuild_usage")
    assert "1 hours of usage" in capsys.readouterr().out
    assert found() == expected()


def test_what_is_not_counted_is_found_without_reading_the_rest(route: Route) -> None:
    with scope.whole_platform():
        waiting = Generation.objects.filter(settled_at__isnull=False, usage_counted=False)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET LOCAL enable_seqscan = off")
            plan = waiting.order_by("settled_at").values_list("pk")[:2].explain()
    assert "generation_uncounted" in plan
