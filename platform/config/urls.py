"""Every address of the platform."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from web.health import healthz, readyz
from web.metrics import metrics

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("", include("streaming.urls")),
]
