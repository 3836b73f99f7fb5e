"""Payloads as JSON-able objects, and back.

`to_wire` leaves out what is `None` and what the revision does not know; `from_wire` goes the other
way and ignores what this library does not know. What a class needs for that is read off its fields
when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs

from trio_mcp.wire.jsonrpc import Id, Json, json_type
from trio_mcp.wire.payloads import Content
from trio_mcp.wire.revisions import ALL, NEWEST, Revision

T = TypeVar("T")

Read = Callable[[Json], Any]
"""Makes the value of a field of JSON, or raises `Misfit`; `None` where any JSON will do."""


class Misfit(ValueError):
    """A JSON value does not fit a payload.

    Args:
        path: Where, by the names on the wire, such as `content[0].text`; empty for the whole.
        expected: What has to be there, in a few words; or what is wrong, if nothing is `got`.
        got: The kind of the value that came; `nothing` if it is missing.
    """

    def __init__(self, path: str, expected: str, got: str = "") -> None:
        where = f'"{path}"' if path else "it"
        said = "it is missing" if got == "nothing" else f"not {got}"
        super().__init__(f"{where} must be {expected}, {said}" if got else f"{where}: {expected}")
        self.path = path
        self.expected = expected
        self.got = got

    def inside(self, step: str) -> Misfit:
        """Return the same, of what has the value as its member or item."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return Misfit(f"{step}{dot}{self.path}", self.expected, self.got)


def wire_name(attribute: attrs.Attribute[Any]) -> str:
    """The name that a field of a payload has on the wire."""
    head, *tail = attribute.name.split("_")
    return attribute.metadata.get("wire") or head + "".join(part.capitalize() for part in tail)


# -- payloads to JSON -----------------------------------------------------------------------------


def to_wire(payload: Any, revision: Revision = NEWEST) -> dict[str, Json]:
    """Turn a payload into a JSON-able object, as a revision writes it."""
    cls = payload.__class__
    degrade = _degrading(cls, revision)
    if degrade is not None:
        return to_wire(degrade(payload), revision)
    wire: dict[str, Json] = {}
    for name, key, left_out, is_json in _written(cls, revision):
        value = getattr(payload, name)
        if value is not left_out and value != left_out:
            wire[key] = value if is_json else _json_of(value, revision)
    return wire


@cache
def _degrading(cls: type, revision: Revision) -> Callable[[Any], Any] | None:
    """Return what makes a block of a class one that the revision has; `None` if it has this one."""
    if not issubclass(cls, Content):
        return None
    from trio_mcp.wire.content import BLOCK_SINCE, DEGRADED  # no start waits for it

    return None if revision in BLOCK_SINCE.get(cls, ALL) else DEGRADED[cls]


@cache
def _written(cls: type, revision: Revision) -> list[tuple[str, str, Any, bool]]:
    """Return the fields that a revision has.

    Of each: its name, its name on the wire, the value with which it is left out, and whether its
    values are JSON as they are.
    """
    return [
        (field.name, wire_name(field), _left_out(field), _is_json(field.type))
        for field in attrs.fields(cls)
        if revision in field.metadata.get("since", ALL)
    ]


def _left_out(attribute: attrs.Attribute[Any]) -> Any:
    always_written = None if attribute.default is None else attrs.NOTHING
    return attribute.metadata.get("unwritten", always_written)


def _is_json(kind: Any) -> bool:
    return not any(attrs.has(one) or get_origin(one) is list for one in _alternatives(kind))


def _json_of(value: Any, revision: Revision) -> Json:
    if isinstance(value, list | tuple):
        return [_json_of(item, revision) for item in value]
    return to_wire(value, revision) if hasattr(value, "__attrs_attrs__") else value


# -- JSON to payloads -----------------------------------------------------------------------------


def from_wire(wire: Json, payload_type: type[T]) -> T:
    """Turn a JSON object into a payload, or raise the first `Misfit`."""
    payload: T = _payload_of(payload_type, wire)
    return payload


@cache
def _read_fn(kind: Any) -> Read | None:
    if kind == Json:
        return None
    if kind in _PLAIN:
        return partial(_plain, *_PLAIN[kind])
    if NoneType in get_args(kind):
        return partial(_unless_null, _read_fn(reduce(or_, _alternatives(kind))))
    if get_origin(kind) is Literal:
        return partial(_one_of, get_args(kind))
    if get_origin(kind) is list:
        return partial(_list_of, _read_fn(get_args(kind)[0]))
    return partial(_payload_of, kind) if attrs.has(kind) else _union_of(kind)


