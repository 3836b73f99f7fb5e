"""The signature algorithms that are known, all of them asymmetric."""

from typing import Final

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
"""By their names in JOSE (RFC 7518, RFC 9864). `EdDSA` is an old name that issuers still use."""
