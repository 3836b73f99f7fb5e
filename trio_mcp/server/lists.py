"""The lists of a registry, page by page, kept until the registry changes."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import frozen

from trio_mcp.registry import Registry
from trio_mcp.registry.changes import Kind
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.methods import LISTS
from trio_mcp.wire.revisions import ALL, Revision

if TYPE_CHECKING:  # most servers hide nothing
    from trio_mcp.server.view import View

logger = logging.getLogger("trio_mcp")


def caching_hints(registry: Registry) -> dict[str, Json]:
    """Say how long a list may be kept, and by whom (2026-07-28, "Caching")."""
    return {"ttlMs": round(registry.cache_ttl * 1000), "cacheScope": registry.cache_scope}


def _shown(item: Any, revision: Revision) -> dict[str, Json]:
    return {**item.foreign, **to_wire(item.description, revision)}


def _shown_tool(tool: Any, revision: Revision) -> dict[str, Json]:
    shown = _shown(tool, revision)
    if revision.structured_objects_only and not tool.object_output:
        shown.pop("outputSchema", None)
    return shown


@frozen(eq=False, repr=False)
class Listing:
    """One of the lists: where its items are, and how they are shown."""

    kind: Kind
    key: str
    """The member of the result that holds its items."""
    items: Callable[[Registry], Mapping[str, Any]]
    show: Callable[[Any, Revision], dict[str, Json]]


_ITEMS: Final[Mapping[str, Callable[[Registry], Mapping[str, Any]]]] = {
    "tools/list": lambda registry: registry.tools,
    "resources/list": lambda registry: registry.resources,
    "resources/templates/list": lambda registry: registry.resource_templates,
    "prompts/list": lambda registry: registry.prompts,
}
_SHOW: Final = {"tools/list": _shown_tool}

LISTINGS: Final[Mapping[str, Listing]] = {
    method: Listing(cast("Kind", kind), key, _ITEMS[method], _SHOW.get(method, _shown))
    for method, (kind, key) in LISTS.items()
}
"""By method. A row that lists something and is not known here fails at import."""


_MOST_ON_A_PAGE: Final = 5000
"""Items, where nobody says how many: what is shown and written without holding up others."""

_Key = tuple[Revision, str | None, frozenset[str] | None]
_Shown = dict[str, dict[str, Json] | None]


class ListCache:
    """The pages that were asked for, as each revision writes them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._versions: dict[Listing, int] = {}
        self._pages: dict[Listing, dict[_Key, dict[str, Json]]] = {}
        self._shown: dict[Listing, dict[Revision, _Shown]] = {}

    def page(
        self,
        listing: Listing,
        revision: Revision,
        cursor: Json,
        view: View | None = None,
    ) -> dict[str, Json]:
        """Return one page of a list.

        Args:
            listing: Which list.
            revision: How it is written.
            cursor: After what the page begins.
            view: What the caller sees; `None` for everything.

        Raises:
            McpError: The cursor is not one of ours (`-32602`).
        """
        version = self._registry.changes.versions[listing.kind]
        if self._versions.get(listing) != version:
            self._pages[listing], self._shown[listing] = {}, {}
            self._versions[listing] = version
        if cursor is not None and not isinstance(cursor, str):
            raise _invalid_cursor()
        if view is not None and view.caller is not None:  # each caller's is another one
            return self._page(listing, revision, cursor, view)
        pages, allowed = self._pages[listing], None if view is None else view.scopes
        page = pages.get((revision, cursor, allowed))
        if page is None:
            page = self._page(listing, revision, cursor, view)
            if len(pages) < self._most_pages(listing):
                pages[revision, cursor, allowed] = page
        return page

    def _most_pages(self, listing: Listing) -> int:
        """How many are kept: all that one comes by who follows the cursors, in any revision.

        Cursors can be made up, for pages that begin anywhere and overlap.
        """
        return len(ALL) * (1 + len(listing.items(self._registry)) // self._size)

    @property
    def _size(self) -> int:
        return self._registry.page_size or _MOST_ON_A_PAGE

    def _page(
        self,
        listing: Listing,
        revision: Revision,
        cursor: str | None,
        view: View | None,
    ) -> dict[str, Json]:
        items = list(listing.items(self._registry).items())  # threads may change the registry
        start = 0 if cursor is None else _start_of(cursor, listing, items, view)
        size = min(self._size, len(items))  # a size may be beyond what `islice` takes
        seen = (each for each in islice(items, start, None) if view is None or view.shows(each[1]))
        page = list(islice(seen, size))
        kept = self._shown[listing].setdefault(revision, {})
        for name, item in page:
            if name not in kept:
                kept[name] = _sendable(listing, name, item, revision)
        found = (kept[name] for name, _ in page)
        result: dict[str, Json] = {listing.key: [each for each in found if each is not None]}
        if next(seen, None) is not None:
            result["nextCursor"] = _cursor_after(page[-1][0], listing)
        if revision.modern:
            result |= caching_hints(self._registry)
            if view is not None:  # another caller's list is another one
                result["cacheScope"] = "private"
        return result


def _sendable(listing: Listing, name: str, item: Any, revision: Revision) -> dict[str, Json] | None:
    """Show an item; `None` if that cannot be done: it must not take the others with it.

    What is registered was checked, but an author may have got at it since.
    """
    try:
        shown = listing.show(item, revision)
        encode(shown)
    except Exception:
        logger.exception("%s %s cannot be listed, and is left out", listing.kind, name)
        return None
    return shown


def _cursor_after(name: str, listing: Listing) -> str:
    return base64.urlsafe_b64encode(f"{listing.key}:{name}".encode()).decode()


def _start_of(
    cursor: str, listing: Listing, items: list[tuple[str, Any]], view: View | None
) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        name = text.removeprefix(f"{listing.key}:")
        index = [each for each, _ in items].index(name)
        if _cursor_after(name, listing) == cursor and (view is None or view.shows(items[index][1])):
            return index + 1
    except ValueError:  # no base64, no UTF-8, or nobody's name
        pass
    raise _invalid_cursor()


def _invalid_cursor() -> McpError:
    return McpError(INVALID_PARAMS, "Invalid cursor; ask for the list again from its beginning")
