"""`/api/v1/`. What isn't there is told as everything else is, and to whoever has come in alone."""

from __future__ import annotations

from django.urls import path, re_path

from console.api import pages
from console.api.resources import audit, keys, me, people, service_accounts, tenants, usage

TENANT = "tenants/<str:tenant_id>"

urlpatterns = [
    path("openapi.json", pages.OpenAPI.as_view(), name="management_openapi"),
    path("docs/", pages.docs, name="management_docs"),
    path("me", me.Me.as_view()),
    path("tenants", tenants.Tenants.as_view()),
    path(TENANT, tenants.OneTenant.as_view()),
    path(f"{TENANT}/suspend", tenants.Suspend.as_view()),
    path(f"{TENANT}/resume", tenants.Resume.as_view()),
    path(f"{TENANT}/limits", tenants.Limits.as_view()),
    path(f"{TENANT}/members", people.Members.as_view()),
    path(f"{TENANT}/members/<str:person_id>", people.OneMember.as_view()),
    path(f"{TENANT}/service-accounts", service_accounts.ServiceAccounts.as_view()),
    path(
        f"{TENANT}/service-accounts/<str:account_id>", service_accounts.OneServiceAccount.as_view()
    ),
    path(f"{TENANT}/keys", keys.Keys.as_view()),
    path(f"{TENANT}/keys/<str:key_id>", keys.OneKey.as_view()),
    path(f"{TENANT}/keys/<str:key_id>/rotate", keys.RotateKey.as_view()),
    path(f"{TENANT}/keys/<str:key_id>/revoke", keys.RevokeKey.as_view()),
    path(f"{TENANT}/audit", audit.AuditLog.as_view()),
    path(f"{TENANT}/audit/export", audit.AuditExport.as_view()),
    path(f"{TENANT}/usage", usage.Usage.as_view()),
    path("people", people.People.as_view()),
    path("people/<str:person_id>", people.OnePerson.as_view()),
    path("people/<str:person_id>/deactivate", people.Deactivate.as_view()),
    path("people/<str:person_id>/activate", people.Activate.as_view()),
    path("audit", audit.PlatformAuditLog.as_view()),
    re_path("", pages.Unknown.as_view()),
]
