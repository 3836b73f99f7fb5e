"""The clients: registered here (RFC 7591), or described at the URL that is their id.

A registration takes no room: the id of a client *is* its registration, sealed. So no number of
registrations fills anything or pushes another client out, and each expires by itself.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from attrs import define, field, frozen

from trio_mcp.auth.digests import digest_of, same
from trio_mcp.auth.fetching import Fetcher
from trio_mcp.auth.proxy.seal import Seal
from trio_mcp.auth.proxy.web import OAuthError
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.auth.urls import BadUrl, is_loopback, origin, parsed
from trio_mcp.errors import AuthorizationError

REGISTRATION_TTL: Final = 365 * 86_400.0
"""Seconds for which a registration is good."""
MAX_REDIRECTS: Final = 10
_LONGEST_URI: Final = 2000
_LONGEST_NAME: Final = 100
_LONGEST_ID: Final = 8192
_MAX_REGISTRATION: Final = 4096
"""Characters that all redirect URIs of a client have together."""

_DOCUMENT_TTL: Final = 300.0
_MAX_DOCUMENTS: Final = 1000
MAX_FETCHES: Final = 64
MAX_FETCHES_BY_ADDRESS: Final = 8
"""Clients that may be looked up at a time because of who is at one address, who may be slow on
purpose, and must not keep out others."""

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_NO_SCHEMES: Final = frozenset(
    (
        *("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "http", "https"),
        *("intent", "jar", "javascript", "mailto", "vbscript", "view-source", "ws", "wss"),
    )
)
"""Schemes that belong to no application, or run what comes after them."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{1,60}")


@frozen(kw_only=True)
class ProxyClient:
    """A client of the proxy.

    Attributes:
        id: Its id.
        name: What it calls itself, which nothing vouches for; `None` if it does not.
        redirects: Where it may have codes sent.
        secret: Its secret; `None` for a public client.
        method: How it shows who it is.
        host: The host whose document describes it; `None` if it has registered itself.
    """

    id: str
    name: str | None
    redirects: tuple[str, ...]
    secret: str | None = field(default=None, repr=False)
    method: str = "none"
    host: str | None = None

    def redirect_for(self, asked: str | None) -> str | None:
        """Return where a code may be sent: exactly as registered, loopback ports aside.

        Args:
            asked: The `redirect_uri` of a request; `None` if it has none.

        Returns:
            The URI; `None` if there must not be a redirect.
        """
        if asked is None:
            return self.redirects[0] if len(self.redirects) == 1 else None
        if asked in self.redirects:
            return asked
        if not _is_plain(asked):
            return None
        return asked if portless(asked) in map(portless, self.redirects) else None


def portless(uri: str) -> str:
    """Return a URI, without its port if it leads to this machine (RFC 8252, section 7.3)."""
    parts = urlsplit(uri)
    if parts.scheme != "http" or parts.port is None or not is_loopback(parts.hostname or ""):
        return uri
    return parts._replace(netloc=parts.netloc.rpartition(":")[0]).geturl()


def is_local(uri: str) -> bool:
    """Whether a redirect leads to the person's own machine, where any program may wait for it."""
    return urlsplit(uri).scheme != "https"


