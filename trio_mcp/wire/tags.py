"""Tags of tools, resources and prompts. They travel in `_meta`, where FastMCP has them, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from trio_mcp.wire.jsonrpc import Json

_PLACES: Final = ("fastmcp", "_fastmcp")
"""The members of `_meta` that have them; the second one in older versions."""
_MOST: Final = 1000
"""So many of a peer's tags are looked at."""


class Tagged:
    """What has tags, in its `_meta`."""

    __slots__ = ()
    meta: Any

    @property
    def tags(self) -> frozenset[str]:
        """Its tags: words to choose it by, in `_meta` as `fastmcp.tags`."""
        return frozenset[str]() if self.meta is None else tags_in(self.meta)


def tags_in(meta: Mapping[str, Json]) -> frozenset[str]:
    """Return the tags in a `_meta`, which may be a peer's."""
    for place in _PLACES:
        match meta.get(place):
            case {"tags": list(tags)}:
                return frozenset(tag for tag in tags[:_MOST] if isinstance(tag, str))
    return frozenset()


def with_tags(meta: Mapping[str, Json] | None, tags: Iterable[str]) -> dict[str, Json] | None:
    """Return a `_meta` that has these tags, and no others."""
    kept = {name: value for name, value in (meta or {}).items() if name != _PLACES[1]}
    beside = kept.get(_PLACES[0])
    if tags:
        kept[_PLACES[0]] = {**(beside if isinstance(beside, dict) else {}), "tags": sorted(tags)}
    elif isinstance(beside, dict) and "tags" in beside:
        kept[_PLACES[0]] = {name: value for name, value in beside.items() if name != "tags"}
    return kept or None
