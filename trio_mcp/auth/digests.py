"""SHA-256 as OAuth writes it, and comparison in constant time."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode


def digest_of(text: str) -> str:
    """SHA-256 of a text, in base64url without padding (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(text.encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def same(value: object, expected: str) -> bool:
    """Whether a value is the expected text, in constant time."""
    return isinstance(value, str) and hmac.compare_digest(
        value.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )
