"""Typed readers of the environment, and what production refuses to start with.

Every setting that an operator may change is read here or through `env` in `config.settings`;
docs/operations.md lists them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from kernel.networks import Network, as_network

env = environ.Env()

ENVIRONMENTS = ("dev", "staging", "production")
# sockaddr_un holds 107 bytes and a terminator; the name of the socket itself needs some of them.
SOCKET_PATH_BYTES = 107
SECRET_BYTES = 48


def choice(name: str, allowed: tuple[str, ...], default: str) -> str:
    """One of `allowed`. Raises ImproperlyConfigured naming the variable and what it may be."""
    value = env.str(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    return str(value)


def choices(name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Some of `allowed`, comma separated; none by default. Raises ImproperlyConfigured."""
    values = tuple(env.list(name, default=[]))
    if not set(values) <= set(allowed):
        raise ImproperlyConfigured(f"{name} may name {', '.join(allowed)}, comma separated.")
    return values


def number(name: str, default: float, *, low: float, high: float) -> float:
    """A number within [low, high]. Raises ImproperlyConfigured naming variable and range."""
    try:
        value = float(env.str(name, str(default)))
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} must be a number from {low:g} to {high:g}.")
    return value


def whole(name: str, default: int, *, low: int, high: int) -> int:
    """A whole number within [low, high]. Raises ImproperlyConfigured naming the variable and the
    range.
    """
    value = number(name, default, low=low, high=high)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} must be a whole number from {low} to {high}.")
    return int(value)


def networks(name: str) -> tuple[Network, ...]:
    """Addresses and networks, comma separated; none by default. Raises ImproperlyConfigured."""
    try:
        return tuple(as_network(word) for word in env.list(name, default=[]))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from error


def folder(name: str, default: Path) -> Path:
    """An absolute folder, not necessarily there yet."""
    return Path(env.str(name, str(default))).expanduser().absolute()


def secret(name: str, file: Path, *, production: bool) -> str:
    """A secret from the environment; outside production, one random per install kept in a 0600
    file.
    """
    given = str(env.str(name, ""))
    if given or production:
        return given
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    file.parent.mkdir(parents=True, exist_ok=True)
    made = secrets.token_urlsafe(SECRET_BYTES)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(made)
    except FileExistsError:  # another process of the same start was faster
        return file.read_text().strip()
    return made


def numbered_secrets(name: str, current: str, version: int) -> dict[int, str]:
    """The current secret under its version, and others, `1:secret,2:secret`, under theirs.

    Raises ImproperlyConfigured, which quotes none of them.
    """
    found = {version: current}
    for word in filter(None, (word.strip() for word in str(env.str(name, "")).split(","))):
        number_, _, value = word.partition(":")
        is_number = number_.isascii() and number_.isdigit()
        if not (is_number and value and int(number_) > 0 and int(number_) not in found):
            raise ImproperlyConfigured(
                f"{name} must be `version:secret`, comma separated, each version once and none "
                f"the current one's, which is {version}."
            )
        found[int(number_)] = value
    return found


def socket_folder(var: Path) -> Path:
    """Where unix sockets live: in `var` if its path is short and plain, else in a private folder of
    the system's temporary one whose name is derived from `var`, so that every process of an install
    finds the same.
    """
    inside = var / "run"
    plain = (
        all(letter.isalnum() or letter in "/._-" for letter in str(inside))
        and str(inside).isascii()
    )
    if plain and len(os.fsencode(inside)) + len("/valkey.sock") <= SOCKET_PATH_BYTES:
        return inside
    name = hashlib.sha256(os.fsencode(var)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"nehir-{os.getuid()}-{name}"


def refuse_unsafe_production(settings: dict[str, Any]) -> None:
    """Raise ImproperlyConfigured with every reason why these settings must not serve."""
    reasons = [
        *(["NEHIR_DEBUG must be off"] if settings["DEBUG"] else []),
        *(["NEHIR_DEMO must be off"] if settings["DEMO"] else []),
        *_weak_secrets(settings),
        *(f"{name} must be set" for name in ("DATABASE_URL", "REDIS_URL") if not env.str(name, "")),
        *(
            ["NEHIR_ALLOWED_HOSTS must name the hosts served"]
            if not settings["ALLOWED_HOSTS"]
            else []
        ),
    ]
    if reasons:
        raise ImproperlyConfigured(
            "NEHIR_ENV=production refuses to start: " + "; ".join(reasons) + "."
        )


def _weak_secrets(settings: dict[str, Any]) -> list[str]:
    weakest = 32
    peppers: dict[int, str] = settings["KEY_PEPPERS"]
    current = settings["KEY_PEPPER_VERSION"]
    given = [("NEHIR_SECRET_KEY", settings["SECRET_KEY"]), ("NEHIR_KEY_PEPPER", peppers[current])]
    given += [("NEHIR_OTHER_KEY_PEPPERS", peppers[one]) for one in peppers if one != current]
    weak = [
        f"{name} must be a random secret of at least {weakest} characters"
        for name, value in given
        if len(value) < weakest or len(set(value)) < 8 or "insecure" in value
    ]
    if not weak and len({value for _, value in given}) < len(given):
        weak.append("NEHIR_SECRET_KEY and all peppers, NEHIR_OTHER_KEY_PEPPERS too, must differ")
    return weak
