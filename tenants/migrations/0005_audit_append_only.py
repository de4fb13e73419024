"""The database itself refuses to change or delete an audit record."""

from django.db import migrations

TABLE = "tenants_auditrecord"
WORDS = "audit records are never changed or deleted"

SQLITE = {
    "forbid": [
        f"CREATE TRIGGER {TABLE}_no_{verb.lower()} BEFORE {verb} ON {TABLE} "
        f"BEGIN SELECT RAISE(ABORT, '{WORDS}'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "allow": [f"DROP TRIGGER {TABLE}_no_{verb}" for verb in ("update", "delete")],
}
POSTGRESQL = {
    "forbid": [
        f"CREATE FUNCTION {TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{WORDS}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
        f"CREATE TRIGGER {TABLE}_no_change BEFORE UPDATE OR DELETE ON {TABLE} "
        f"FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
        f"CREATE TRIGGER {TABLE}_no_truncate BEFORE TRUNCATE ON {TABLE} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_refuse()",
    ],
    "allow": [
        f"DROP TRIGGER {TABLE}_no_change ON {TABLE}",
        f"DROP TRIGGER {TABLE}_no_truncate ON {TABLE}",
        f"DROP FUNCTION {TABLE}_refuse()",
    ],
}


def _run(connection, what):
    statements = SQLITE if connection.vendor == "sqlite" else POSTGRESQL
    with connection.cursor() as cursor:
        for statement in statements[what]:
            cursor.execute(statement)


def forbid(connection):
    _run(connection, "forbid")


def allow(connection):
    _run(connection, "allow")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_audit_records")]

    operations = [
        migrations.RunPython(
            lambda apps, editor: forbid(editor.connection),
            lambda apps, editor: allow(editor.connection),
        )
    ]
