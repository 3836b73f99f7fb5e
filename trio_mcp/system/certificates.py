"""Whom this system trusts to say who somebody is: its certificates, read once."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache


def trusted(*, trust_env: bool = True) -> ssl.SSLContext:
    """The TLS context of clients that trust whom this system trusts. It is shared: don't change it.

    To read the certificates takes some 20 ms, in which nothing else runs. So they are read once,
    when they are first needed.

    Args:
        trust_env: Whether the environment (`SSL_CERT_FILE`, `SSL_CERT_DIR`) may name others.
    """
    named = [os.environ.get(each) for each in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    return _read(trust_env, *(named if trust_env else [None, None]))


@lru_cache(maxsize=2)
def _read(trust_env: bool, file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx2  # which is optional, and knows where each system keeps them

    return httpx2.create_ssl_context(trust_env=trust_env)
