"""Every address of the platform, and how it is probed with another tenant's things.

A new address needs a line here, or `test_every_address.py` fails. Pages of a ModelAdmin don't: the
probe of the admin (`tests/console/test_two_tenants.py`) walks them by itself, and so does that of
the management API (`test_management_api.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin import site
from django.urls import URLPattern, URLResolver, get_resolver

from tests.console.samples import SAMPLES
from tests.tenants.worlds import World

PAGES, API = "config.urls", "streaming.openai.urls"
MANAGEMENT = "api/v1/"


@dataclass(frozen=True, slots=True)
class Probe:
    """with_ids: what is put into the address, of that world; post: form data that names its things
    anonymous: whether anybody may open it; found: whether it may answer although the things named
    are another's, since it takes no notice of them
    """

    with_ids: Callable[[World], dict[str, Any]] = lambda world: {}
    post: Callable[[World], dict[str, Any]] = lambda world: {}
    anonymous: bool = False
    found: bool = False


def sample(world: World, label: str) -> Any:
    model = next(model for model in SAMPLES if model._meta.label == label)
    return SAMPLES[model].find(world)


def conversation(world: World) -> dict[str, Any]:
    return {"conversation_id": sample(world, "streaming.Conversation").pk}


def tenant(world: World) -> dict[str, Any]:
    return {"tenant": world.tenant.pk, "tenant_id": world.tenant.pk}


def person(world: World) -> dict[str, Any]:
    return {"login": world.member.username, "username": world.member.username}


ANYBODYS = Probe(anonymous=True, found=True)
# One's own account alone: nothing in the request says whose.
OWN = Probe(found=True, post=person)
# Of the platform; others are refused whatever they name.
PLATFORM = Probe(post=tenant)

PROBES: dict[str, Probe] = {
    "healthz": ANYBODYS,
    "readyz": ANYBODYS,
    "metrics": PLATFORM,
    "i18n/setlang/": Probe(anonymous=True, found=True, post=lambda world: {"language": "tr"}),
    # -- the admin's pages that are no model's
    "admin/": OWN,
    "admin/place/": Probe(post=tenant),
    "admin/sign-in-policy/": Probe(post=tenant, found=True),
    "admin/colors.css": ANYBODYS,
    "admin/search/": Probe(found=True, post=person),
    "admin/login/": ANYBODYS,
    "admin/logout/": Probe(anonymous=True, found=True),
    "admin/password_change/": OWN,
    "admin/password_change/done/": OWN,
    "admin/autocomplete/": Probe(found=True),
    "admin/jsi18n/": OWN,
    "admin/replicas/": PLATFORM,
    "admin/replicas/state/": PLATFORM,
    "admin/replicas/drain/": PLATFORM,
    "admin/replicas/restart/": PLATFORM,
    "admin/^(?P<app_label>tenants|inference|streaming|auth)/$": Probe(
        with_ids=lambda world: {"app_label": "tenants"}, found=True
    ),
    "admin/(?P<url>.*)$": Probe(with_ids=lambda world: {"url": "nothing/here/"}),
    # -- the chat
    "": OWN,
    "tenant/": Probe(post=tenant),
    "chat/": OWN,
    "chat/running/": OWN,
    "chat/<str:conversation_id>/": Probe(with_ids=conversation),
    "chat/<str:conversation_id>/rename/": Probe(
        with_ids=conversation, post=lambda world: {"title": "taken"}
    ),
    "chat/<str:conversation_id>/delete/": Probe(with_ids=conversation),
    # -- signing in, and one's account
    "login/": ANYBODYS,
    "logout/": ANYBODYS,
}
# One's own account: whoever is signed in, and nothing else, says whose.
ACCOUNT = Probe(found=True, anonymous=True, post=person)


@dataclass(frozen=True, slots=True)
class Address:
    """pattern: as `PROBES` has it; path: with what `with_ids` gives put in"""

    pattern: str
    name: str | None
    urlconf: str = field(default=PAGES)


def of_a_model() -> set[str]:
    """Names of the pages that ModelAdmins have."""
    return {
        url.name
        for admin in site._registry.values()
        for url in admin.get_urls()
        if getattr(url, "name", None)
    }


def walked(patterns: Any, before: str = "") -> Iterator[tuple[str, str | None]]:
    for each in patterns:
        pattern = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from walked(each.url_patterns, pattern)
        elif isinstance(each, URLPattern):
            yield pattern, each.name


def addresses(urlconf: str = PAGES) -> list[Address]:
    """All but those of a model's admin, and the redirects that Django adds to those."""
    models = of_a_model()
    return [
        Address(pattern, name, urlconf)
        for pattern, name in walked(get_resolver(urlconf).url_patterns)
        if name not in models
        and "<path:object_id>" not in pattern
        and not pattern.startswith(MANAGEMENT)
    ]


def probe_of(address: Address) -> Probe | None:
    if address.pattern.startswith("account/"):
        return ACCOUNT
    return PROBES.get(address.pattern)
