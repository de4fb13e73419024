"""Emptying the database after a test that committed, although the audit log refuses to be emptied:
its triggers are lifted for that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

import pytest
from django.db import connections, transaction

append_only = import_module("tenants.migrations.0005_audit_append_only")


@pytest.fixture(scope="session", autouse=True)
def audit_log_can_be_flushed(django_db_setup: None) -> Iterator[None]:
    connection = connections["default"]
    operations = connection.ops
    flush = operations.execute_sql_flush

    def lifted(statements: Sequence[str]) -> None:
        with transaction.atomic():
            append_only.allow(connections["default"])
            flush(statements)
            append_only.forbid(connections["default"])

    operations.execute_sql_flush = lifted  # type: ignore[method-assign]
    yield
    operations.execute_sql_flush = flush  # type: ignore[method-assign]
