"""Addresses of the chat's pages."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from streaming.pages import chat, conversations
from streaming.pages.tenant import choose_tenant

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="chat"), name="home"),
    path("tenant/", choose_tenant, name="choose_tenant"),
    path("chat/", chat.new_chat, name="chat"),
    path("chat/running/", chat.running, name="running_answers"),
    path("chat/<str:conversation_id>/", chat.conversation, name="conversation"),
    path("chat/<str:conversation_id>/rename/", conversations.rename, name="rename_conversation"),
    path("chat/<str:conversation_id>/delete/", conversations.delete, name="delete_conversation"),
]
