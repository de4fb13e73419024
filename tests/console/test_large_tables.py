"""Pages over large tables: what the database would do for them, never how long it took."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from inference.models import Generation, Release, Route
from streaming.models import Conversation, Message
from tenants import scope
from tests.tenants.worlds import NOW, World

ROWS = 4_000
QUERIES = 14
PAGES = {
    "generations": "/admin/inference/generation/",
    "generations, page 3": "/admin/inference/generation/?p=3",
    "conversations": "/admin/streaming/conversation/",
    "conversations, page 3": "/admin/streaming/conversation/?p=3",
}
BIG = ("inference_generation", "streaming_conversation", "streaming_message")


@pytest.fixture
def crowded(acme: World, globex: World) -> World:
    """Two tenants with half of the rows each, and a database that knows how many there are."""
    release = Release.objects.create(name="small", engine="fake", context_tokens=64)
    route = Route.objects.create(name="small", release=release)
    with scope.whole_platform():
        for number, world in enumerate((acme, globex)):
            times = [NOW + timedelta(seconds=2 * n + number) for n in range(ROWS // 2)]
            common: dict[str, Any] = {"tenant": world.tenant}
            Generation.objects.bulk_create(
                (
                    Generation(
                        **common,
                        principal=f"user:{n % 50}",
                        route=route,
                        release=release,
                        prompt_tokens=1,
                        created_at=at,
                    )
                    for n, at in enumerate(times)
                ),
                batch_size=1000,
            )
            talks = [Conversation(**common, user=world.member) for _ in times]
            Conversation.objects.bulk_create(talks, batch_size=1000)
            Message.objects.bulk_create(
                (Message(**common, conversation=talk, author="user", text="x") for talk in talks),
                batch_size=1000,
            )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return acme


def client(crowded: World, operator: Client, who: str) -> Client:
    if who == "operator":
        return operator
    admin = Client()
    admin.force_login(crowded.admin)
    return admin


def plan(sql: str) -> str:
    with connection.cursor() as cursor:
        prefix = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
        # As it was sent, its values in it.
        cursor.execute(f"{prefix} {sql}".replace("%", "%%"), [])
        return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


def reads_all(plan_text: str) -> bool:
    """Whether a large table is read from end to end, or sorted."""
    if connection.vendor == "postgresql":
        tables = "|".join(BIG)
        return bool(re.search(rf"Seq Scan on ({tables})|^\s*(->)?\s*Sort\b", plan_text, re.M))
    scans = [line for line in plan_text.splitlines() if "SCAN" in line and "USING" not in line]
    return any(table in line for line in scans for table in BIG) or "ORDER BY" in plan_text


@pytest.mark.parametrize("page", list(PAGES))
@pytest.mark.parametrize("who", ["operator", "admin"])
def test_a_page_reads_what_it_shows_and_counts_nothing(
    crowded: World, operator: Client, who: str, page: str
) -> None:
    visitor = client(crowded, operator, who)
    with CaptureQueriesContext(connection) as asked:
        assert visitor.get(PAGES[page]).status_code == 200
    queries = [query["sql"] for query in asked.captured_queries]
    assert len(queries) <= QUERIES, "\n".join(queries)
    of_large = [sql for sql in queries if f'FROM "{BIG[0]}"' in sql or f'FROM "{BIG[1]}"' in sql]
    assert of_large
    for sql in of_large:
        assert not sql.startswith("SELECT COUNT")
        assert not reads_all(plan(sql)), f"{sql}\n{plan(sql)}"


@pytest.mark.parametrize("who", ["operator", "admin"])
def test_a_principals_generations_are_found_by_an_index(
    crowded: World, operator: Client, who: str
) -> None:
    visitor = client(crowded, operator, who)
    with CaptureQueriesContext(connection) as asked:
        found = visitor.get("/admin/inference/generation/?q=user:7")
    assert found.status_code == 200
    assert b"user:7" in found.content
    [sql] = [each["sql"] for each in asked.captured_queries if 'FROM "inference_gen' in each["sql"]]
    text = plan(sql)
    assert "COUNT" not in sql[:20]
    assert not re.search(r"SCAN inference_generation$|Seq Scan on inference_generation", text, re.M)
