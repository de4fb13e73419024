"""How the management API is described. What it does is said by its resources (`console.api`)."""

from __future__ import annotations

FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "console.api.description.Description"}
DESCRIPTION = {
    "TITLE": "Nehir management API",
    "DESCRIPTION": "Tenants, members, service accounts, API keys, limits, audit and usage.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "PREPROCESSING_HOOKS": ["console.api.description.only_ours"],
    "POSTPROCESSING_HOOKS": ["console.api.description.finish"],
    "DISABLE_DOCSTRING_DESCRIPTIONS": True,
}
