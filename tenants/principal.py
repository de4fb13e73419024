"""Who is asking: the outcome of authentication, which everything after it is decided by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Principal:
    """kind and id name the person or application: `user:<pk>` or `service_account:<id>`.

    tenant_id: the one tenant it acts in
    key_id: the API key used, None for a session
    """

    tenant_id: str
    kind: Literal["user", "service_account"]
    id: str
    key_id: str | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.id}"
