"""No API key and no digest of one in a log line, whatever was logged: they are taken out of the
finished line.
"""

from __future__ import annotations

import logging
import re

# A key from its secret on. Its public part stays: that is how a key is talked about.
_KEY = re.compile(r"(nhr_[a-z]+_[0-9a-zA-Z]{8,24}_)[0-9a-zA-Z]+")
# 64 hex digits are a stored digest, but for what says that it is a file's.
_DIGEST = re.compile(r"(?<!sha256:)(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])")
# Whatever else was presented as one, in a dump of headers.
_HEADER = re.compile(
    r"((?:authorization|x[-_]api[-_]key|api[-_]key)['\"]?\s*[:=,]\s*(?:b?['\"])?(?:bearer\s+)?)"
    r"(?!bearer\b)[^\s'\",}\])]+",
    re.IGNORECASE,
)
REDACTED = "[redacted]"


def redacted(text: str) -> str:
    text = _KEY.sub(rf"\1{REDACTED}", text)
    text = _DIGEST.sub(REDACTED, text)
    return _HEADER.sub(rf"\1{REDACTED}", text)


class RedactingFormatter(logging.Formatter):
    """Over the finished line, so that arguments, tracebacks and stacks are covered alike."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
