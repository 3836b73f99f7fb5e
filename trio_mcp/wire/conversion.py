"""Payloads as JSON-able objects, and back.

`to_wire` leaves out what is `None` and what the revision does not know; `from_wire` goes the other
way and ignores what this library does not know. Both are made by cattrs, once for each class and
revision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_origin

import attrs

from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.payloads import (
    BLOCK_SINCE,
    CONTENT_BLOCKS,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ResourceContents,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from trio_mcp.wire.revisions import ALL, NEWEST, Revision

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


def to_wire(payload: Any, revision: Revision = NEWEST) -> dict[str, Json]:
    """Turn a payload into a JSON-able object, as a revision writes it."""
    wire: dict[str, Json] = _converter(revision).unstructure(payload)
    return wire


def from_wire(wire: Json, payload_type: type[T]) -> T:
    """Turn a JSON object into a payload.

    Raises:
        ValueError: The object does not fit the payload; the message says where.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter(NEWEST).structure(wire, payload_type)
    except BaseValidationError as error:
        raise ValueError("; ".join(transform_error(error, path=payload_type.__name__))) from None
    except (TypeError, KeyError) as error:
        raise ValueError(f"invalid {payload_type.__name__}: {error}") from None


def wire_name(attribute: attrs.Attribute[Any]) -> str:
    """The name that a field of a payload has on the wire."""
    head, *tail = attribute.name.split("_")
    return attribute.metadata.get("wire") or head + "".join(part.capitalize() for part in tail)


@cache
def _converter(revision: Revision) -> Converter:
    from cattrs import Converter, override
    from cattrs.cols import list_structure_factory
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

    converter = Converter()
    for scalar, accepted in _STRICT.items():
        converter.register_structure_hook(scalar, partial(_only, accepted))

    def structure_list_fn(list_type: Any) -> Any:
        structure_items = list_structure_factory(list_type, converter)
        return lambda wire, _: structure_items(_only((list,), wire), list_type)

    converter.register_structure_hook_func(lambda kind: kind == _OBJECT, partial(_only, (dict,)))
    converter.register_structure_hook_factory(_is_list)(structure_list_fn)

    def block_hooks(attribute: attrs.Attribute[Any]) -> dict[str, Any]:
        kinds = attribute.metadata.get("blocks")
        if kinds is None:
            return {}
        structure = partial(structure_blocks, kinds)
        return {"struct_hook": structure, "unstruct_hook": unstructure_blocks}

    def overrides(cls: type, *, omit_later: bool) -> dict[str, Any]:
        return {
            attribute.name: override(
                rename=wire_name(attribute),
                omit=omit_later and revision not in attribute.metadata.get("since", ALL),
                omit_if_default=attribute.default is None,
                **block_hooks(attribute),
            )
            for attribute in attrs.fields(cls)
        }

    def unstructure_fn(cls: type) -> Any:
        return make_dict_unstructure_fn(
            cls, converter, _cattrs_include_init_false=True, **overrides(cls, omit_later=True)
        )

    def structure_fn(cls: type) -> Any:
        return make_dict_structure_fn(cls, converter, **overrides(cls, omit_later=False))

    def structure_block(kinds: dict[str, type], wire: Json, _: Any) -> Any:
        kind = wire.get("type") if isinstance(wire, dict) else None
        if kind not in kinds:
            raise ValueError(f"unknown content block type {kind!r}")
        return converter.structure(wire, kinds[kind])

    def structure_blocks(kinds: dict[str, type], wire: Json, _: Any) -> Any:
        if isinstance(wire, list):
            return [structure_block(kinds, block, None) for block in wire]
        return structure_block(kinds, wire, None)

    def unstructure_by_class(value: Any) -> Any:
        return converter.unstructure(value, value.__class__)

    def unstructure_blocks(value: Any) -> Any:
        if isinstance(value, list):
            return [unstructure_by_class(block) for block in value]
        return unstructure_by_class(value)

    def structure_contents(wire: Json, _: Any) -> Any:
        text = isinstance(wire, dict) and "text" in wire
        return converter.structure(wire, TextResourceContents if text else BlobResourceContents)

    converter.register_unstructure_hook_factory(attrs.has, unstructure_fn)
    converter.register_structure_hook_factory(attrs.has, structure_fn)
    converter.register_structure_hook(ContentBlock, partial(structure_block, CONTENT_BLOCKS))
    converter.register_structure_hook(ResourceContents, structure_contents)
    for union in (ContentBlock, ResourceContents):
        converter.register_unstructure_hook(union, unstructure_by_class)

    def unstructure_degraded(degrade: Callable[[Any], ContentBlock], block: Any) -> Any:
        return converter.unstructure(degrade(block))

    for later, degrade in _DEGRADED.items():
        if revision not in BLOCK_SINCE[later]:
            converter.register_unstructure_hook(later, partial(unstructure_degraded, degrade))
    return converter


_STRICT: Final[dict[type, tuple[type, ...]]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
}
"""What is taken for a scalar: nothing is converted, so nothing is lost."""

_OBJECT: Final = dict[str, Json]


def _is_list(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is list


def _only(accepted: tuple[type, ...], wire: Json, _: Any = None) -> Json:
    if wire.__class__ in accepted:
        return wire
    raise TypeError(f"expected {accepted[0].__name__}, got {json_type(wire)}")


def _audio_as_resource(audio: AudioContent) -> EmbeddedResource:
    contents = BlobResourceContents("attachment:audio", audio.data, mime_type=audio.mime_type)
    return EmbeddedResource(contents, annotations=audio.annotations)


def _link_as_text(link: ResourceLink) -> TextContent:
    return TextContent(f"{link.title or link.name}: {link.uri}", annotations=link.annotations)


_DEGRADED: Final[dict[type, Any]] = {AudioContent: _audio_as_resource, ResourceLink: _link_as_text}
