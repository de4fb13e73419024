"""Every address of the platform."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("web.probes")),
    path("admin/", admin.site.urls),
    path("api/v1/", include("console.api.urls")),
    path("i18n/", include("django.conf.urls.i18n")),
    path("", include("tenants.account.urls")),
    path("", include("streaming.urls")),
]
