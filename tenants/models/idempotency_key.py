from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    """The answer to a request of the management API that was sent with an Idempotency-Key, for when
    it comes again. Of no tenant: a person may ask on the platform.

    principal: who asked, as `tenants.principal.actor_name` says it
    key_digest: SHA-256 of the key; request_digest: of what was asked with it; 64 hex digits each
    claim: names the attempt that carries the request out
    status: of the answer; null as long as there is none
    body: the answer's JSON, without any secret
    headers: those of the answer that say something of it
    """

    principal = models.CharField(max_length=64, editable=False)
    key_digest = models.CharField(max_length=64, editable=False)
    request_digest = models.CharField(max_length=64, editable=False)
    claim = models.CharField(max_length=32, editable=False)
    claimed_at = models.DateTimeField(editable=False)
    status = models.PositiveSmallIntegerField(null=True, editable=False)
    body = models.TextField(editable=False, default="")
    headers = models.JSONField(editable=False, default=dict)
    expires_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "key_digest"], name="idempotency_key_once"
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="idempotency_key_expiry")]

    def __str__(self) -> str:
        return f"{self.principal}: {self.key_digest[:8]}"
