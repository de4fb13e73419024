"""What is ours about allauth's second factors: their secrets are encrypted, so that a copy of the
database is not enough to make codes.
"""

from __future__ import annotations

import base64
import hashlib

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

CONTEXT = b"nehir.mfa"


def _cipher() -> MultiFernet:
    """Encrypts under the secret key, and reads what an earlier one encrypted."""
    keys = [str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    digests = [hashlib.blake2b(key.encode(), key=CONTEXT, digest_size=32).digest() for key in keys]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


class MfaAdapter(DefaultMFAAdapter):  # type: ignore[misc] # allauth has no types
    def build_totp_svg(self, url: str) -> str:
        """For the middle of a page: no XML declaration."""
        _, svg, drawing = str(super().build_totp_svg(url)).partition("<svg")
        return svg + drawing

    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _cipher().decrypt(encrypted_text.encode()).decode()
