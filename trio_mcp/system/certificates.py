"""The certificate authorities that this system trusts, read once."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache


def trusted(*, trust_env: bool = True) -> ssl.SSLContext:
    """Return the TLS context of clients. It is shared: don't change it.

    Reading the certificates blocks for some 20 ms, so they are read once, when first needed.

    Args:
        trust_env: Whether the environment (`SSL_CERT_FILE`, `SSL_CERT_DIR`) may name others.
    """
    named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    return _read(trust_env, *(named if trust_env else [None, None]))


@lru_cache(maxsize=2)
def _read(trust_env: bool, file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx2  # which is optional, and knows where each system keeps them

    return httpx2.create_ssl_context(trust_env=trust_env)
