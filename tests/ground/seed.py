"""What a stack's database holds: run as a process of its own, prints the world as JSON.

Two tenants that are strangers to each other, a third that was switched off, and per tenant a
signed-in person and two applications with a key each. Sessions are made here, since a password hash
takes most of a second; signing in itself has a test of its own.
"""

from __future__ import annotations

import json
import os
import sys

import django

PASSWORD = "correct horse battery staple"
# Models that the fake engine serves; each treats an answer without a reader in its own way.
SERVED = ("fake", "fleeting", "lasting", "repeatable")


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from inference.models import EngineKind, Release, Route
    from inference.models.route import Detached

    release = Release.objects.create(name="fake", engine=EngineKind.FAKE, context_tokens=8192)
    Route.objects.create(name="fake", release=release)
    # What becomes of an answer that nobody reads: the default is `hold`.
    Route.objects.create(name="fleeting", release=release, detached=Detached.CANCEL)
    Route.objects.create(name="lasting", release=release, detached=Detached.FINISH)
    Route.objects.create(name="repeatable", release=release, replays=True)
    small = Release.objects.create(name="unserved", engine=EngineKind.FAKE, context_tokens=64)
    Route.objects.create(name="unserved", release=small)
    seeded = {slug: _tenant(slug) for slug in ("acme", "globex", "closed")}
    _switch_off(str(seeded["closed"]["id"]))
    world = {"release": release.id, "tenants": seeded, "operator": _operator()}
    json.dump(world, sys.stdout)


def _tenant(slug: str) -> dict[str, object]:
    from django.contrib.auth.models import User
    from django.utils import timezone

    from tenants import scope
    from tenants.models import Membership, Role, ServiceAccount, Tenant
    from tenants.services.keys import KeyRights, issue_key, revoke_key

    now = timezone.now()
    tenant = Tenant.objects.create(slug=slug, name=slug.title())
    user = User.objects.create_user(username=f"{slug}-member", password=PASSWORD)
    with scope.tenant(tenant.pk):
        Membership.objects.create(tenant=tenant, user=user, role=Role.MEMBER)
        account = ServiceAccount.objects.create(tenant=tenant, name="app")
        _key, text = issue_key(service_account=account, name="good", actor=None, now=now)
        revoked, revoked_text = issue_key(
            service_account=account, name="revoked", actor=None, now=now
        )
        revoke_key(key=revoked, actor=None, now=now)
        other = ServiceAccount.objects.create(tenant=tenant, name="another app")
        _key, admin_text = issue_key(
            service_account=account,
            name="management",
            actor=None,
            now=now,
            rights=KeyRights(scopes=["admin"]),
        )
        _key, other_text = issue_key(service_account=other, name="good", actor=None, now=now)
    return {
        "id": tenant.pk,
        "username": user.username,
        "key": text,
        "revoked_key": revoked_text,
        "other_key": other_text,
        "admin_key": admin_text,
        "session": _session(user, tenant.pk),
    }


def _operator() -> str:
    """Session of a person who runs the platform."""
    from django.contrib.auth.models import User

    user = User(username="operator", is_staff=True, is_superuser=True)
    user.set_unusable_password()
    user.save()
    return _session(user, "")


def _session(user: object, tenant_id: str) -> str:
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    assert isinstance(user, User)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session["tenant_id"] = tenant_id
    session.create()
    return str(session.session_key)


def _switch_off(tenant_id: str) -> None:
    from tenants.models import Tenant

    Tenant.objects.filter(pk=tenant_id).update(is_active=False)


if __name__ == "__main__":
    main()
