"""Values that leave the server, or its memory, sealed: encrypted, authenticated, with their time.

A login that is under way, the registration of a client and all that the store keeps are sealed
under keys that are derived from one secret. So they need no room here before a person has logged
in, survive a restart, and mean the same at every instance that has the secret.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

from attrs import field, frozen
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trio_mcp.wire import codec

_SALT = b"trio-mcp oauth proxy 1"


def derived_key(secret: str, purpose: str) -> bytes:
    """Derive 32 bytes from a secret, for one purpose (HKDF, RFC 5869)."""
    return HKDF(SHA256(), 32, _SALT, purpose.encode()).derive(secret.encode())


@frozen(eq=False)
class Seal:
    """Seals JSON values for one purpose, and opens what it has sealed.

    Args:
        secrets: The first one seals, all of them open.
        purpose: What the values are for. What was sealed for one cannot be opened for another.
        clock: Seconds since 1970.
    """

    secrets: Sequence[str] = field(repr=False)
    purpose: str
    clock: Callable[[], float] = time.time
    _fernet: MultiFernet = field(init=False, repr=False)

    @_fernet.default
    def _derive(self) -> MultiFernet:
        keys = [derived_key(secret, self.purpose) for secret in self.secrets]
        return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in keys])

    def seal(self, value: Any) -> str:
        """Return a value as text for a URL, a cookie or a form."""
        sealed = self._fernet.encrypt_at_time(codec.dumps(value), int(self.clock()))
        return sealed.decode().rstrip("=")

    def open(self, text: str, ttl: float | None) -> Any:
        """Return the value of a sealed text; `None` if it is none of ours, or is too old.

        Args:
            text: The text, in the one way in which it was written.
            ttl: Seconds for which it is good, by clocks that differ by a minute at most; `None` for
                what the store keeps, which ends by the store's own clock.
        """
        try:
            whole = text + "=" * (-len(text) % 4)
            if urlsafe_b64encode(urlsafe_b64decode(whole)).decode() != whole:
                return None
            if ttl is None:
                plain = self._fernet.decrypt(whole)
            else:
                plain = self._fernet.decrypt_at_time(whole, int(ttl), int(self.clock()))
        except (InvalidToken, ValueError):
            return None
        return codec.loads(plain)
