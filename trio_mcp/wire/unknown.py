"""What a payload does not know of the JSON that it was made of: kept apart, and put back.

A server elsewhere may say more of what it has than this library knows, at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from attrs import fields

from trio_mcp.wire.conversion import to_wire, wire_name
from trio_mcp.wire.jsonrpc import Json


@cache
def _known_members(payload_type: Any) -> frozenset[str]:
    """Return the names that the fields of a payload have, in any revision."""
    return frozenset(wire_name(field) for field in fields(payload_type))


def unknown_members(wire: Mapping[str, Json], payload: Any) -> dict[str, Json]:
    """Return the members that a payload has not taken from its JSON object.

    Of objects and of lists within, only what is unknown there.
    """
    payload_type: Any = type(payload)
    known, written = _known_members(payload_type), to_wire(payload)
    found: dict[str, Json] = {name: wire[name] for name in wire if name not in known}
    for name in written.keys() & wire.keys():
        if (rest := _rest(wire[name], written[name])) is not None:
            found[name] = rest
    return found


def _rest(value: Json, known: Json) -> Json:
    """Return what a value has besides what is known of it; `None` for nothing."""
    if value is known:
        return None
    if isinstance(value, dict) and isinstance(known, dict):
        rest = {name: _rest(value[name], known[name]) for name in value if name in known}
        found = {name: each for name, each in rest.items() if each is not None}
        found |= {name: value[name] for name in value if name not in known}
        return found or None
    if isinstance(value, list) and isinstance(known, list) and len(value) == len(known):
        parts = [_rest(*pair) for pair in zip(value, known, strict=True)]
        return parts if any(part is not None for part in parts) else None
    return None


def with_unknown(
    shown: dict[str, Json], unknown: Mapping[str, Json], payload_type: Any
) -> dict[str, Json]:
    """Put back what a payload does not know; of members that are not shown, nothing."""
    known = _known_members(payload_type)
    whole: dict[str, Json] = {name: unknown[name] for name in unknown if name not in known}
    whole |= shown
    for name in unknown.keys() & shown.keys():
        whole[name] = _merged(shown[name], unknown[name])
    return whole


def _merged(known: Json, rest: Json) -> Json:
    if isinstance(known, dict) and isinstance(rest, dict):
        both = {name: _merged(known[name], rest[name]) for name in known.keys() & rest.keys()}
        return {**rest, **known, **both}
    if isinstance(known, list) and isinstance(rest, list) and len(known) == len(rest):
        return [_merged(*pair) for pair in zip(known, rest, strict=True)]
    return known
