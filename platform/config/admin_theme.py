"""How the admin looks: django-unfold's settings."""

from __future__ import annotations

from django.templatetags.static import static
from django.urls import reverse

THEME = {
    "SITE_TITLE": "Nehir",
    "SITE_HEADER": "Nehir",
    "SITE_URL": "/chat/",
    "SITE_SYMBOL": "water",
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda request: static("images/favicon.svg"),
        }
    ],
    "SHOW_LANGUAGES": True,
    "STYLES": [lambda request: reverse("admin:colors")],
    # Shades of the accent in static/style/base.css.
    "COLORS": {
        "primary": {
            "50": "#f0f7fb",
            "100": "#e1eff7",
            "200": "#c3dfef",
            "300": "#96d2f2",
            "400": "#6bbbe6",
            "500": "#2f88bb",
            "600": "#1b6a98",
            "700": "#135379",
            "800": "#123f5a",
            "900": "#1d3a4b",
            "950": "#06212f",
        },
    },
}
