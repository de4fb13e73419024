from __future__ import annotations

from datetime import timedelta

from django.test import Client

from inference.models import Maintenance, MaintenanceRun
from tests.tenants.worlds import NOW, World

RUNS = "/admin/inference/maintenancerun/"


def run(**fields: object) -> MaintenanceRun:
    values = {"name": Maintenance.CLEAN_UP, "started_at": NOW} | fields
    return MaintenanceRun.objects.create(**values)


def test_operators_see_the_last_runs_and_how_they_ended(operator: Client) -> None:
    after = NOW + timedelta(seconds=1.5)
    run(finished_at=after, counts={"checkpoints": 3, "logs": 0})
    failed = run(finished_at=after, counts={"checkpoints": 1}, error="ConnectionError: gone")
    run()
    page = operator.get(RUNS).content.decode()
    for text in ("checkpoints: 3, logs: 0", "ConnectionError: gone", "1.5 s", "Not finished"):
        assert text in page
    assert page.count("Clean-up") >= 3
    detail = operator.get(f"{RUNS}{failed.pk}/change/").content.decode()
    assert "checkpoints: 1" in detail
    assert "Failed" in detail


def test_nobody_writes_them_and_managers_see_none(operator: Client, acme: World) -> None:
    pages = ("add/", f"{run().pk}/change/", f"{MaintenanceRun.objects.get().pk}/delete/")
    assert [operator.post(RUNS + page, {"post": "yes"}).status_code for page in pages] == [403] * 3
    manager = Client()
    manager.force_login(acme.owner)
    assert manager.get(RUNS).status_code == 403
