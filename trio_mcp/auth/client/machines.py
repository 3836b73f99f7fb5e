"""Get tokens without a person: as a program, as a workload, or by an enterprise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from attrs import define, field

from trio_mcp.auth.client.access import Access
from trio_mcp.auth.client.discovery import Discovered
from trio_mcp.auth.client.flow import AuthorizationFlow
from trio_mcp.auth.client.stores import Login
from trio_mcp.auth.client.token_endpoint import (
    JWT_BEARER,
    TOKEN_EXCHANGE,
    Form,
    TokenEndpoint,
    signer,
)
from trio_mcp.auth.documents import ClientRegistration, ServerMetadata
from trio_mcp.auth.urls import BadUrl, origin, parsed
from trio_mcp.errors import AuthorizationError
from trio_mcp.public import public_in

_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105

Assertion = Callable[[str], Awaitable[str]]


@define(eq=False, kw_only=True, slots=False)
class _Machine(AuthorizationFlow):
    """A way to get a token by one request."""

    client_id: str | None = None
    client_secret: str | None = field(default=None, init=False, repr=False)

    @property
    def _client(self) -> ClientRegistration | None:
        if not self.client_id:
            return None
        return ClientRegistration(client_id=self.client_id, client_secret=self.client_secret)

    def _is_ours(self, login: Login) -> bool:
        return (login.client.client_id if login.client else None) == (self.client_id or None)

    @property
    def _is_arranged(self) -> bool:
        return True


def _form(grant_type: str, asked: tuple[str, ...], **more: str) -> Form:
    scope = {"scope": " ".join(asked)} if asked else {}
    return {"grant_type": grant_type, **more, **scope}


@public_in("trio_mcp.auth")
@define(eq=False, kw_only=True, slots=False)
class ClientCredentials(_Machine):
    """Gets tokens as a program that is registered with the authorization server.

    Args:
        client_id: Our client id.
        client_secret: Our client secret.
        private_key: A key in PEM that signs client assertions, in place of a secret.
        algorithm: How it signs; by default `ES256`, `RS256` or `Ed25519`, as the key is.
        key_id: The id of the key at the authorization server, if it has one.
        scopes: Scopes to ask for besides those that the server needs.
        issuer: The authorization server that knows us. Without it, the first one that a server
            names is taken for it, as long as `store` keeps its tokens, and gets the secret: better
            give it.
        store: Where tokens are kept; by default in memory.
        dpop: Whether tokens are bound to a key; by default if the server wants it.
        fetching: How authorization servers are reached.

    Raises:
        ValueError: There is neither a secret nor a key, or both, or the key cannot sign.
        AuthorizationError: From each request: no token was granted.

    Example:
        >>> ClientCredentials(client_id="nightly", client_secret="hunter2")
        ClientCredentials(client_id='nightly')
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    private_key: str | bytes | None = field(default=None, repr=False)
    algorithm: str | None = field(default=None, repr=False)
    key_id: str | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if (self.client_secret is None) == (self.private_key is None):
            raise ValueError("ClientCredentials: give a client_secret or a private_key")
        if self.private_key is not None:
            self._sign = signer(self.private_key, self.algorithm, self.key_id)

    async def _grant(
        self, found: Discovered, asked: tuple[str, ...], access: Access
    ) -> tuple[ClientRegistration | None, Form]:
        return self._client, _form("client_credentials", asked)


@public_in("trio_mcp.auth")
@define(eq=False, kw_only=True, slots=False)
class WorkloadIdentity(_Machine):
    """Gets tokens by the identity that the platform gives this program (RFC 7523, section 2.1).

    Args:
        assertion: Called with an issuer; gets the platform's token for that authorization server,
            from a file or from a service of the platform.
        client_id: Our client id, if the authorization server wants one.
        scopes: Scopes to ask for besides those that the server needs.
        issuer: The authorization server that trusts the platform.
        store: Where tokens are kept; by default in memory.
        dpop: Whether tokens are bound to a key; by default if the server wants it.
        fetching: How authorization servers are reached.

    Raises:
        AuthorizationError: From each request: no token was granted. There is no retry.
    """

    assertion: Assertion = field(repr=False)
    client_id: str | None = None

    async def _grant(
        self, found: Discovered, asked: tuple[str, ...], access: Access
    ) -> tuple[ClientRegistration | None, Form]:
        assertion = await self.assertion(found.server.issuer)
        return self._client, _form(JWT_BEARER, asked, assertion=assertion)


@public_in("trio_mcp.auth")
@define(eq=False, kw_only=True, slots=False)
class EnterpriseManaged(_Machine):
    """Gets tokens through an enterprise's identity provider, where the person is logged in.

    Args:
        identity: Gets what the provider gave when the person logged in: an ID token.
        token_endpoint: Where the provider exchanges it (RFC 8693).
        idp_client_id: Our client id at the provider.
        idp_client_secret: Our client secret there, if there is one.
        client_id: Our client id at the server's authorization server.
        client_secret: Our client secret there, if there is one.
        identity_type: The type of what `identity` gets; by default that of an ID token.
        scopes: Scopes to ask for besides those that the server needs.
        issuer: The server's authorization server.
        store: Where tokens are kept; by default in memory.
        dpop: Whether tokens are bound to a key; by default if the server wants it.
        fetching: How authorization servers are reached.

    Raises:
        ValueError: `token_endpoint` is not a URL for secrets.
        AuthorizationError: From each request: no token was granted.
    """

    identity: Callable[[], Awaitable[str]] = field(repr=False)
    token_endpoint: str
    idp_client_id: str
    idp_client_secret: str | None = field(default=None, repr=False)
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    identity_type: str = ID_TOKEN

    def __attrs_post_init__(self) -> None:
        try:
            parsed(self.token_endpoint, "token_endpoint")
        except BadUrl as error:
            raise ValueError(f"EnterpriseManaged: {error}") from None

    async def _grant(
        self, found: Discovered, asked: tuple[str, ...], access: Access
    ) -> tuple[ClientRegistration | None, Form]:
        assertion = await self._assertion(found, asked)
        return self._client, _form(JWT_BEARER, asked, assertion=assertion)

    async def _assertion(self, found: Discovered, asked: tuple[str, ...]) -> str:
        """Exchange the identity for an assertion to the server's authorization server."""
        where = origin(self.token_endpoint)
        provider = TokenEndpoint(
            metadata=ServerMetadata(issuer=where, token_endpoint=self.token_endpoint),
            fetching=self.fetching,
            near=None,  # the user named it
        )
        form = _form(
            TOKEN_EXCHANGE,
            asked,
            requested_token_type=_ID_JAG,
            audience=found.server.issuer,
            resource=found.resource,
            subject_token=await self.identity(),
            subject_token_type=self.identity_type,
        )
        client = ClientRegistration(
            client_id=self.idp_client_id, client_secret=self.idp_client_secret
        )
        document = await provider.ask(form, client)
        match document:
            case {"access_token": str(assertion), "issued_token_type": str(kind)} if (
                kind == _ID_JAG and assertion
            ):
                return assertion
        raise AuthorizationError(f"{where} gave something else than a word for us")
