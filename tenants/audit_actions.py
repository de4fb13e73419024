"""What the audit log tells of: one word for each thing that is done."""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class AuditAction(TextChoices):
    """`<what>.<done>`. Stored as they are: a name that has been written is never given up."""

    SIGN_IN = "sign_in", _("sign in")
    SIGN_OUT = "sign_out", _("sign out")
    SESSION_END = "session.end", _("end a person's sessions")
    MFA_ADD = "mfa.add", _("add a second factor")
    MFA_REMOVE = "mfa.remove", _("remove a second factor")
    MFA_RESET = "mfa.reset", _("reset a person's second factors")
    RECOVERY_CODES_RENEW = "recovery_codes.renew", _("make new recovery codes")
    EMAIL_CHANGE = "email.change", _("change an email address")
    PERSON_CREATE = "person.create", _("create a person's account")
    PERSON_CHANGE = "person.change", _("change a person's account")
    PERSON_DELETE = "person.delete", _("delete a person's account")
    PERSON_PASSWORD = "person.password", _("set a password")
    PLATFORM_ROLE_GRANT = "platform_role.grant", _("give a platform role")
    PLATFORM_ROLE_WITHDRAW = "platform_role.withdraw", _("withdraw a platform role")
    TENANT_CREATE = "tenant.create", _("create a tenant")
    TENANT_CHANGE = "tenant.change", _("change a tenant")
    TENANT_DELETE = "tenant.delete", _("delete a tenant")
    TENANT_SUSPEND = "tenant.suspend", _("suspend a tenant")
    TENANT_RESUME = "tenant.resume", _("resume a suspended tenant")
    MEMBER_ADD = "member.add", _("add a member")
    MEMBER_CHANGE = "member.change", _("change a member's role")
    MEMBER_REMOVE = "member.remove", _("remove a member")
    SERVICE_ACCOUNT_CREATE = "service_account.create", _("create a service account")
    SERVICE_ACCOUNT_CHANGE = "service_account.change", _("change a service account")
    SERVICE_ACCOUNT_DELETE = "service_account.delete", _("delete a service account")
    KEY_ISSUE = "key.issue", _("issue an API key")
    KEY_CHANGE = "key.change", _("change an API key")
    KEY_ROTATE = "key.rotate", _("rotate an API key")
    KEY_REVOKE = "key.revoke", _("revoke an API key")
    RELEASE_CREATE = "release.create", _("create a release")
    RELEASE_CHANGE = "release.change", _("change a release")
    RELEASE_DELETE = "release.delete", _("delete a release")
    ROUTE_CREATE = "route.create", _("create a route")
    ROUTE_CHANGE = "route.change", _("change a route")
    ROUTE_DELETE = "route.delete", _("delete a route")
    REPLICA_DRAIN = "replica.drain", _("drain a replica")
    REPLICA_RESTART = "replica.restart", _("restart a replica")
    MAINTENANCE_RUN = "maintenance.run", _("run the clean-up by hand")
    GENERATIONS_SEAL = "generations.seal", _("seal settled answers")
    AUDIT_EXPORT = "audit.export", _("export the audit log")
