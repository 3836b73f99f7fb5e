"""The lists of a registry, page by page, kept until the registry changes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import frozen

from trio_mcp.loggers import logger_of
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.kinds import TOOL, ListedKind
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.revisions import ALL, Revision

if TYPE_CHECKING:  # most servers hide nothing
    from trio_mcp.server.view import View

logger = logger_of("trio_mcp")


_AT_ONCE: Final = 200
"""Items that are written for the first time before others have their turn."""
_MOST_ON_A_PAGE: Final = 5000
"""Items of a page where the registry sets no size: few enough not to hold up others."""

_Key = tuple[Revision, str | None, frozenset[str] | None]
_Shown = dict[str, dict[str, Json] | None]


@frozen(eq=False, repr=False)
class _Page:
    """Items as a revision writes them, and the cursor that leads on."""

    items: list[Json]
    next_cursor: str | None


def without_hints(members: Mapping[str, Json]) -> dict[str, Json]:
    """Return what a server elsewhere says besides, as it came, but for the hints on caching."""
    return {name: members[name] for name in members if name not in ("ttlMs", "cacheScope")}


class ListCache:
    """The pages that were asked for, as each revision writes them."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._versions: dict[ListedKind, int] = {}
        self._pages: dict[ListedKind, dict[_Key, _Page]] = {}
        self._shown: dict[ListedKind, dict[Revision, _Shown]] = {}

    def page(
        self,
        kind: ListedKind,
        revision: Revision,
        cursor: str | None,
        view: View | None = None,
    ) -> dict[str, Json]:
        """Return one page of a list.

        Raises:
            McpError: The cursor is not one of ours (`-32602`).
        """
        from trio_mcp.wire.messages import ListResult  # no start waits for it

        options = self._catalogue.options
        page = self._page(kind, revision, cursor, view)
        given = self._catalogue.list_members(kind.table) or {}
        scope = given.get("cacheScope", options.cache_scope)
        result = ListResult(
            next_cursor=page.next_cursor,
            ttl_ms=given.get("ttlMs", round(options.cache_ttl * 1000)),
            cache_scope=scope if view is None else "private",  # another caller's is another one
        )
        return {kind.items: page.items, **without_hints(given), **to_wire(result, revision)}

    def takes_long(self, kind: ListedKind, revision: Revision) -> bool:
        """Whether a page may have many items that were not written in a revision before."""
        self._forget_older(kind)
        count = min(self._size, len(self._catalogue.table(kind.table)))
        written = self._shown[kind].get(revision, ())
        return count - len(written) > _AT_ONCE

    async def prepare(self, kind: ListedKind, revision: Revision) -> None:
        """Write what there is in a revision, and let others have their turns meanwhile."""
        seen, items = -1, list[tuple[str, Any]]()
        for start in range(0, len(self._catalogue.table(kind.table)), _AT_ONCE):
            version = self._forget_older(kind)
            if version != seen:  # there may be others by the same names now
                seen, items = version, self._catalogue.in_order(kind.table)
            self._written(kind, revision, items[start : start + _AT_ONCE])
            await trio.lowlevel.checkpoint()

    def _forget_older(self, kind: ListedKind) -> int:
        """Forget what was written of an older version, and return which one is the newest."""
        version = self._catalogue.changes.versions[kind.capability]
        if self._versions.get(kind) != version:
            self._pages[kind], self._shown[kind] = {}, {}
            self._versions[kind] = version
        return version

    def _written(
        self, kind: ListedKind, revision: Revision, items: list[tuple[str, Any]]
    ) -> list[Json]:
        """Return items as a revision writes them, without those that cannot be written."""
        kept = self._shown[kind].setdefault(revision, {})
        for name, item in items:
            if name not in kept:
                kept[name] = _sendable(kind, name, item, revision)
        found = (kept[name] for name, _ in items)
        return [wire for wire in found if wire is not None]

    def _page(
        self, kind: ListedKind, revision: Revision, cursor: str | None, view: View | None
    ) -> _Page:
        """Return a page as it was made before, or make it."""
        self._forget_older(kind)
        if view is not None and view.caller is not None:  # each caller's is another one
            return self._made_page(kind, revision, cursor, view)
        pages, allowed = self._pages[kind], None if view is None else view.scopes
        page = pages.get((revision, cursor, allowed))
        if page is None:
            page = self._made_page(kind, revision, cursor, view)
            if len(pages) < self._most_pages(kind):
                pages[revision, cursor, allowed] = page
        return page

    def _most_pages(self, kind: ListedKind) -> int:
        """How many are kept: all that one comes by who follows the cursors, in any revision.

        Cursors can be made up, for pages that begin anywhere and overlap.
        """
        return len(ALL) * (1 + len(self._catalogue.table(kind.table)) // self._size)

    @property
    def _size(self) -> int:
        return self._catalogue.options.page_size or _MOST_ON_A_PAGE

    def _made_page(
        self, kind: ListedKind, revision: Revision, cursor: str | None, view: View | None
    ) -> _Page:
        items = self._catalogue.in_order(kind.table)
        start = 0 if cursor is None else _start_of(cursor, kind, items, view)
        size = min(self._size, len(items))  # a size may be beyond what `islice` takes
        seen = (item for item in islice(items, start, None) if view is None or view.shows(item[1]))
        page = list(islice(seen, size))
        shown = self._written(kind, revision, page)
        goes_on = next(seen, None) is not None
        return _Page(shown, _cursor_after(page[-1][0], kind) if goes_on else None)


def _sendable(kind: ListedKind, name: str, item: Any, revision: Revision) -> dict[str, Json] | None:
    """Show an item; `None` if that cannot be done: it must not take the others with it.

    What is registered was checked, but an author may have got at it since.
    """
    try:
        shown = to_wire(item.description, revision)
        if kind is TOOL and revision.structured_objects_only and not item.object_output:
            has_schema = shown.pop("outputSchema", None) is not None
            shown |= (
                {"outputSchema": item.wrapped_output} if has_schema and item.wrapped_output else {}
            )
        if item.extra_fields:
            from trio_mcp.wire.unknown import with_unknown  # of servers elsewhere alone

            shown = with_unknown(shown, item.extra_fields, kind.description_type)
        encode(shown)
    except Exception:
        logger.exception("%s %s cannot be listed, and is left out", kind.capability, name)
        return None
    return shown


def _cursor_after(name: str, kind: ListedKind) -> str:
    return base64.urlsafe_b64encode(f"{kind.items}:{name}".encode()).decode()


def _start_of(
    cursor: str, kind: ListedKind, items: list[tuple[str, Any]], view: View | None
) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        name = text.removeprefix(f"{kind.items}:")
        index = [each for each, _ in items].index(name)
        if _cursor_after(name, kind) == cursor and (view is None or view.shows(items[index][1])):
            return index + 1
    except ValueError:  # no base64, no UTF-8, or no item's name
        pass
    raise McpError(INVALID_PARAMS, "Invalid cursor; ask for the list again from its beginning")
