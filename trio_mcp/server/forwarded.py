"""Results that are passed on to callers of legacy revisions.

What a revision does not have is written as this library writes it for its own results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import BLOCK_SINCE, CONTENT_BLOCKS
from trio_mcp.wire.revisions import ALL, Revision

_MODERN_MEMBERS: Final = ("resultType", "ttlMs", "cacheScope")
_LATER: Final[Mapping[Revision, Mapping[str, type]]] = {
    revision: {
        name: block
        for name, block in CONTENT_BLOCKS.items()
        if revision not in BLOCK_SINCE.get(block, ALL)
    }
    for revision in ALL
}
"""By revision, the blocks that it does not have."""


def for_legacy(result: dict[str, Json], revision: Revision) -> dict[str, Json]:
    """Return the members of a result for a caller of a legacy revision."""
    kept = {name: each for name, each in result.items() if name not in _MODERN_MEMBERS}
    if revision.structured_objects_only and not isinstance(kept.get("structuredContent"), dict):
        kept.pop("structuredContent", None)
    return _with_known_blocks(kept, revision) if _LATER[revision] else kept


def _with_known_blocks(result: dict[str, Json], revision: Revision) -> dict[str, Json]:
    if isinstance(result.get("content"), list):
        result["content"] = [_block(each, revision) for each in result["content"]]
    if isinstance(result.get("messages"), list):
        result["messages"] = [_message(each, revision) for each in result["messages"]]
    return result


def _message(message: Json, revision: Revision) -> Json:
    if not isinstance(message, dict) or "content" not in message:
        return message
    return {**message, "content": _block(message["content"], revision)}


def _block(block: Json, revision: Revision) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    later = _LATER[revision].get(kind) if isinstance(kind, str) else None
    if later is None:
        return block
    try:
        return to_wire(from_wire(block, later), revision)
    except ValueError:  # it is not what it says
        return block
