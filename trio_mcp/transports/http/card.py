"""Server cards: what a server on the internet says of itself to those who do not know it yet.

A card is at `<endpoint>/server-card`, and the catalog of the domain, which points to it, at
`/.well-known/ai-catalog.json` (SEP-2127, "Discovery").
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen, validators

from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.transports.http.documents import PublicDocument
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import ALL

CARD_PATH: Final = "/server-card"
CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_CARD: Final = b"application/mcp-server-card+json"
_CATALOG: Final = b"application/ai-catalog+json"
_SECONDS: Final = 3600
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_LONGEST_NAME: Final = 200
_LONGEST_TEXT: Final = 100
_FORGES: Final = {"github.com": "github", "gitlab.com": "gitlab"}


def _is_name(_: object, attribute: Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or not _NAME.fullmatch(value):
        raise ValueError(f"{attribute.name} must be like com.example/weather, not {value!r:.250}")


def _is_url(_: object, attribute: Attribute[Any], value: Any) -> None:
    url = urlsplit(value) if isinstance(value, str) else None
    if url is None or url.scheme not in ("http", "https") or not url.hostname or url.query:
        raise ValueError(f"{attribute.name} must be a URL without a query, not {value!r:.200}")


def _is_short(_: object, attribute: Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        raise ValueError(f"{attribute.name} must have 1 to {_LONGEST_TEXT} characters")


@public
@frozen(kw_only=True)
class ServerCard:
    """What strangers may know of a server: who it is, and where to connect (SEP-2127).

    Name and version of the server, its title, icons and website are the registry's.

    Args:
        name: Its unique name, which begins with a domain of yours in reverse.
        url: The URL of the MCP endpoint, as clients reach it.
        description: What it is for, in at most 100 characters.
        repository: Where its source can be read.
        meta: The card's `_meta`, under namespaced keys.

    Example:
        >>> card = ServerCard(
        ...     name="com.example/weather",
        ...     url="https://example.com/mcp",
        ...     description="Weather, everywhere.",
        ... )
        >>> card.identifier
        'urn:air:example.com:mcp:weather'
    """

    name: str = field(validator=_is_name)
    url: str = field(validator=_is_url)
    description: str = field(validator=_is_short)
    repository: str | None = field(default=None, validator=validators.optional(_is_url))
    meta: dict[str, Any] | None = None

    @property
    def identifier(self) -> str:
        """What the catalog calls the server."""
        namespace, _, name = self.name.partition("/")
        return f"urn:air:{'.'.join(reversed(namespace.split('.')))}:mcp:{name}"


def card_documents(
    card: ServerCard, registry: Registry, endpoint: str
) -> dict[str, PublicDocument]:
    if not isinstance(card, ServerCard):
        raise TypeError(f"card must be a ServerCard, not {type(card).__name__}")
    info = to_wire(registry.info)
    remote: dict[str, Json] = {
        "type": "streamable-http",
        "url": card.url,
        "supportedProtocolVersions": [revision.name for revision in ALL],
    }
    document: dict[str, Json] = {
        "$schema": _SCHEMA,
        "name": card.name,
        "version": registry.info.version,
        "description": card.description,
        "title": info.get("title"),
        "websiteUrl": info.get("websiteUrl"),
        "icons": info.get("icons"),
        "repository": _repository(card.repository),
        "remotes": [remote],
        "_meta": card.meta,
    }
    entry: dict[str, Json] = {
        "identifier": card.identifier,
        "type": _CARD.decode(),
        "url": card.url.rstrip("/") + CARD_PATH,
    }
    known = {name: value for name, value in document.items() if value is not None}
    return {
        endpoint.rstrip("/") + CARD_PATH: PublicDocument(known, _CARD, _SECONDS),
        CATALOG_PATH: PublicDocument(
            {"specVersion": "1.0", "entries": [entry]}, _CATALOG, _SECONDS
        ),
    }


def _repository(url: str | None) -> Json:
    if url is None:
        return None
    host = urlsplit(url).hostname or ""
    return {"url": url, "source": _FORGES.get(host, host)}
