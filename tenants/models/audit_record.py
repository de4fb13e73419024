"""The audit log's rows. `tenants.services.audit` writes them, `tenants.audit_chain` says how they
hang together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH
from tenants import scope
from tenants.models.scoped import ScopedManager, ScopedModel, ScopedQuerySet

DIGEST_LENGTH = 64


class AppendOnly(Exception):
    """A record was to be changed or deleted. A bug, never a user's fault."""


class ActorType(models.TextChoices):
    USER = "user", _("person")
    SERVICE_ACCOUNT = "service_account", _("service account")
    SYSTEM = "system", _("platform")
    ANONYMOUS = "anonymous", _("nobody known")


class Decision(models.TextChoices):
    ALLOWED = "allowed", _("allowed")
    DENIED = "denied", _("denied")


class AuditOutcome(models.TextChoices):
    DONE = "done", _("done")
    REFUSED = "refused", _("refused")
    FAILED = "failed", _("failed")


class AppendOnlyQuerySet(ScopedQuerySet["AuditRecord"]):
    def update(self, **kwargs: Any) -> NoReturn:
        raise AppendOnly("Audit records are never changed.")

    def delete(self) -> NoReturn:
        raise AppendOnly("Audit records are never deleted.")

    def bulk_create(self, objs: Iterable[Any], *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("Audit records are chained one by one.")


class AppendOnlyManager(ScopedManager["AuditRecord"]):
    def get_queryset(self) -> AppendOnlyQuerySet:
        tenant_id = scope.current().tenant_id
        rows = AppendOnlyQuerySet(self.model, using=self._db)
        return rows if tenant_id is None else rows.filter(tenant_id=tenant_id)


class AuditRecord(ScopedModel):
    """One thing that somebody did, was refused, or failed at. Written once, by the transaction of
    what it tells of; a trigger of the database refuses to change or delete it.

    seq: place in the one chain, from 1, without gaps
    prev_hash, hash: SHA-256, 64 hex digits; `hash` is over everything else here, `prev_hash` of the
        record before
    tenant: whom it concerns; null for the platform's own. No foreign key in the database: records
        outlive what they tell of. The same holds for actor and object.
    session: digest of the session's key
    before, after: listed fields of the object, texts, whole numbers, yes and no alone
    reason: the code of the error that was the answer

    On SQLite, a migration that makes the table anew loses its triggers and creates them again.
    """

    seq = models.BigIntegerField(_("number"), primary_key=True)
    prev_hash = models.CharField(_("hash of the one before"), max_length=DIGEST_LENGTH)
    hash = models.CharField(_("hash"), max_length=DIGEST_LENGTH)
    at = models.DateTimeField(_("time"))
    tenant = models.ForeignKey(  # type: ignore[assignment] # null, unlike other rows of tenants
        "tenants.Tenant",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        null=True,
        related_name="+",
        verbose_name=_("tenant"),
    )
    actor_type = models.CharField(_("kind of actor"), max_length=16, choices=ActorType.choices)
    actor_id = models.CharField(_("actor"), max_length=MAX_LENGTH, blank=True)
    session = models.CharField(_("session"), max_length=32, blank=True)
    key_id = models.CharField(_("key"), max_length=MAX_LENGTH, blank=True)
    auth_method = models.CharField(_("signed in by"), max_length=32, blank=True)
    mfa = models.BooleanField(_("second factor"), default=False)
    ip = models.CharField(_("address"), max_length=64, blank=True)
    request_id = models.CharField(_("request"), max_length=64, blank=True)
    action = models.CharField(_("action"), max_length=64)
    object_type = models.CharField(_("kind of object"), max_length=64, blank=True)
    object_id = models.CharField(_("object"), max_length=128, blank=True)
    object_version = models.CharField(_("version"), max_length=64, blank=True)
    object_digest = models.CharField(_("digest"), max_length=128, blank=True)
    before = models.JSONField(_("before"), default=dict, blank=True)
    after = models.JSONField(_("after"), default=dict, blank=True)
    decision = models.CharField(_("decision"), max_length=16, choices=Decision.choices)
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    outcome = models.CharField(_("outcome"), max_length=16, choices=AuditOutcome.choices)

    objects: ClassVar[AppendOnlyManager] = AppendOnlyManager()

    class Meta:
        verbose_name = _("audit record")
        verbose_name_plural = _("audit log")
        indexes = [
            models.Index(fields=["tenant", "-seq"], name="audit_by_tenant"),
            models.Index(fields=["action", "-seq"], name="audit_by_action"),
            models.Index(fields=["actor_id", "-seq"], name="audit_by_actor"),
            models.Index(fields=["object_id", "-seq"], name="audit_by_object"),
            models.Index(fields=["request_id"], name="audit_by_request"),
            models.Index(fields=["at"], name="audit_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.seq}: {self.action}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("Audit records are never changed.")
        super().save(*args, **kwargs | {"force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("Audit records are never deleted.")


class AuditHead(models.Model):
    """The chain's end, one row: whoever appends locks it, and a chain whose last records were cut
    off doesn't reach it.
    """

    seq = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=DIGEST_LENGTH)

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"
