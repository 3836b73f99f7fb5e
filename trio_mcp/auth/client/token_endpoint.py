"""Requests for tokens, and how a client authenticates in them."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.client.tokens import Token, read_token
from trio_mcp.auth.documents import ClientRegistration, DocumentError, ServerMetadata
from trio_mcp.auth.fetching import FORM, Fetched, Fetching
from trio_mcp.auth.urls import origin
from trio_mcp.errors import AuthorizationError

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_LIFE: Final = 60
"""Seconds for which a signed client assertion holds."""
_ERROR_CODE: Final = re.compile(r"[a-z][a-z0-9_.:/-]{0,60}")
_MOST_WORDS: Final = 200
_SHORTEST_SECRET: Final = 6

Form = Mapping[str, str]
Signer = Callable[[str, str], str]
"""Signs a client assertion, from our client id and the issuer that it is for."""


@frozen(kw_only=True)
class TokenEndpoint:
    """The token endpoint of an authorization server."""

    metadata: ServerMetadata
    fetching: Fetching
    near: str | None
    """The server that sends us there; `None` if it is the user."""
    key: DpopKey | None = None
    """The key that tokens are bound to, if they are bound."""
    sign: Signer | None = field(default=None, repr=False)
    """Signs our client assertions, if we use them."""

    async def token(
        self,
        form: Form,
        client: ClientRegistration | None,
        *,
        asked: tuple[str, ...],
        before: Token | None = None,
    ) -> Token:
        """Ask for a token with some scopes, perhaps in place of one from `before`.

        Raises:
            AuthorizationError: The server gave none that can be used.
        """
        document = await self.ask(form, client)
        try:
            token = read_token(document, time.time(), asked=asked, before=before)
        except DocumentError as error:
            raise AuthorizationError(str(error)) from None
        if token.scheme == "DPoP" and self.key is None:
            raise AuthorizationError("the authorization server bound a token to an unknown key")
        return token

    async def ask(self, form: Form, client: ClientRegistration | None) -> Any:
        """Send a request, and return the JSON value of the response.

        Raises:
            AuthorizationError: It was refused.
        """
        url = self.metadata.token_endpoint
        if url is None:
            raise AuthorizationError(f"{origin(self.metadata.issuer)} names no token_endpoint")
        shown, headers = self._identified(client)
        sent = {**form, **shown}
        fetched = await self._post(url, sent, headers)
        if _code(fetched) == "use_dpop_nonce" and fetched.headers.get("dpop-nonce"):
            fetched = await self._post(url, sent, headers)
        if fetched.status != 200:
            credentials = headers.get("Authorization", "").partition(" ")[2]
            raise refused(url, fetched, {**sent, "": credentials})
        return fetched.document

    async def _post(self, url: str, form: Form, headers: Form) -> Fetched:
        sent = {**FORM, **headers}
        if self.key is not None:
            sent["DPoP"] = self.key.proof("POST", url)
        content = urlencode(form).encode()
        fetched = await self.fetching.post(url, content, sent, near=self.near)
        if self.key is not None:
            self.key.note_nonce(url, fetched.headers.get("dpop-nonce"))
        return fetched

    def _identified(self, client: ClientRegistration | None) -> tuple[Form, Form]:
        """Return what authenticates us in a request, in its form and in its headers."""
        if client is None:
            return {}, {}
        if self.sign is not None:
            assertion = self.sign(client.client_id, self.metadata.issuer)
            return {"client_assertion_type": _CLIENT_ASSERTION, "client_assertion": assertion}, {}
        form = {"client_id": client.client_id}  # also with Basic: servers of the SDK look for it
        if client.client_secret is None:
            return form, {}
        supported = self.metadata.token_endpoint_auth_methods_supported or ()
        method = client.token_endpoint_auth_method or preferred_method(supported)
        if method == "none":
            return form, {}
        if method == "client_secret_post":
            return {**form, "client_secret": client.client_secret}, {}
        return form, {"Authorization": client.basic}


def preferred_method(supported: tuple[str, ...]) -> str:
    """Choose how a client with a secret authenticates, of the methods that a server supports."""
    known = ("client_secret_basic", "client_secret_post", "none")
    return next((method for method in known if method in supported), known[0])


def refused(url: str, fetched: Fetched, sent: Form | None = None) -> AuthorizationError:
    """Make the error for a request that was refused, without what was sent in it."""
    code = _code(fetched)
    words = ""
    if code is not None:
        said = fetched.document.get("error_description")
        words = f": {code}" + (f" ({redacted(said, sent or {})})" if isinstance(said, str) else "")
    why = f"{origin(url)} refused with status {fetched.status}{words}"
    return AuthorizationError(why, code)


def _code(fetched: Fetched) -> str | None:
    if fetched.status < 400:
        return None
    document = fetched.document
    code = document.get("error") if isinstance(document, dict) else None
    return code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else None


def redacted(text: str, sent: Form) -> str:
    """Return a server's text in one short line, without anything that was sent to it."""
    for secret in sent.values():
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return "".join(char if char.isprintable() else " " for char in text[:_MOST_WORDS]).strip()


# -- client assertions -----------------------------------------------------------------------------

_KINDS: Final[tuple[tuple[type, Any, str, tuple[str, ...]], ...]] = (
    (EllipticCurvePrivateKey, ECKey, "ES256", ("ES256", "ES384", "ES512")),
    (RSAPrivateKey, RSAKey, "RS256", ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    (Ed25519PrivateKey, OKPKey, "Ed25519", ("Ed25519", "EdDSA")),
)
"""By the kind of a key, its default algorithm and all that it can use."""


def signer(pem: str | bytes, algorithm: str | None, key_id: str | None) -> Signer:
    """Make a function that signs client assertions (RFC 7523, section 2.2).

    Raises:
        ValueError: It is not a private key in PEM (EC, RSA, Ed25519), or cannot sign so.
    """
    data = pem.encode() if isinstance(pem, str) else pem
    try:
        loaded = load_pem_private_key(data, None)
    except (ValueError, TypeError):
        raise ValueError(
            "private_key: this is not a private key in PEM without a password"
        ) from None
    found = next((kind for kind in _KINDS if isinstance(loaded, kind[0])), None)
    if found is None:
        raise ValueError("private_key: only EC, RSA and Ed25519 keys can sign here")
    _, jwk, usual, possible = found
    key, chosen = jwk.import_key(data), algorithm or usual
    if chosen not in possible:
        raise ValueError(f"algorithm: this key signs with {', '.join(possible)}")
    header = {"alg": chosen, **({"kid": key_id} if key_id else {})}

    def sign(client_id: str, issuer: str) -> str:
        now = int(time.time())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": issuer,
            "iat": now,
            "exp": now + _ASSERTION_LIFE,
            "jti": secrets.token_urlsafe(16),
        }
        return jwt.encode(header, claims, key, [chosen])

    try:
        sign("", "")
    except (JoseError, ValueError):
        raise ValueError(f"algorithm: this key cannot sign with {chosen}") from None
    return sign
