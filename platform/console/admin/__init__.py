"""The admin's pages, one file a model. Importing this registers them all."""

from console.admin import (
    api_key,
    conversation,
    generation,
    membership,
    release,
    route,
    service_account,
    tenant,
    user,
)

__all__ = [
    "api_key",
    "conversation",
    "generation",
    "membership",
    "release",
    "route",
    "service_account",
    "tenant",
    "user",
]
