"""The API's own addresses: they are resolved apart from the pages', so that every reply under /v1/
is JSON.
"""

from __future__ import annotations

from django.urls import path, re_path

from streaming.openai import views

urlpatterns = [
    path("v1/models", views.models),
    path("v1/models/<str:name>", views.model),
    path("v1/chat/completions", views.chat_completions),
    path("v1/generations/<str:generation_id>", views.generation),
    path("v1/generations/<str:generation_id>/events", views.generation_events),
    re_path("", views.unknown),
]
