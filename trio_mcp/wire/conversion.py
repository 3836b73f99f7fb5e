"""Payloads as JSON-able objects, and back.

`to_wire` leaves out what is `None` and what the revision does not know; `from_wire` goes the other
way and ignores what this library does not know. That way is made by cattrs, once for each class;
this way is a walk, because every server answers its first request with a payload, and to import
cattrs for it would take longer than all the rest of the answer.
"""

from __future__ import annotations

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
    wire: dict[str, Json] = _to_json(payload, revision)
    return wire


def from_wire(wire: Json, payload_type: type[T]) -> T:
    """Turn a JSON object into a payload.

    Raises:
        ValueError: The object does not fit the payload; the message says where.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return _structurer().structure(wire, payload_type)
    except BaseValidationError as error:
        raise ValueError("; ".join(transform_error(error, path=payload_type.__name__))) from None
    except (TypeError, KeyError) as error:
        raise ValueError(f"invalid {payload_type.__name__}: {error}") from None


def wire_name(attribute: attrs.Attribute[Any]) -> str:
    """The name that a field of a payload has on the wire."""
    head, *tail = attribute.name.split("_")
    return attribute.metadata.get("wire") or head + "".join(part.capitalize() for part in tail)


# -- payloads to JSON -----------------------------------------------------------------------

_AS_IT_IS: Final = frozenset({str, int, float, bool, type(None)})


def _to_json(value: Any, revision: Revision) -> Json:
    kind = value.__class__
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        return {key: _to_json(each, revision) for key, each in value.items()}
    if kind is list:
        return [_to_json(each, revision) for each in value]
    if not attrs.has(kind):
        return _unstructurer(revision).unstructure(value)
    if revision not in BLOCK_SINCE.get(kind, ALL):
        return _to_json(_DEGRADED[kind](value), revision)
    wire = {}
    for name, key, may_be_left_out in _written(kind, revision):
        each = getattr(value, name)
        if not (may_be_left_out and each is None):
            wire[key] = _to_json(each, revision)
    return wire


@cache
def _written(kind: Any, revision: Revision) -> list[tuple[str, str, bool]]:
    """The fields that a revision has: name, name on the wire, and whether `None` is left out."""
    return [
        (each.name, wire_name(each), each.default is None)
        for each in attrs.fields(kind)
        if revision in each.metadata.get("since", ALL)
    ]


@cache
def _unstructurer(revision: Revision) -> Converter:
    """What turns those values into JSON that authors may have put into a payload."""
    from cattrs import Converter

    converter = Converter()
    converter.register_unstructure_hook_func(attrs.has, partial(_to_json, revision=revision))
    return converter


def _audio_as_resource(audio: AudioContent) -> EmbeddedResource:
    contents = BlobResourceContents("attachment:audio", audio.data, mime_type=audio.mime_type)
    return EmbeddedResource(contents, annotations=audio.annotations)


def _link_as_text(link: ResourceLink) -> TextContent:
    return TextContent(f"{link.title or link.name}: {link.uri}", annotations=link.annotations)


_DEGRADED: Final[dict[type, Any]] = {
    AudioContent: _audio_as_resource,
    ResourceLink: _link_as_text,
}


# -- JSON to payloads -----------------------------------------------------------------------


@cache
def _structurer() -> Converter:
    from cattrs import Converter, override
    from cattrs.cols import list_structure_factory
    from cattrs.gen import make_dict_structure_fn

    from trio_mcp.wire.questions import SAMPLING_BLOCKS, SamplingBlock  # not to write payloads

    converter = Converter()
    for scalar, accepted in _STRICT.items():
        converter.register_structure_hook(scalar, partial(_only, accepted))

    def structure_list_fn(list_type: Any) -> Any:
        structure_items = list_structure_factory(list_type, converter)
        return lambda wire, _: structure_items(_only((list,), wire), list_type)

    def structure_fn(cls: type) -> Any:
        names: dict[str, Any] = {
            each.name: override(rename=wire_name(each)) for each in attrs.fields(cls)
        }
        return make_dict_structure_fn(cls, converter, **names)

    def structure_block(kinds: dict[str, type], wire: Json, _: Any) -> Any:
        kind = wire.get("type") if isinstance(wire, dict) else None
        if kind not in kinds:
            raise ValueError(f"unknown content block type {kind!r}")
        return converter.structure(wire, kinds[kind])

    def structure_blocks(wire: Json, _: Any) -> Any:
        if isinstance(wire, list):
            return [structure_block(SAMPLING_BLOCKS, each, None) for each in wire]
        return structure_block(SAMPLING_BLOCKS, wire, None)

    def structure_contents(wire: Json, _: Any) -> Any:
        text = isinstance(wire, dict) and "text" in wire
        return converter.structure(wire, TextResourceContents if text else BlobResourceContents)

    converter.register_structure_hook_func(lambda kind: kind == _OBJECT, partial(_only, (dict,)))
    converter.register_structure_hook_factory(_is_list)(structure_list_fn)
    converter.register_structure_hook_factory(attrs.has, structure_fn)
    converter.register_structure_hook(ContentBlock, partial(structure_block, CONTENT_BLOCKS))
    converter.register_structure_hook(ResourceContents, structure_contents)
    sampling_content: Any = SamplingBlock | list[SamplingBlock]
    converter.register_structure_hook(sampling_content, structure_blocks)
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
