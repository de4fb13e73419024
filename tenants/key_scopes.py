"""What an API key may be used for."""

from __future__ import annotations

from typing import Literal, get_args

KeyScope = Literal["chat", "embeddings", "usage", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)
# Of a new key, unless its issuer says otherwise; and of people, in the chat.
DEFAULT: frozenset[KeyScope] = frozenset({"chat"})
