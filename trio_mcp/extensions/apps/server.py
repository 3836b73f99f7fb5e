"""The server's side of the apps extension."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal

from attrs import field, frozen

from trio_mcp import McpError, Registry, SchemaError, TextResourceContents
from trio_mcp.checks import is_a, is_function
from trio_mcp.extending import ExtensionRequest, ServerExtension
from trio_mcp.extensions.apps.page import (
    CSP,
    LARGEST,
    MIME_TYPE,
    PERMISSIONS,
    SCHEME,
    UI,
    check_html,
    check_origin,
)
from trio_mcp.public import public_in
from trio_mcp.threads import in_thread

_INVALID_PARAMS: Final = -32602

Audience = Literal["model", "app"]
_AUDIENCES: Final = ("model", "app")

_NONE: Final = object()


def _is_list_of(known: Collection[str], values: Any) -> bool:
    """Whether a value is a list of known names; a single text is not."""
    if isinstance(values, str) or not isinstance(values, Collection):
        return False
    return all(isinstance(value, str) and value in known for value in values)


@public_in("trio_mcp.extensions.apps")
@frozen(kw_only=True)
class Csp:
    """The origins that a page may reach. Without them, it reaches nothing but its host.

    Args:
        connect: For requests of scripts.
        resources: For pictures, scripts, styles, fonts and media.
        frames: For frames inside the page.
        base_uris: For `<base>`.
    """

    connect: Sequence[str] = ()
    resources: Sequence[str] = ()
    frames: Sequence[str] = ()
    base_uris: Sequence[str] = ()

    def wire(self) -> dict[str, Any]:
        """Return it as it is sent.

        Raises:
            ValueError: Something in it is not an origin.
        """
        found: dict[str, Any] = {}
        for ours, theirs in CSP.items():
            origins = getattr(self, ours)
            if isinstance(origins, str) or not isinstance(origins, Collection):
                raise ValueError(f"{ours} must be a list, even of one origin")
            if origins:
                found[theirs] = [check_origin(origin) for origin in origins]
        return found


@public_in("trio_mcp.extensions.apps")
@frozen
class Page:
    """A page that hosts show with the results of tools.

    Args:
        uri: Its URI, which begins with `ui://`.
        html: The whole page, or the file where it is, which is read again each time.
        name: Its name, for programs; by default, the end of its URI.
        title: Its name, for people.
        description: What it shows.
        csp: What it may reach.
        permissions: What it would like to use: `camera`, `microphone`, `geolocation`,
            `clipboardWrite`. Hosts may say no.
        domain: The origin that it needs, in a form that the host defines.
        prefers_border: Whether the host should draw a border and a background.
        cache_ttl: Seconds for which a client may keep it without asking again.

    Example:
        >>> page = Page("ui://clock/face", "<!doctype html><title>Clock</title>")
    """

    uri: str = field(validator=is_a(str))
    html: str | Path = field(repr=False, validator=is_a(str, Path))
    name: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    description: str = field(default="", kw_only=True)
    csp: Csp = field(factory=Csp, kw_only=True, validator=is_a(Csp))
    permissions: Collection[str] = field(default=(), kw_only=True)
    domain: str | None = field(default=None, kw_only=True, validator=is_a(str, NoneType))
    prefers_border: bool | None = field(default=None, kw_only=True, validator=is_a(bool, NoneType))
    cache_ttl: float = field(default=0.0, kw_only=True)

    def load(self) -> str:
        """Return the HTML. It may block.

        Raises:
            ValueError: It is not a page.
            OSError: The file cannot be read.
        """
        html = self.html
        if isinstance(html, Path):
            with html.open("rb") as file:
                html = file.read(LARGEST + 1).decode()
        check_html(html)
        return html

    def meta(self) -> dict[str, Any]:
        """Return what its `_meta` says to the host.

        Raises:
            ValueError: Something in it is not what it must be.
        """
        if not _is_list_of(PERMISSIONS, self.permissions):
            raise ValueError(f"permissions must be a list of {', '.join(PERMISSIONS)}")
        ui: dict[str, Any] = {
            "csp": self.csp.wire(),
            "permissions": {permission: {} for permission in self.permissions},
            "domain": self.domain,
            "prefersBorder": self.prefers_border,
        }
        given = {key: value for key, value in ui.items() if value not in (None, {})}
        return {"ui": given} if given else {}


@public_in("trio_mcp.extensions.apps")
@frozen
class App:
    """What a tool has to do with pages: `@registry.tool(extensions={UI: App(...)})`.

    Args:
        page: The URI of the page that shows its results.
        visible_to: Who may call it: the model, the pages of this server, or both.
        text: For clients that show no pages: makes the text of a result from its structured
            content. By default, that is its JSON. A result that has none stays as it is.
    """

    page: str | None = field(default=None, validator=is_a(str, NoneType))
    visible_to: Sequence[Audience] = field(default=_AUDIENCES, kw_only=True)
    text: Callable[[Any], str] | None = field(default=None, kw_only=True, validator=is_function)


@public_in("trio_mcp.extensions.apps")
class Apps(ServerExtension):
    """Serves pages that hosts show with the results of tools (SEP-1865).

    A tool says which page shows its results. To clients that show no pages, it is a tool like any
    other, except that those which only pages may call are refused.

    Args:
        *pages: The pages. Register the tools that have them afterwards.

    Raises:
        SchemaError: A page is not what it must be; the message says what to do.

    Example:
        >>> face = Page("ui://clock/face", "<!doctype html><title>Clock</title>")
        >>> registry = Registry("clock", extensions=[Apps(face)])
        >>> @registry.tool(extensions={UI: App("ui://clock/face")})
        ... async def now() -> dict[str, str]:
        ...     "Tell the time."
        ...     return {"time": "12:30"}
    """

    identifier = UI
    wraps = ("tools/call",)

    def __init__(self, *pages: Page) -> None:
        self._pages: dict[str, Page] = {}
        for page in pages:
            if not isinstance(page, Page):
                raise SchemaError(f"Apps have pages, as in Page('ui://…', html), not {page!r:.60}")
            try:
                self._check(page)
            except (OSError, ValueError) as error:
                raise SchemaError(f"Page {page.uri!r:.200}: {error}") from None
            self._pages[page.uri] = page

    def _check(self, page: Page) -> None:
        if not page.uri.startswith(SCHEME) or page.uri == SCHEME:
            raise ValueError(f"the URI of a page begins with {SCHEME}")
        if page.uri in self._pages:
            raise ValueError("there are two pages of that URI")
        page.meta()
        page.load()

    def added_to(self, registry: Registry) -> None:
        for page in self._pages.values():
            registry.add_resource(
                page.uri,
                partial(_read, page),
                name=page.name or page.uri.rstrip("/").rpartition("/")[2],
                title=page.title,
                description=page.description,
                mime_type=MIME_TYPE,
                meta=page.meta(),
                cache_ttl=page.cache_ttl,
            )

    def check_option(self, kind: str, name: str, value: Any) -> App:
        if kind != "tool" or not isinstance(value, App):
            raise ValueError(f"a tool has an App, as in App('ui://…'), not {value!r:.100}")
        if value.page is not None and value.page not in self._pages:
            there = ", ".join(self._pages) or "none"
            raise ValueError(f"there is no page {value.page!r:.200}, only: {there}")
        if not (value.visible_to and _is_list_of(_AUDIENCES, value.visible_to)):
            raise ValueError('visible_to must be a list of "model", "app", or both')
        return value

    def meta_of(self, kind: str, name: str, option: App) -> Mapping[str, Any]:
        page = {} if option.page is None else {"resourceUri": option.page}
        return {"ui": {**page, "visibility": list(option.visible_to)}}

    async def around(self, request: ExtensionRequest, proceed: Any) -> Mapping[str, Any]:
        """Give clients that show no pages a text instead, and refuse tools that are for pages."""
        app = request.option
        is_replaced = app is not None and not _shows_pages(request.settings)
        if is_replaced and "model" not in app.visible_to:
            why = f"Tool {request.params['name']} is for pages, and this client shows none"
            raise McpError(_INVALID_PARAMS, why)
        result: dict[str, Any] = await proceed()
        if (
            is_replaced
            and app.text is not None
            and (structured := _structured(result)) is not _NONE
        ):
            result = {**result, "content": [{"type": "text", "text": app.text(structured)}]}
        return result


def _shows_pages(settings: Mapping[str, Any] | None) -> bool:
    types = (settings or {}).get("mimeTypes")
    return isinstance(types, list) and MIME_TYPE in types


def _structured(result: Mapping[str, Any]) -> Any:
    """Return the structured content, in old revisions from its text; `_NONE` if there is none."""
    if result.get("isError") or result.get("resultType", "complete") != "complete":
        return _NONE  # it has failed, or is not the tool's: a task, say
    if "structuredContent" in result:
        return result["structuredContent"]
    match result.get("content"):
        case [{"type": "text", "text": text}, *_]:
            with suppress(ValueError, RecursionError):
                return json.loads(text)
    return _NONE


async def _read(page: Page) -> list[TextResourceContents]:
    html = await in_thread(page.load)
    return [TextResourceContents(page.uri, html, mime_type=MIME_TYPE, meta=page.meta() or None)]
