from __future__ import annotations

import io
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from tenants import key_format
from tenants.services import key_records
from web.redaction import redacted

KEY = key_format.make("dev")
TEXT = KEY.text()
SECRET = TEXT.split("_")[3]
DIGEST = key_records.digest(KEY.secret, settings.KEY_PEPPER_VERSION)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the settings' own handler would write."""
    written = io.StringIO()
    configured: dict[str, Any] = settings.LOGGING
    config = logging.config.DictConfigurator(configured)
    handler = logging.StreamHandler(written)
    handler.setFormatter(config.configure_formatter(dict(configured["formatters"]["line"])))
    logger = logging.getLogger("canary")
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)


def boom(text: str) -> None:
    raise ValueError(f"no use for {text}")


@pytest.mark.parametrize(
    "secret",
    [TEXT, DIGEST],
    ids=["key", "digest"],
)
def test_however_it_is_logged(lines: io.StringIO, secret: str) -> None:
    log = logging.getLogger("canary")
    log.warning("plain %s", secret)
    log.warning("nested %r", {"a": [secret, secret.encode()]})
    log.warning(secret)
    log.warning("INSERT INTO tenants_apikey VALUES ('%s', '%s')", KEY.id, secret)
    try:
        boom(secret)
    except ValueError:
        log.exception("with its traceback")
    told = lines.getvalue()
    assert secret not in told
    assert SECRET not in told
    assert told.count("[redacted]") >= 6
    assert KEY.id in told


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer {}",
        "{{'authorization': 'Bearer {}'}}",
        "[(b'authorization', b'Bearer {}'), (b'host', b'x')]",
        "X-API-Key: {}",
        "HTTP_API_KEY='{}'",
        "/v1/models?api_key={}",
    ],
)
@pytest.mark.parametrize(
    "word", ["sk-somebody-elses-key", TEXT, TEXT[:-1]], ids=["another's", "ours", "cut off"]
)
def test_what_was_presented_as_a_key(line: str, word: str) -> None:
    told = redacted(line.format(word))
    assert word not in told
    assert SECRET[:-1] not in told
    assert "[redacted]" in told


@given(before=st.text(max_size=20), after=st.text(alphabet=" ',;)\n", min_size=1, max_size=5))
def test_in_the_middle_of_anything(before: str, after: str) -> None:
    assert SECRET not in redacted(f"{before}{TEXT}{after}")


@pytest.mark.parametrize(
    "line",
    [
        f"API key {KEY.id} issued to sva_1 by user:1",
        f"nhr_dev_{KEY.id}…",
        "release rel_1 serves sha256:" + "ab" * 32,
        "GET /v1/models 200",
        "keys: 3",
        "12 keys are known",
    ],
    ids=["issued", "its beginning", "weights", "request", "count", "known"],
)
def test_what_operators_need_stays(line: str) -> None:
    assert redacted(line) == line
