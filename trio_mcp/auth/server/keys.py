"""Public keys and signatures (JOSE): which are accepted, and how they are checked.

joserfc does the work, and cryptography below it. This module decides what they may be asked:
asymmetric algorithms on an allow-list (so neither `none` nor an HMAC by a public key), keys of
sound sizes, and no header that must be understood and is not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import CompactSignature, JWSRegistry, extract_compact
from joserfc.jws import validate_compact as _validate

from trio_mcp.auth.server.resource import ALGORITHMS
from trio_mcp.wire import codec

MAX_KEYS: Final = 100
"""Keys that a set may have."""

_KTY: Final = {"ES": "EC", "Ed": "OKP", "PS": "RSA", "RS": "RSA"}
_PUBLIC: Final = ("kty", "kid", "use", "alg", "key_ops", "crv", "n", "e", "x", "y")
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_NUMBER: Final = re.compile(r"[A-Za-z0-9_-]+")
_SIZES: Final = {
    "RSA": {"n": range(342, 1367), "e": range(1, 7)},
    "EC": {"x": range(1, 89), "y": range(1, 89)},
    "OKP": {"x": range(1, 77)},
}
"""Characters of a key's numbers: RSA of 2,048 to 8,192 bits with an exponent of 32 bits at most,
curves up to P-521 and Ed448. A shorter modulus is weak, and whatever is longer only slow."""


class BadSignature(Exception):
    """A JWT is not signed as it must be. The text is a rule for the log."""


class _Registry(JWSRegistry):
    """The algorithms of the list and no others; sizes are checked before it is asked."""

    max_header_length = 8192
    max_payload_length = 32768
    max_signature_length = 2048

    def __init__(self) -> None:
        super().__init__(algorithms=ALGORITHMS, strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]  # without joserfc's warning that `EdDSA` is an old name


_REGISTRY: Final = _Registry()


@frozen
class Signed:
    """A JWS that was read, but whose signature has not been checked."""

    header: Mapping[str, Any] = field(repr=False)
    claims: Mapping[str, Any] = field(repr=False)
    algorithm: str
    _signature: CompactSignature

    def verify(self, key: Key) -> None:
        """Raise `BadSignature` if the signature is not by a key."""
        try:
            key.check_use("sig")
            key.check_alg(self.algorithm)
            valid = _validate(self._signature, key, registry=_REGISTRY)
        except (JoseError, ValueError, TypeError, KeyError):
            raise BadSignature("its key is not for signatures of its algorithm") from None
        if not valid:
            raise BadSignature("the signature is wrong")


def read_signed(token: str, algorithms: Collection[str]) -> Signed:
    """Read a JWS of a bounded size, whose payload is JSON, without checking the signature.

    Raises:
        BadSignature: It is no such JWS, its algorithm is none of those that are allowed, or its
            header has extensions.
    """
    try:
        signature = extract_compact(token.encode("ascii"), registry=_REGISTRY)
        header = signature.headers()
        claims = codec.loads(signature.payload)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadSignature("it is not a signed JWT") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise BadSignature("it is not a signed JWT")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise BadSignature("its algorithm is not allowed")
    if "crit" in header or "b64" in header:
        raise BadSignature("its header has extensions that must be understood")
    return Signed(header, claims, algorithm, signature)


def public_key(jwk: object) -> Key:
    """Read a public key (RFC 7517) that can check signatures.

    Raises:
        ValueError: It is not a key, a private or a symmetric one, or of an unsound size.
    """
    kty = jwk.get("kty") if isinstance(jwk, dict) else None
    if not isinstance(jwk, dict) or not isinstance(kty, str) or kty not in _SIZES:
        raise ValueError("it is not a public key of a kind that signs")
    if _PRIVATE & jwk.keys():
        raise ValueError("it is a private key")
    for name, sizes in _SIZES[kty].items():
        number = jwk.get(name)
        if not isinstance(number, str) or not _NUMBER.fullmatch(number):
            raise ValueError("its numbers are none")
        if len(number) not in sizes:
            raise ValueError("its size is not sound: RSA keys have 2048 to 8192 bits")
    known = {name: jwk[name] for name in _PUBLIC if name in jwk}
    try:
        return JWKRegistry.import_key(known)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        raise ValueError("it is not a sound key") from None


@frozen(eq=False)
class PublicKeys:
    """The keys that an issuer signs with."""

    _keys: tuple[Key, ...]
    thumbprints: frozenset[str]

    @classmethod
    def read(cls, document: object) -> PublicKeys:
        """Read a key set (RFC 7517, section 5). Keys of other kinds are left out.

        Raises:
            ValueError: It is not a key set, has too many keys, or none that can be used.
        """
        keys = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(keys, list):
            raise ValueError("it is not a key set")
        if len(keys) > MAX_KEYS:
            raise ValueError(f"it has {len(keys)} keys, and {MAX_KEYS} are the most that are read")
        usable = tuple(_usable(keys))
        if not usable:
            raise ValueError("it has no key that can be used")
        return cls(usable, frozenset(key.thumbprint() for key in usable))

    def find(self, kid: object, algorithm: str) -> Key | None:
        """Return the key with an id, or without an id the only one that the algorithm can use."""
        kty = _KTY[algorithm[:2]]
        fitting = [key for key in self._keys if key.key_type == kty]
        if kid is not None:
            return next((key for key in fitting if key.get("kid") == kid), None)
        return fitting[0] if len(fitting) == 1 else None


def _usable(keys: list[Any]) -> Iterator[Key]:
    for jwk in keys:
        try:
            key = public_key(jwk)
        except ValueError:  # of a kind that we do not know (RFC 7517, section 5), or unsound
            continue
        if key.get("use", "sig") == "sig":
            yield key
