"""The client's side of the apps extension."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from trio_mcp import CallResult, Client
from trio_mcp.errors import InvalidPage, ToolDisabled
from trio_mcp.extending import ClientExtension, offload
from trio_mcp.extensions.apps.page import (
    CSP,
    MIME_TYPE,
    PERMISSIONS,
    SCHEME,
    UI,
    check_html,
    check_origin,
    policy_of,
)
from trio_mcp.public import public_in

_OLD_KEY: Final = "ui/resourceUri"


@public_in("trio_mcp.extensions.apps")
@frozen(kw_only=True)
class RemotePage:
    """A page of a server. Show it in a sandboxed frame, with this policy."""

    uri: str
    html: str = field(repr=False)
    csp: Mapping[str, tuple[str, ...]]
    """The origins that it wants to reach: `connect`, `resources`, `frames`, `base_uris`."""
    permissions: frozenset[str]
    """What it would like to use. The user decides."""
    domain: str | None = None
    prefers_border: bool | None = None

    @property
    def policy(self) -> str:
        """The content security policy for it. Allow less if you like, and never more."""
        return policy_of(self.csp)

    @property
    def allow(self) -> str:
        """The `allow` attribute of its frame, if the user agrees."""
        return "; ".join(PERMISSIONS[permission] for permission in sorted(self.permissions))


@public_in("trio_mcp.extensions.apps")
class AppsClient(ClientExtension):
    """Finds and reads the pages of tools, for hosts that show them.

    Servers learn that the client shows pages, also those that do not declare the extension
    themselves, as many do not.

    Example:
        >>> async def page_of(registry: Registry, tool: str) -> RemotePage | None:
        ...     apps = AppsClient()
        ...     async with connect(registry, extensions=[apps]) as client:
        ...         uri = apps.page_of(client, tool)
        ...         return None if uri is None else await apps.read(client, uri)
    """

    identifier = UI
    settings = MappingProxyType({"mimeTypes": [MIME_TYPE]})
    one_sided = True

    def page_of(self, client: Client, tool: str) -> str | None:
        """Return the URI of the page that shows a tool's results; `None` if there is none.

        Raises:
            KeyError: There is no such tool.
        """
        meta = _meta_of(client, tool)
        uri = _ui_in(meta).get("resourceUri", meta.get(_OLD_KEY))
        return uri if isinstance(uri, str) and uri.startswith(SCHEME) else None

    def visible_to(self, client: Client, tool: str) -> frozenset[str]:
        """Return who may call a tool: `model`, `app`, or both.

        Raises:
            KeyError: There is no such tool.
        """
        found = _ui_in(_meta_of(client, tool)).get("visibility", ["model", "app"])
        named = found if isinstance(found, list) else []
        return frozenset(audience for audience in ("model", "app") if audience in named)

    def for_model(self, client: Client) -> list[str]:
        """Return the tools that the model may see. The others are for pages only."""
        return [tool for tool in client.tools if "model" in self.visible_to(client, tool)]

    async def call(
        self, client: Client, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> CallResult:
        """Call a tool because a page of the same server asks for it.

        Raises:
            ToolDisabled: Pages may not call it.
            ClientError: As for `Client.call_tool`.
        """
        if tool in client.tools and "app" not in self.visible_to(client, tool):
            raise ToolDisabled(f"pages may not call the tool {tool!r}")
        return await client.call_tool(tool, arguments)

    async def read(self, client: Client, uri: str) -> RemotePage:
        """Read a page and check it.

        Raises:
            InvalidPage: What the server sent is not a page, or asks for what no page may have.
            ClientError: As for `Client.request`.
        """
        if not uri.startswith(SCHEME):
            raise InvalidPage(f"{uri:.200}: the URI of a page begins with {SCHEME}")
        result = await client.request("resources/read", {"uri": uri})
        try:
            html, meta = await offload(_content_in, result, uri)
            # What the page itself says counts, and otherwise what the list says of it.
            wants = _ui_in(meta) or await self._listed(client, uri)
            return await offload(partial(_page, uri, html), wants)
        except ValueError as error:
            raise InvalidPage(f"{uri:.200}: {error}") from None

    async def _listed(self, client: Client, uri: str) -> Mapping[str, Any]:
        listed = await client.list_all("resources/list", "resources")
        found = (
            resource
            for resource in listed
            if isinstance(resource, dict) and resource.get("uri") == uri
        )
        return _ui_in(next(found, {}).get("_meta"))


def _meta_of(client: Client, tool: str) -> Mapping[str, Any]:
    meta = client.tools[tool].details.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _ui_in(meta: Any) -> Mapping[str, Any]:
    ui = meta.get("ui") if isinstance(meta, dict) else None
    return ui if isinstance(ui, dict) else {}


def _content_in(result: Mapping[str, Any], uri: str) -> tuple[str, Any]:
    contents = result.get("contents")
    for content in contents if isinstance(contents, list) else ():
        if not isinstance(content, dict) or content.get("uri") != uri:
            continue
        if str(content.get("mimeType")).replace(" ", "").lower() != MIME_TYPE:
            raise ValueError(f"its type is {content.get('mimeType')!r:.100}, not {MIME_TYPE}")
        html = content.get("text")
        if isinstance(content.get("blob"), str):
            html = base64.b64decode(content["blob"], validate=True).decode()
        if not isinstance(html, str):
            raise ValueError("it is empty")
        check_html(html)
        return html, content.get("_meta")
    raise ValueError("the server sent something else")


def _page(uri: str, html: str, wants: Mapping[str, Any]) -> RemotePage:
    csp = wants.get("csp", {})
    permissions = wants.get("permissions", {})
    if not isinstance(csp, dict) or not isinstance(permissions, dict):
        raise ValueError("what it may reach and use must be objects")
    reach: dict[str, tuple[str, ...]] = {}
    for ours, theirs in CSP.items():
        origins = csp.get(theirs, [])
        if not isinstance(origins, list):
            raise ValueError(f"{theirs} must be a list")
        reach[ours] = tuple(check_origin(origin) for origin in origins)
    domain, border = wants.get("domain"), wants.get("prefersBorder")
    return RemotePage(
        uri=uri,
        html=html,
        csp=reach,
        permissions=frozenset(
            permission for permission in PERMISSIONS if permission in permissions
        ),
        domain=domain if isinstance(domain, str) else None,
        prefers_border=border if isinstance(border, bool) else None,
    )
