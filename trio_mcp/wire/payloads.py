"""What MCP messages carry, as attrs classes.

A field is declared once: its name here, its name on the wire (the same in camel case, unless it
says otherwise), and the first revision that has it. `to_wire` leaves out what is `None` and what
the revision does not know; `from_wire` goes the other way and ignores what this library does not
know. Both are made by cattrs, once for each class and revision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_origin

import attrs
from attrs import field, frozen, validators

from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.revisions import NEWEST, Revision

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
Role = Literal["user", "assistant"]

_2025_03, _2025_06, _2025_11 = 1, 2, 3  # places in `revisions.ALL`


def _since(order: int, *, wire: str | None = None) -> Any:
    return field(default=None, kw_only=True, metadata={"since": order, "wire": wire})


def _optional() -> Any:
    return field(default=None, kw_only=True)


def _meta(since: int = _2025_06) -> Any:
    return _since(since, wire="_meta")


def _type(name: str) -> Any:
    return field(default=name, init=False, repr=False)


@frozen
class Icon:
    """An image that stands for something in a user interface.

    Args:
        src: An `https:` or `data:` URI.
        mime_type: Its media type, if the URI does not tell.
        sizes: The sizes that it suits, such as `["48x48"]` or `["any"]`.
        theme: The background it is made for: `light` or `dark`.
    """

    src: str
    mime_type: str | None = _optional()
    sizes: list[str] | None = _optional()
    theme: Literal["light", "dark"] | None = _optional()


@frozen
class Implementation:
    """Who a client or a server is."""

    name: str
    version: str
    title: str | None = _since(_2025_06)
    description: str | None = _since(_2025_11)
    website_url: str | None = _since(_2025_11)
    icons: list[Icon] | None = _since(_2025_11)


_zero_to_one: Any = validators.optional(validators.and_(validators.ge(0), validators.le(1)))


@frozen(kw_only=True)
class Annotations:
    """Hints on how content is meant to be used.

    Args:
        audience: Who it is for.
        priority: From 0 (optional) to 1 (required).
        last_modified: When it changed, as ISO 8601 text.
    """

    audience: list[Role] | None = None
    priority: float | None = field(default=None, validator=_zero_to_one)
    last_modified: str | None = _since(_2025_06)


@frozen
class TextContent:
    """A block of text."""

    text: str
    type: Literal["text"] = _type("text")
    annotations: Annotations | None = _optional()
    meta: dict[str, Json] | None = _meta()


@frozen
class ImageContent:
    """A picture: its bytes in base64, and its media type."""

    data: str
    mime_type: str
    type: Literal["image"] = _type("image")
    annotations: Annotations | None = _optional()
    meta: dict[str, Json] | None = _meta()


@frozen
class AudioContent:
    """A sound: its bytes in base64, and its media type.

    Revision 2024-11-05 has no such block; it gets an embedded resource with the same bytes.
    """

    data: str
    mime_type: str
    type: Literal["audio"] = _type("audio")
    annotations: Annotations | None = _optional()
    meta: dict[str, Json] | None = _meta()


@frozen
class ResourceLink:
    """A pointer to a resource that the client may read.

    Revisions before 2025-06-18 have no such block; they get its name and URI as text.
    """

    uri: str
    name: str
    type: Literal["resource_link"] = _type("resource_link")
    title: str | None = _since(_2025_06)
    description: str | None = _optional()
    mime_type: str | None = _optional()
    size: int | None = _optional()
    annotations: Annotations | None = _optional()
    icons: list[Icon] | None = _since(_2025_11)
    meta: dict[str, Json] | None = _meta()


@frozen
class TextResourceContents:
    """The contents of a resource that is text."""

    uri: str
    text: str
    mime_type: str | None = _optional()
    meta: dict[str, Json] | None = _meta()


@frozen
class BlobResourceContents:
    """The contents of a resource that is not text, in base64."""

    uri: str
    blob: str
    mime_type: str | None = _optional()
    meta: dict[str, Json] | None = _meta()


ResourceContents = TextResourceContents | BlobResourceContents


@frozen
class EmbeddedResource:
    """The contents of a resource, inside a result."""

    resource: ResourceContents
    type: Literal["resource"] = _type("resource")
    annotations: Annotations | None = _optional()
    meta: dict[str, Json] | None = _meta()


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource

CONTENT_BLOCKS: Final[dict[str, type]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}


@frozen(kw_only=True)
class ToolAnnotations:
    """Hints on what a tool does to the world. A client need not believe them.

    Args:
        title: A name for people.
        read_only_hint: It changes nothing.
        destructive_hint: It may destroy something.
        idempotent_hint: Calling it again with the same arguments changes nothing more.
        open_world_hint: It reaches beyond a closed domain, such as the web.
    """

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


@frozen
class ToolDescription:
    """A tool, as `tools/list` shows it."""

    name: str
    input_schema: dict[str, Json]
    title: str | None = _since(_2025_06)
    description: str | None = _optional()
    output_schema: dict[str, Json] | None = _since(_2025_06)
    annotations: ToolAnnotations | None = _since(_2025_03)
    icons: list[Icon] | None = _since(_2025_11)
    meta: dict[str, Json] | None = _meta()


@frozen
class CallToolResult:
    """What a tool call gave.

    Args:
        content: Blocks for the model to read.
        structured_content: The same as a JSON value, for programs.
        is_error: The tool failed, and `content` says how.
        meta: Anything else, under namespaced keys.
    """

    content: list[ContentBlock]
    structured_content: Json = _since(_2025_06)
    is_error: bool | None = _optional()
    meta: dict[str, Json] | None = _meta(since=0)


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


def _wire_name(attribute: attrs.Attribute[Any]) -> str:
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

    def overrides(cls: type, *, omit_later: bool) -> dict[str, Any]:
        return {
            each.name: override(
                rename=_wire_name(each),
                omit=omit_later and each.metadata.get("since", 0) > revision.order,
                omit_if_default=each.default is None,
            )
            for each in attrs.fields(cls)
        }

    def unstructure_fn(cls: type) -> Any:
        return make_dict_unstructure_fn(
            cls,
            converter,
            _cattrs_include_init_false=True,
            **overrides(cls, omit_later=True),
        )

    def structure_fn(cls: type) -> Any:
        return make_dict_structure_fn(cls, converter, **overrides(cls, omit_later=False))

    def structure_block(wire: Json, _: Any) -> Any:
        kind = wire.get("type") if isinstance(wire, dict) else None
        if kind not in CONTENT_BLOCKS:
            raise ValueError(f"unknown content block type {kind!r}")
        return converter.structure(wire, CONTENT_BLOCKS[kind])

    def structure_contents(wire: Json, _: Any) -> Any:
        text = isinstance(wire, dict) and "text" in wire
        return converter.structure(wire, TextResourceContents if text else BlobResourceContents)

    converter.register_unstructure_hook_factory(attrs.has, unstructure_fn)
    converter.register_structure_hook_factory(attrs.has, structure_fn)
    converter.register_structure_hook(ContentBlock, structure_block)
    converter.register_structure_hook(ResourceContents, structure_contents)
    converter.register_unstructure_hook(
        ContentBlock, lambda block: converter.unstructure(block, block.__class__)
    )
    converter.register_unstructure_hook(
        ResourceContents, lambda contents: converter.unstructure(contents, contents.__class__)
    )

    def unstructure_degraded(degrade: Callable[[Any], ContentBlock], block: Any) -> Any:
        return converter.unstructure(degrade(block))

    for later, degrade in _DEGRADED.items():
        if _BLOCK_SINCE[later] > revision.order:
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


_BLOCK_SINCE: Final[dict[type, int]] = {AudioContent: _2025_03, ResourceLink: _2025_06}
_DEGRADED: Final[dict[type, Any]] = {
    AudioContent: _audio_as_resource,
    ResourceLink: _link_as_text,
}
