from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class KeyScopeChoice(models.TextChoices):
    """`tenants.key_scopes.KeyScope` for people."""

    CHAT = "chat", _("chat: ask models, read and end answers")
    EMBEDDINGS = "embeddings", _("embeddings")
    USAGE = "usage", _("usage: read what was used")
    ADMIN = "admin", _("admin: manage the tenant")
