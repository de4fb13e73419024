"""The demo: two tenants with people and keys of random secrets, and a model for them. Never in
production.

What was made up is kept in `var/secrets/demo.json`, readable by its owner alone, so that it can be
shown again.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from config.supervisor.instance import running_url
from inference.models import EngineKind, Release, Route
from inference.weights import bundled
from kernel.errors import PermissionDenied, Unauthenticated
from tenants import scope
from tenants.models import Membership, Role, ServiceAccount, Tenant
from tenants.services.keys import authenticate_key, issue_key

TENANTS = {"acme": "Acme", "globex": "Globex"}
OPERATOR = "operator"
APPLICATION = "demo application"
FAKE = "fake"
PASSWORD_BYTES = 9


class NotADemo(Exception):
    """The demo was asked for where there must be none."""


@dataclass
class Demo:
    """What a person or a test needs to use the demo, and what had to be made anew to get there.

    secrets: passwords by username, API keys by tenant slug
    notes: sentences for the person at the terminal
    """

    url: str
    secrets: dict[str, dict[str, str]]
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The shape `manage.py demo --json` promises."""
        return {
            "url": self.url,
            "operator": self._login(OPERATOR),
            "tenants": [
                {
                    "slug": slug,
                    "admin": self._login(f"{slug}-admin"),
                    "user": self._login(f"{slug}-user"),
                    "api_key": self.secrets["api_keys"][slug],
                }
                for slug in TENANTS
            ],
        }

    def table(self) -> str:
        """The same for people."""
        logins = [OPERATOR, *(f"{slug}-{role}" for slug in TENANTS for role in ("admin", "user"))]
        return "\n".join(
            [
                f"  {'Sign in as':<16} with password",
                *(f"  {name:<16} {self.secrets['passwords'][name]}" for name in logins),
                f"  {'Tenant':<16} API key",
                *(f"  {slug:<16} {self.secrets['api_keys'][slug]}" for slug in TENANTS),
            ]
        )

    def _login(self, username: str) -> dict[str, str]:
        return {"username": username, "password": self.secrets["passwords"][username]}


def address() -> str:
    """Where a browser on this machine finds the platform."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HOST, settings.HOST)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}"


def seed(*, now: datetime, engine: str | None = None) -> Demo:
    """Make what is missing of the demo and show all of it.

    engine: whose model is to be the one that is offered; None leaves the routes as they are

    Raises NotADemo where settings.DEMO is off.
    """
    if not settings.DEMO:
        raise NotADemo("There is no demo here: NEHIR_DEMO is off, as it is outside NEHIR_ENV=dev.")
    with _kept_secrets() as (kept, notes):
        demo = Demo(running_url(Path(settings.VAR)) or address(), kept, notes)
        is_first = not kept["passwords"] and not User.objects.filter(username=OPERATOR).exists()
        with transaction.atomic():
            if engine is not None:
                _offer(engine)
            _user(OPERATOR, demo, is_staff=True, is_superuser=True)
            for slug, name in TENANTS.items():
                _seed_tenant(slug, name, demo, now=now)
    if is_first:
        demo.notes.clear()
    return demo


def _offer(engine: str) -> None:
    """The route of the engine in use is active, the other engine's is not."""
    names = {EngineKind.VLLM: bundled.NAME, EngineKind.FAKE: FAKE}
    for kind, name in names.items():
        is_active = kind.value == engine
        if not is_active:
            Route.objects.filter(name=name).update(is_active=False)
            continue
        release, _ = Release.objects.get_or_create(
            name=name,
            defaults={
                "engine": kind,
                "model_path": bundled.NAME if kind is EngineKind.VLLM else "",
                "context_tokens": bundled.CONTEXT_TOKENS,
            },
        )
        Route.objects.update_or_create(
            name=name, defaults={"is_active": True}, create_defaults={"release": release}
        )


def _seed_tenant(slug: str, name: str, demo: Demo, *, now: datetime) -> None:
    tenant, _ = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
    people = {
        Role.ADMIN: _user(f"{slug}-admin", demo, is_staff=True),
        Role.MEMBER: _user(f"{slug}-user", demo),
    }
    with scope.tenant(tenant.id):
        for role, user in people.items():
            Membership.objects.get_or_create(tenant=tenant, user=user, defaults={"role": role})
        account, _ = ServiceAccount.objects.get_or_create(tenant=tenant, name=APPLICATION)
        if not _works(demo.secrets["api_keys"].get(slug, ""), now):
            key, text = issue_key(service_account=account, name="demo", actor=None, now=now)
            demo.secrets["api_keys"][slug] = text
            demo.notes.append(f"Made a new API key for {slug}: {key}.")


def _works(key: str, now: datetime) -> bool:
    try:
        authenticate_key(f"Bearer {key}", now=now)
    except (Unauthenticated, PermissionDenied):
        return False
    return True


def _user(username: str, demo: Demo, *, is_staff: bool = False, is_superuser: bool = False) -> User:
    """The user, with the password that is kept; a new one only if none is kept."""
    flags = {"is_staff": is_staff, "is_superuser": is_superuser}
    user, is_new = User.objects.get_or_create(username=username, defaults=flags)
    passwords = demo.secrets["passwords"]
    if is_new or username not in passwords:
        if username not in passwords:
            passwords[username] = secrets.token_urlsafe(PASSWORD_BYTES)
            demo.notes.append(f"Made a new password for {username}.")
        user.set_password(passwords[username])
        user.save()
    return user


@contextmanager
def _kept_secrets() -> Iterator[tuple[dict[str, dict[str, str]], list[str]]]:
    """What the file holds and, once the block has run well, holds from then on; one process at a
    time.
    """
    file = Path(settings.VAR) / "secrets" / "demo.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept, notes = _read(file)
        before = json.dumps(kept)
        yield kept, notes
        if json.dumps(kept) != before:
            _write(file, json.dumps(kept, indent=2))


def _read(file: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    empty: dict[str, dict[str, str]] = {"passwords": {}, "api_keys": {}}
    try:
        kept = json.loads(file.read_text())
        return {name: dict(kept[name]) for name in empty}, []
    except FileNotFoundError:
        return empty, []
    except (ValueError, KeyError, TypeError):
        return empty, [f"{file} could not be read, so its passwords and keys are made anew."]


def _write(file: Path, text: str) -> None:
    beside = file.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    beside.replace(file)
