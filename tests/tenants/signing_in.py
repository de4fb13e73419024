"""Signing in over HTTP as a browser does, and codes as an authenticator app makes them."""

from __future__ import annotations

import time

from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from django.contrib.auth.models import User
from django.test import Client

PASSWORD = "deep-water-runs-still"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def with_password(user: User) -> User:
    user.set_password(PASSWORD)
    user.save()
    return user


def with_app(user: User) -> User:
    TOTP.activate(user, SECRET)
    return user


def code_of(secret: str = SECRET) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))


def try_in(username: str, password: str = PASSWORD, **where: str) -> tuple[Client, int]:
    """The client, and what it was answered."""
    client = Client(**where)
    return client, client.post("/login/", {"username": username, "password": password}).status_code


def signed_in(user: User) -> Client:
    client, status = try_in(user.username)
    assert status == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/account/sessions/").status_code == 200
