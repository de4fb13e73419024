"""Static files of production: named by their content, so that browsers may keep them for good."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Rewrites imports of JavaScript modules too: after an upgrade no page mixes old and new."""

    support_js_module_import_aggregation = True
