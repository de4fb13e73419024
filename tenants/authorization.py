"""What a principal may do, and from where: each right is checked here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext_noop

from kernel.errors import PermissionDenied
from kernel.networks import Address, Network, contains
from tenants.key_scopes import KeyScope
from tenants.principal import Principal


def check_scope(principal: Principal, scope: KeyScope) -> None:
    """Raises PermissionDenied `missing_scope`."""
    if scope not in principal.scopes:
        raise PermissionDenied(
            f"This API key lacks the scope {scope!r}, which this request needs.",
            code="missing_scope",
        )


def may_use(principal: Principal, model: str) -> bool:
    """model: a public name, of a model that is there or not"""
    return principal.models is None or model in principal.models


def check_model(principal: Principal, model: str) -> None:
    """Raises PermissionDenied `model_not_allowed`, whether there is such a model or not."""
    if not may_use(principal, model):
        raise PermissionDenied(
            f"This API key may not use the model {model[:100]!r}.",
            code="model_not_allowed",
            param="model",
        )


def check_address(networks: Sequence[Network], address: Address | None) -> None:
    """Raises PermissionDenied `address_not_allowed` outside of the networks, if there are any; an
    unknown address is outside of all.
    """
    if networks and not contains(networks, address):
        raise PermissionDenied(
            gettext_noop("This API key may not be used from this address."),
            code="address_not_allowed",
        )
