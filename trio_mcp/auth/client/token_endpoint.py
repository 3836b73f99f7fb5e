"""Requests for tokens, and how a client shows at them who it is."""

from __future__ import annotations

import json
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
from trio_mcp.auth.fetching import Fetched, Fetching
from trio_mcp.auth.urls import origin
from trio_mcp.errors import AuthorizationError

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_LIFE: Final = 60
"""Seconds for which a signed statement of who we are holds."""
_ERROR_CODE: Final = re.compile(r"[a-z][a-z0-9_.:/-]{0,60}")
_MOST_WORDS: Final = 200
_SHORTEST_SECRET: Final = 6

Form = Mapping[str, str]
Signer = Callable[[str, str], str]
"""Signs a statement of who we are: our id and the issuer who wants to know."""


@frozen(kw_only=True)
class TokenEndpoint:
    """Where an authorization server gives tokens.

    Attributes:
        metadata: The server's.
        fetching: How it is reached.
        near: On whose word we go there; `None` if on the user's own.
        key: What tokens are bound to, if they are.
        sign: How we sign who we are, if we do.
    """

    metadata: ServerMetadata
    fetching: Fetching
    near: str | None
    key: DpopKey | None = None
    sign: Signer | None = field(default=None, repr=False)

    async def token(
        self,
        form: Form,
        client: ClientRegistration | None,
        *,
        asked: tuple[str, ...],
        before: Token | None = None,
    ) -> Token:
        """Ask for a token.

        Args:
            form: The grant and what belongs to it.
            client: Who we are there, if that has to be shown.
            asked: The scopes that are asked for.
            before: The token that is renewed.

        Raises:
            AuthorizationError: There was none.
        """
        document = await self.ask(form, client)
        try:
            token = read_token(document, time.time(), asked=asked, before=before)
        except DocumentError as error:
            raise AuthorizationError(str(error)) from None
        if token.scheme == "DPoP" and self.key is None:
            raise AuthorizationError("the authorization server bound a token to a key of nobody's")
        return token

    async def ask(self, form: Form, client: ClientRegistration | None) -> Any:
        """Send a request, and give back the JSON value of the answer.

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
        sent = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        if self.key is not None:
            sent["DPoP"] = self.key.proof("POST", url)
        content = urlencode(form).encode()
        fetched = await self.fetching.post(url, content, sent, near=self.near)
        if self.key is not None:
            self.key.note_nonce(url, fetched.headers.get("dpop-nonce"))
        return fetched

    def _identified(self, client: ClientRegistration | None) -> tuple[Form, Form]:
        """What a request shows of who we are, in its form and in its headers."""
        if client is None:
            return {}, {}
        method = self._method(client)
        if method == "private_key_jwt" and self.sign is not None:
            assertion = self.sign(client.client_id, self.metadata.issuer)
            return {"client_assertion_type": _CLIENT_ASSERTION, "client_assertion": assertion}, {}
        if method == "none" or client.client_secret is None:
            return {"client_id": client.client_id}, {}
        if method == "client_secret_post":
            return {"client_id": client.client_id, "client_secret": client.client_secret}, {}
        # The id is also where servers of the SDK look for it.
        return {"client_id": client.client_id}, {"Authorization": client.basic}

    def _method(self, client: ClientRegistration) -> str:
        if self.sign is not None:
            return "private_key_jwt"
        if client.client_secret is None:
            return "none"
        if client.token_endpoint_auth_method is not None:
            return client.token_endpoint_auth_method
        supported = self.metadata.token_endpoint_auth_methods_supported
        return preferred_method(supported or ("client_secret_basic",))


def preferred_method(supported: tuple[str, ...]) -> str:
    """How a client with a secret shows it, of the ways that a server knows."""
    known = ("client_secret_basic", "client_secret_post", "none")
    return next((each for each in known if each in supported), known[0])


def refused(url: str, fetched: Fetched, sent: Form | None = None) -> AuthorizationError:
    """Say that, and why, an authorization server refused something.

    Args:
        url: Where.
        fetched: How.
        sent: What was sent there, of which nothing must be repeated.
    """
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
    """A text of another's in one short line, without anything that was sent to them."""
    for secret in sent.values():
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return "".join(each if each.isprintable() else " " for each in text[:_MOST_WORDS]).strip()


# -- signed statements -----------------------------------------------------------------------------

_KINDS: Final[tuple[tuple[type, Any, str, tuple[str, ...]], ...]] = (
    (EllipticCurvePrivateKey, ECKey, "ES256", ("ES256", "ES384", "ES512")),
    (RSAPrivateKey, RSAKey, "RS256", ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    (Ed25519PrivateKey, OKPKey, "Ed25519", ("Ed25519", "EdDSA")),
)
"""By the kind of a key: how it signs if nothing is said, and how it may."""


def signer(pem: str | bytes, algorithm: str | None = None, key_id: str | None = None) -> Signer:
    """Make what signs who we are (RFC 7523, section 2.2).

    Args:
        pem: A private key: EC, RSA or Ed25519, in PEM.
        algorithm: The algorithm; by default `ES256`, `RS256` or `Ed25519`, as the key is.
        key_id: What the key is called at the authorization server.

    Raises:
        ValueError: That is no such key.
    """
    data = pem.encode() if isinstance(pem, str) else pem
    try:
        loaded = load_pem_private_key(data, None)
    except (ValueError, TypeError):
        raise ValueError("private_key: this is no private key in PEM without a password") from None
    found = next((each for each in _KINDS if isinstance(loaded, each[0])), None)
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


def json_body(value: Any) -> bytes:
    """A value as the body of a request."""
    return json.dumps(value).encode()