def _is_plain(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return False
    bad = any(char <= " " or char in '"<>\\^`{|}\x7f' for char in uri)
    return uri.isascii() and not bad and "#" not in uri and "@" not in parts.netloc


def check_redirect(uri: object, hosts: Collection[str] | None) -> str:
    """Return a redirect URI that a client may have.

    Raises:
        OAuthError: It is none, or leads where no code must be sent (`invalid_redirect_uri`).
    """
    why = "Each redirect URI is https:, http: on this machine, or of an application's own scheme."
    if not isinstance(uri, str) or not 0 < len(uri) <= _LONGEST_URI or not _is_plain(uri):
        raise OAuthError("invalid_redirect_uri", why)
    parts = urlsplit(uri)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    if scheme == "http" and is_loopback(host):
        return uri
    is_own = scheme not in _NO_SCHEMES and _SCHEME.fullmatch(scheme) and (host or parts.path)
    if not (is_own or (scheme == "https" and host)):
        raise OAuthError("invalid_redirect_uri", why)
    if hosts is not None and host not in hosts:
        raise OAuthError("invalid_redirect_uri", "This server sends no codes to that host.")
    return uri


def _name_in(document: Mapping[str, Any]) -> str | None:
    name = document.get("client_name")
    if not isinstance(name, str):
        return None
    shown = "".join(char if char.isprintable() else " " for char in name[:_LONGEST_NAME]).strip()
    return shown or None


def _redirects_in(document: Mapping[str, Any], hosts: Collection[str] | None) -> tuple[str, ...]:
    uris = document.get("redirect_uris")
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECTS:
        why = f"redirect_uris must be a list of 1 to {MAX_REDIRECTS} URIs."
        raise OAuthError("invalid_redirect_uri", why)
    found = tuple(check_redirect(uri, hosts) for uri in uris)
    if sum(map(len, found)) > _MAX_REGISTRATION:
        raise OAuthError("invalid_redirect_uri", "The redirect URIs are too long together.")
    return found


@define(eq=False, repr=False)
class Clients:
    """Finds clients by their ids, and registers them."""

    _seal: Seal
    _fetcher: Fetcher
    _issuer: str
    """This server, from which clients may send us no nearer than it is."""
    _hosts: Collection[str] | None
    """Where codes may be sent; `None` for anywhere."""
    _fetches: SingleFlight[ProxyClient | Exception]
    """The requests for documents, which several logins wait for."""
    _documents: OrderedDict[str, tuple[float, ProxyClient]] = field(factory=OrderedDict, init=False)
    _fetching: Counter[str] = field(factory=Counter, init=False)

    def register(self, document: Any) -> dict[str, Any]:
        """Register a client; return the response (RFC 7591, section 3.2.1).

        Raises:
            OAuthError: The metadata is not acceptable.
        """
        if not isinstance(document, dict):
            raise OAuthError("invalid_client_metadata", "Send a JSON object.")
        method = document.get("token_endpoint_auth_method", "client_secret_basic")
        if method not in METHODS:
            known = ", ".join(METHODS)
            why = f"token_endpoint_auth_method must be one of {known}."
            raise OAuthError("invalid_client_metadata", why)
        redirects, name = _redirects_in(document, self._hosts), _name_in(document)
        secret = None if method == "none" else secrets.token_urlsafe(32)
        kept = {"n": name, "r": redirects, "m": method, "s": secret and digest_of(secret)}
        now = int(time.time())
        answer: dict[str, Any] = {
            "client_id": self._seal.seal({**kept, "i": secrets.token_urlsafe(9)}),
            "client_id_issued_at": now,
            "redirect_uris": redirects,
            "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
        if name is not None:
            answer["client_name"] = name
        if secret is not None:
            expires = now + int(REGISTRATION_TTL)
            answer |= {"client_secret": secret, "client_secret_expires_at": expires}
        return answer

    async def find(self, id: str | None, address: str) -> ProxyClient | None:
        """Return the client with an id, for who is at an address; `None` if there is none.

        Raises:
            AuthorizationError: Its document cannot be fetched; the text says why.
        """
        if id and _is_described(id):
            return await self._described(id, address)
        return self.known(id)

    def known(self, id: str | None) -> ProxyClient | None:
        """Return the client with an id, without its document; `None` if there is none.

        The document only says where codes may go: a client that has one is not asked for anything
        but the code or the token, wherever its document is now.
        """
        if not id or len(id) > _LONGEST_ID:
            return None
        if _is_described(id):
            return ProxyClient(id=id, name=None, redirects=())
        kept = self._seal.open(id, REGISTRATION_TTL)
        if kept is None:
            return None
        return ProxyClient(
            id=id, name=kept["n"], redirects=tuple(kept["r"]), secret=kept["s"], method=kept["m"]
        )

    async def _described(self, url: str, address: str) -> ProxyClient:
        now = time.time()
        until, client = self._documents.get(url, (0.0, None))
        if client is None or (until <= now and not self._is_busy(address)):
            found = await self._fetches.run(url, partial(self._looked_up, url, address))
            if isinstance(found, Exception):
                raise found
            client = found
            self._documents[url] = now + _DOCUMENT_TTL, client
        self._documents.move_to_end(url)
        if len(self._documents) > _MAX_DOCUMENTS:
            self._documents.popitem(last=False)
        return client

    def _is_busy(self, address: str) -> bool:
        ours = self._fetching[address] >= MAX_FETCHES_BY_ADDRESS
        return ours or self._fetching.total() >= MAX_FETCHES

    async def _looked_up(self, url: str, address: str) -> ProxyClient | Exception:
        if self._is_busy(address):
            return AuthorizationError("too many clients are looked up at the moment")
        self._fetching[address] += 1
        try:
            return await self._fetch(url)
        except Exception as error:  # raised where it is waited for
            return error
        finally:
            self._fetching -= Counter([address])  # which forgets those that have none

    async def _fetch(self, url: str) -> ProxyClient:
        """Fetch the metadata of a client (draft-ietf-oauth-client-id-metadata-document)."""
        try:
            parts = parsed(url, "the client's id")
        except BadUrl as error:
            raise AuthorizationError(str(error)) from None
        if parts.path in ("", "/") or "/." in unquote(parts.path):
            raise AuthorizationError("the client's id has no path, or dots in it")
        fetched = await self._fetcher.get(url, near=self._issuer)
        document = fetched.document
        if fetched.status != HTTPStatus.OK or not isinstance(document, dict):
            raise AuthorizationError(f"{origin(url)} has no document that describes this client")
        if document.get("client_id") != url:
            raise AuthorizationError(f"the document at {origin(url)} describes another client")
        method = document.get("token_endpoint_auth_method", "none")
        if method != "none":
            raise AuthorizationError("the client must be a public one here: it has no secret")
        try:
            redirects = _redirects_in(document, self._hosts)
        except OAuthError as error:
            raise AuthorizationError(error.description) from None
        host = parts.hostname
        return ProxyClient(id=url, name=_name_in(document), redirects=redirects, host=host)


def _is_described(id: str) -> bool:
    return len(id) <= _LONGEST_ID and id.startswith(("https://", "http://"))


def is_client(client: ProxyClient, secret: str | None) -> bool:
    """Whether who sends a secret is a client; a public client has none to send."""
    if client.secret is None:
        return True
    return secret is not None and same(digest_of(secret), client.secret)
