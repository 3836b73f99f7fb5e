"""Check the claims of a token, from the token itself or its issuer, and make a value of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeGuard, TypeVar

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.scopes import scopes_in, with_implied
from trio_mcp.auth.server.credentials import TokenRefused
from trio_mcp.auth.server.resource import ResourceServer
from trio_mcp.auth.urls import origin
from trio_mcp.wire import codec
from trio_mcp.wire.bounds import is_number

_CLIENT = ("client_id", "azp", "cid")
"""Where issuers name the client: RFC 9068, OpenID Connect, Okta."""
_ALIKE: Final = frozenset(("iss", "aud", "scope", "scp", *_CLIENT))
"""Claims that are the same in many tokens."""
_MOST_SHARED: Final = 256
"""Characters, or scopes."""

T = TypeVar("T")


class Claims(Mapping[str, Any]):
    """The claims of a token, kept as JSON. Of thousands of tokens, equal parts are kept once."""

    __slots__ = ("_alike", "_own")

    def __init__(self, claims: Mapping[str, Any]) -> None:
        alike = {name: value for name, value in claims.items() if name in _ALIKE}
        own = {name: value for name, value in claims.items() if name not in _ALIKE}
        # A str is not over-allocated, as bytes are.
        self._alike = _shared(codec.dumps(alike).decode())
        self._own = codec.dumps(own).decode()

    def _all(self) -> dict[str, Any]:
        return {**codec.loads(self._alike), **codec.loads(self._own)}

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


class ClaimsCheck:
    """The rules for claims of tokens for a server (RFC 9068, section 4; RFC 7662, section 4)."""

    def __init__(self, server: ResourceServer) -> None:
        self._server = server
        self._audiences = {server.resource, *server.audiences}
        root = origin(server.resource)
        if server.resource.lower().removesuffix("/") == root:  # both forms are the same URL
            self._audiences |= {root, f"{root}/"}

    def audience(self, claims: Mapping[str, Any], *, required: bool = True) -> None:
        """Raise `TokenRefused` if a token is not for us, or does not say for whom."""
        aud = claims.get("aud")
        if aud is None and not required:
            return
        listed = aud if isinstance(aud, list) else [aud]
        if not any(isinstance(name, str) and name in self._audiences for name in listed):
            raise TokenRefused("it is for another audience")

    def times(
        self, claims: Mapping[str, Any], now: float, *, required: bool = True
    ) -> float | None:
        """Return when a token expires, if it says so.

        Raises:
            TokenRefused: It is not valid now, or a time is none.
        """
        leeway = self._server.leeway
        expires = claims.get("exp")
        if expires is not None or required:
            if not is_time(expires):
                raise TokenRefused("it does not say when it expires")
            if now >= expires + leeway:
                raise TokenRefused("it has expired")
        for name in ("nbf", "iat"):
            time = claims.get(name)
            if time is not None and not (is_time(time) and now >= time - leeway):
                raise TokenRefused("it is not good yet")
        return expires

    def authorization(
        self, claims: Mapping[str, Any], issuer: str, expires: float | None
    ) -> Authorization:
        """Make a value of claims that were checked.

        Raises:
            TokenRefused: They do not say whose token it is, or to which key it is bound.
        """
        subject = claims.get("sub")
        named = (claims[name] for name in _CLIENT if isinstance(claims.get(name), str))
        client = _shared(next(named, None))
        if not isinstance(subject, str | None) or not (subject or client):
            raise TokenRefused("it does not say whose it is")
        try:
            kept = Claims(claims)
        except TypeError:  # JSON that comes in may be nested more deeply than what goes out
            raise TokenRefused("its claims are nested too deeply") from None
        scopes = scopes_in(claims.get("scope")) | scopes_in(claims.get("scp"))
        return Authorization(
            subject=subject,
            client_id=client,
            scopes=_shared(with_implied(scopes, self._server.implied_scopes)),
            issuer=issuer,
            expires_at=expires,
            claims=kept,
            key_thumbprint=_thumbprint(claims.get("cnf")),
        )


_one_of = lru_cache(maxsize=256)(lambda value: value)


def _shared(value: T) -> T:
    """Intern small values: thousands of tokens are kept at a time."""
    is_small = isinstance(value, str | frozenset) and len(value) <= _MOST_SHARED
    return _one_of(value) if is_small else value


def _thumbprint(confirmation: object) -> str | None:
    """Return the key that a token is bound to.

    Raises:
        TokenRefused: It is bound to something that we cannot check, such as a certificate.
    """
    if confirmation is None:
        return None
    ways = confirmation if isinstance(confirmation, dict) else {}
    thumbprint = ways.get("jkt")
    if not isinstance(thumbprint, str) or len(ways) != 1:
        raise TokenRefused("it is bound to something other than a DPoP key")
    return thumbprint


def is_time(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a sensible number of seconds since 1970."""
    return is_number(value) and abs(value) < 1e12
