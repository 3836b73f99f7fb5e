"""The documents by which clients find authorization servers: JSON in, values out, no I/O.

A missing member is `None` or empty, one of another kind makes the whole document bad, and unknown
ones are ignored. What a document claims is not yet true: `discovery` decides whether to believe it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from attrs import NOTHING, Attribute, field, fields, frozen

from trio_mcp.public import public_in

T = TypeVar("T")


class DocumentError(ValueError):
    """A document is not valid. The message repeats nothing of its contents."""


def read(kind: type[T], document: Any, what: str) -> T:
    """Make a value of a document that a server sent, and that messages call `what`.

    Raises:
        DocumentError: It is not an object, or a member is missing or of another kind.
    """
    if not isinstance(document, Mapping):
        raise DocumentError(f"{what} is not a JSON object")
    known: dict[str, Any] = {}
    for member in fields(kind):  # type: ignore[arg-type]
        value = document.get(member.name)
        if value is not None:
            known[member.name] = value
        elif member.default is NOTHING:
            raise DocumentError(f"{what} has no {member.name}")
    try:
        return kind(**known)
    except ValueError as error:
        raise DocumentError(f"{what}: {error}") from None


def _is_text(_: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"{attribute.name} is not text")


def _is_texts(_: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not (
        isinstance(value, tuple) and all(isinstance(text, str) for text in value)
    ):
        raise ValueError(f"{attribute.name} is not a list of texts")


def _is_flag(_: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{attribute.name} is neither true nor false")


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _text(default: Any = None, *, secret: bool = False) -> Any:
    return field(default=default, validator=_is_text, repr=not secret)


def _texts(default: Any = None) -> Any:
    return field(default=default, converter=_as_tuple, validator=_is_texts)


def _flag() -> Any:
    return field(default=False, validator=_is_flag)


@frozen(kw_only=True)
class ResourceMetadata:
    """What a protected server says about itself (RFC 9728, section 2)."""

    resource: str = _text(NOTHING)
    authorization_servers: tuple[str, ...] = _texts(())
    scopes_supported: tuple[str, ...] | None = _texts()
    dpop_bound_access_tokens_required: bool = _flag()


@frozen(kw_only=True)
class IssuerMetadata:
    """The metadata of an authorization server that checking its tokens takes."""

    issuer: str = _text(NOTHING)
    jwks_uri: str = _text(NOTHING)


@frozen(kw_only=True)
class ServerMetadata:
    """What an authorization server says about itself (RFC 8414, section 2; OpenID Discovery)."""

    issuer: str = _text(NOTHING)
    authorization_endpoint: str | None = _text()
    token_endpoint: str | None = _text()
    registration_endpoint: str | None = _text()
    revocation_endpoint: str | None = _text()
    scopes_supported: tuple[str, ...] | None = _texts()
    code_challenge_methods_supported: tuple[str, ...] | None = _texts()
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = _texts()
    authorization_response_iss_parameter_supported: bool = _flag()
    client_id_metadata_document_supported: bool = _flag()
    dpop_signing_alg_values_supported: tuple[str, ...] | None = _texts()


def check_issuer(metadata: ServerMetadata | IssuerMetadata, issuer: str) -> None:
    """Refuse metadata that speaks for another authorization server.

    Raises:
        DocumentError: Its issuer is not identical to the one that was asked for.
    """
    if metadata.issuer != issuer:  # identical to the letter (RFC 8414, section 3.3)
        is_close = metadata.issuer.rstrip("/") == issuer.rstrip("/")
        named = "another issuer" + (" (they differ by a slash at the end)" if is_close else "")
        raise DocumentError(f"the authorization server's metadata names {named}: refused")


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class ClientRegistration:
    """A client as one authorization server knows it (RFC 7591, section 3.2.1).

    Attributes:
        client_id: Its id there.
        client_secret: Its secret there, if it has one.
        token_endpoint_auth_method: How it authenticates, if the server has said.
        redirect_uris: Where people may be sent back to.
    """

    client_id: str = _text(NOTHING)
    client_secret: str | None = _text(secret=True)
    token_endpoint_auth_method: str | None = _text()
    redirect_uris: tuple[str, ...] = _texts(())

    @property
    def basic(self) -> str:
        """The id and the secret for the header `Authorization` (RFC 6749, section 2.3.1)."""
        # Encoded as in a form, and only then joined.
        # With %20 for a space, where a form has a plus: some undo only the percents.
        pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret or '', safe='')}"
        return f"Basic {b64encode(pair.encode()).decode()}"
