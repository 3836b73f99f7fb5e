"""Payloads as JSON-able objects, and back.

`to_wire` leaves out what is `None` and what the revision does not know; `from_wire` goes the other
way and ignores what this library does not know. Both are made by cattrs, once for each class and
revision.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache, partial
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin

import attrs

from trio_mcp.wire.jsonrpc import Id, Json, json_type
from trio_mcp.wire.payloads import Content
from trio_mcp.wire.revisions import ALL, NEWEST, Revision

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


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


def to_wire(payload: Any, revision: Revision = NEWEST) -> dict[str, Json]:
    """Turn a payload into a JSON-able object, as a revision writes it."""
    wire: dict[str, Json] = _converter(revision).unstructure(payload)
    return wire


def from_wire(wire: Json, payload_type: type[T]) -> T:
    """Turn a JSON object into a payload, or raise the first `Misfit`."""
    try:
        return _converter(NEWEST).structure(wire, payload_type)
    except Exception as error:
        raise _misfit(error) from None


def _misfit(error: Any) -> Misfit:
    from cattrs import ClassValidationError, IterableValidationError

    path, kind = "", None
    while isinstance(error, ClassValidationError | IterableValidationError):
        whole: Any = error
        noted, others = whole.group_exceptions()
        if not noted:  # it is what the class makes of its members that is wrong
            error = others[0]
            continue
        error, note = noted[0]
        if isinstance(whole, IterableValidationError):
            path += f"[{note.index}]"
        else:
            name = wire_name(attrs.fields_dict(whole.cl)[note.name])
            path, kind = f"{path}.{name}" if path else name, note.type
    if isinstance(error, _Unfit):
        return Misfit(path, error.expected, error.got)
    if isinstance(error, KeyError):
        return Misfit(path, _words_for(kind), "nothing")
    return Misfit(path, str(error)[:200])


class _Unfit(TypeError):
    def __init__(self, expected: str, wire: Json, *, is_choice: bool = False) -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = f"{wire!r:.40}" if is_choice and isinstance(wire, str) else json_type(wire)


def wire_name(attribute: attrs.Attribute[Any]) -> str:
    """The name that a field of a payload has on the wire."""
    head, *tail = attribute.name.split("_")
    return attribute.metadata.get("wire") or head + "".join(part.capitalize() for part in tail)


@cache
def _converter(revision: Revision) -> Converter:
    from cattrs import Converter, override
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

    converter = Converter()
    for kind, accepted in _STRICT.items():
        converter.register_structure_hook(kind, partial(_only, accepted, _words_for(kind)))
    of_objects = partial(_only, (dict,), "an object")
    converter.register_structure_hook_func(partial(operator.eq, dict[str, Json]), of_objects)
    converter.register_structure_hook_func(partial(_has_origin, Literal), _one_of)

    def list_fn(kind: Any) -> Any:
        (item_kind,) = get_args(kind)
        return partial(_list_of, converter.get_structure_hook(item_kind), item_kind)

    converter.register_structure_hook_factory(partial(_has_origin, list))(list_fn)

    def hooks_of(attribute: attrs.Attribute[Any]) -> dict[str, Any]:
        kinds = attribute.metadata.get("blocks")
        if kinds is None:  # what may be any JSON is that already
            return {"unstruct_hook": _same} if attribute.type == Json else {}
        structure = partial(structure_blocks, kinds)
        return {"struct_hook": structure, "unstruct_hook": unstructure_blocks}

    def overrides(cls: type, *, omit_later: bool) -> dict[str, Any]:
        return {
            attribute.name: override(
                rename=wire_name(attribute),
                omit=omit_later and revision not in attribute.metadata.get("since", ALL),
                omit_if_default=attribute.default is None or "unwritten" in attribute.metadata,
                **hooks_of(attribute),
            )
            for attribute in attrs.fields(cls)
        }

    def unstructure_fn(cls: type) -> Any:
        degrade = _degrading(cls, revision)
        if degrade is not None:
            return lambda block: converter.unstructure(degrade(block))
        return make_dict_unstructure_fn(
            cls, converter, _cattrs_include_init_false=True, **overrides(cls, omit_later=True)
        )

    def structure_fn(cls: type) -> Any:
        made: Any = make_dict_structure_fn(cls, converter, **overrides(cls, omit_later=False))
        return lambda wire, _: made(of_objects(wire, cls), cls)

    def structure_block(kinds: dict[str, type], wire: Json, _: Any) -> Any:
        kind = wire.get("type") if isinstance(wire, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            what = f"a content block of type {' or '.join(kinds)}"
            raise _Unfit(what, wire if kind is None else kind, is_choice=kind is not None)
        return converter.structure(wire, kinds[kind])

    def structure_blocks(kinds: dict[str, type], wire: Json, kind: Any) -> Any:
        structure = partial(structure_block, kinds)
        return (partial(_list_of, structure, kind) if isinstance(wire, list) else structure)(
            wire, kind
        )

    def unstructure_by_class(value: Any) -> Any:
        return converter.unstructure(value, value.__class__)

    def unstructure_blocks(value: Any) -> Any:
        if isinstance(value, list):
            return [unstructure_by_class(block) for block in value]
        return unstructure_by_class(value)

    def structure_contents(wire: Json, _: Any) -> Any:
        from trio_mcp.wire.content import BlobResourceContents, TextResourceContents

        text = isinstance(wire, dict) and "text" in wire
        return converter.structure(wire, TextResourceContents if text else BlobResourceContents)

    def structure_union_fn(kind: Any) -> Any:
        from trio_mcp.wire.content import CONTENT_BLOCKS, ContentBlock

        return (
            partial(structure_block, CONTENT_BLOCKS) if kind == ContentBlock else structure_contents
        )

    converter.register_unstructure_hook_factory(attrs.has, unstructure_fn)
    converter.register_structure_hook_factory(attrs.has, structure_fn)
    converter.register_structure_hook_factory(_is_union_of_payloads)(structure_union_fn)
    converter.register_unstructure_hook_func(_is_union_of_payloads, unstructure_by_class)
    return converter


def _degrading(cls: type, revision: Revision) -> Callable[[Any], Any] | None:
    """Return what makes a block of a class one that the revision has; `None` if it has this one."""
    if not issubclass(cls, Content):
        return None
    from trio_mcp.wire.content import BLOCK_SINCE, DEGRADED  # no start waits for it

    return None if revision in BLOCK_SINCE.get(cls, ALL) else DEGRADED[cls]


def _is_union_of_payloads(kind: Any) -> bool:
    return kind.__class__ is UnionType and all(map(attrs.has, get_args(kind)))


_STRICT: Final[dict[Any, tuple[type, ...]]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
    Id: (str, int),
}
"""What is taken for a value: nothing is converted, so nothing is lost."""

_WORDS: Final[dict[Any, str]] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    Id: "a string or an integer",
}


def _words_for(kind: Any) -> str:
    if _has_origin(Literal, kind):
        return " or ".join(map(repr, get_args(kind)))
    return _WORDS.get(kind) or ("an array" if _has_origin(list, kind) else "an object")


def _same(value: Any) -> Any:
    return value


def _has_origin(origin: Any, kind: Any) -> bool:
    found: bool = get_origin(kind) == origin
    return found


def _only(accepted: tuple[type, ...], expected: str, wire: Json, _: Any) -> Json:
    if wire.__class__ in accepted:
        return wire
    raise _Unfit(expected, wire)


def _one_of(wire: Json, kind: Any) -> Json:
    if wire.__class__ is str and wire in get_args(kind):
        return wire
    raise _Unfit(_words_for(kind), wire, is_choice=True)


def _list_of(structure: Any, item_kind: Any, wire: Json, kind: Any) -> list[Any]:
    """Structure the items of a list, up to the first that does not fit: there may be millions."""
    from cattrs import IterableValidationError, IterableValidationNote

    if wire.__class__ is not list:
        raise _Unfit("an array", wire)
    items: list[Any] = []
    try:
        for item in wire:
            items.append(structure(item, item_kind))
    except Exception as error:
        error.add_note(IterableValidationNote("an item", len(items), None))
        raise IterableValidationError("an item does not fit", [error], kind) from None
    return items
