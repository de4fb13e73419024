"""Addresses of signing in and of one's own account: those of allauth's that we have pages for.

`login` and `logout` are the names that the platform's pages use, `account_…` are allauth's.
"""

from __future__ import annotations

from allauth.account.views import login
from django.contrib.auth.views import LogoutView
from django.urls import path

logout = LogoutView.as_view()

urlpatterns = [
    path("login/", login, name="account_login"),
    path("login/", login, name="login"),
    path("logout/", logout, name="account_logout"),
    path("logout/", logout, name="logout"),
]