def _plain(expected: str, accepted: tuple[type, ...], wire: Json) -> Json:
    if wire.__class__ in accepted:
        return wire
    raise Misfit("", expected, json_type(wire))


def _unless_null(read: Read | None, wire: Json) -> Any:
    return wire if wire is None or read is None else read(wire)


def _one_of(choices: tuple[str, ...], wire: Json) -> Json:
    if wire.__class__ is str and wire in choices:
        return wire
    raise Misfit("", _either(choices), _shown(wire))


def _list_of(read: Read | None, wire: Json) -> list[Any]:
    """Read the items of a list, up to the first that does not fit: there may be millions."""
    if wire.__class__ is not list:
        raise Misfit("", "an array", json_type(wire))
    items: list[Any] = []
    try:
        for item in wire:
            items.append(item if read is None else read(item))
    except Misfit as error:
        raise error.inside(f"[{len(items)}]") from None
    return items


def _payload_of(cls: Any, wire: Json) -> Any:
    if wire.__class__ is not dict:
        raise Misfit("", "an object", json_type(wire))
    given = {}
    for name, key, missing, read in _members(cls):
        if key not in wire:
            if missing:
                raise Misfit(key, missing, "nothing")
            continue
        try:
            given[name] = wire[key] if read is None else read(wire[key])
        except Misfit as error:
            raise error.inside(key) from None
    try:
        return cls(**given)
    except (TypeError, ValueError) as error:  # of a validator
        raise Misfit("", str(error)[:200]) from None


@cache
def _members(cls: Any) -> list[tuple[str, str, str, Read | None]]:
    """Return the fields that are read.

    Of each: its argument, its name on the wire, what is missed without it, and how it is read.
    """
    return [
        (field.alias, wire_name(field), _needed(field), _read_fn(field.type))
        for field in attrs.fields(cls)
        if field.init
    ]


def _needed(attribute: attrs.Attribute[Any]) -> str:
    """What has to be there, in a few words; nothing if the field has a default."""
    kind = attribute.type
    if attribute.default is not attrs.NOTHING:
        return ""
    if get_origin(kind) is Literal:
        return _either(get_args(kind))
    if kind in _PLAIN:
        return _PLAIN[kind][0]
    return "an array" if get_origin(kind) is list else "an object"


def _union_of(kind: Any) -> Read:
    """Return what reads one of several payloads, or a list of them where the field may have one."""
    classes = list(filter(attrs.has, _alternatives(kind)))
    types = [attrs.fields_dict(cls).get("type") for cls in classes]
    by_type = {field.default: cls for cls, field in zip(classes, types, strict=True) if field}
    read = partial(_block_of, by_type) if by_type else partial(_contents_of, classes)
    return read if len(classes) == len(get_args(kind)) else partial(_one_or_list_of, read)


def _block_of(kinds: dict[Any, type], wire: Json) -> Any:
    kind = wire.get("type") if wire.__class__ is dict else None
    if kind.__class__ is str and kind in kinds:
        return _payload_of(kinds[kind], wire)
    what = f"a content block of type {' or '.join(kinds)}"
    raise Misfit("", what, json_type(wire) if kind is None else _shown(kind))


def _contents_of(classes: list[Any], wire: Json) -> Any:
    """Read what has no type, by the members that it has to have."""
    *others, last = classes
    given = wire if wire.__class__ is dict else ()
    for cls in others:
        if all(key in given for _, key, missing, _ in _members(cls) if missing):
            return _payload_of(cls, wire)
    return _payload_of(last, wire)


def _one_or_list_of(read: Read, wire: Json) -> Any:
    return _list_of(read, wire) if wire.__class__ is list else read(wire)


def _alternatives(kind: Any) -> list[Any]:
    """The members of a union without `None`, or the type alone."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [member for member in kinds if member is not NoneType]


def _either(choices: Iterable[str]) -> str:
    return " or ".join(map(repr, choices))


def _shown(wire: Json) -> str:
    return f"{wire!r:.40}" if wire.__class__ is str else json_type(wire)


_PLAIN: Final[dict[Any, tuple[str, tuple[type, ...]]]] = {
    str: ("a string", (str,)),
    int: ("an integer", (int,)),
    float: ("a number", (float, int)),
    bool: ("a boolean", (bool,)),
    Id: ("a string or an integer", (str, int)),
    dict[str, Json]: ("an object", (dict,)),
}
"""What is taken for a value: nothing is converted, so nothing is lost."""
