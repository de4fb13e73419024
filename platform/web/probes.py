"""The addresses of probes: resolved apart from the pages', whose checks of host and scheme a probe
that asks by address would not pass.

"""

from __future__ import annotations

from django.urls import path

from web.health import healthz, readyz
from web.metrics import metrics

PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
