"""Content: what tools, resources and prompts give, and models read.

No server needs it before a tool returns more than text, so it is imported then.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.fields import base64_text, meta_field, optional, since, type_field, zero_to_one
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import STRUCTURED_SINCE, Content, Icon
from trio_mcp.wire.revisions import FIRST, SINCE, Revision
from trio_mcp.wire.tags import Tagged

Role = Literal["user", "assistant"]

_2025_03, _2025_06, _2025_11 = "2025-03-26", "2025-06-18", "2025-11-25"


@public
@frozen(kw_only=True)
class Annotations:
    """Hints on how to use content.

    Args:
        audience: Who it is for.
        priority: From 0 (optional) to 1 (required).
        last_modified: When it changed, as ISO 8601 text.
    """

    audience: list[Role] | None = None
    priority: float | None = field(default=None, validator=zero_to_one)
    last_modified: str | None = since(_2025_06)


@public
@frozen
class TextContent(Content):
    """A block of text."""

    text: str
    type: Literal["text"] = type_field("text")
    annotations: Annotations | None = optional()
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class ImageContent(Content):
    """A picture, and its media type.

    Args:
        data: Its bytes, or their base64 as text. The attribute is always base64.
        mime_type: Its media type, such as `image/png`.
    """

    data: str = field(converter=base64_text)
    mime_type: str
    type: Literal["image"] = type_field("image")
    annotations: Annotations | None = optional()
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class AudioContent(Content):
    """A sound, and its media type.

    Revision 2024-11-05 has no such block; its clients get an embedded resource with the same bytes.

    Args:
        data: Its bytes, or their base64 as text. The attribute is always base64.
        mime_type: Its media type, such as `audio/wav`.
    """

    data: str = field(converter=base64_text)
    mime_type: str
    type: Literal["audio"] = type_field("audio")
    annotations: Annotations | None = optional()
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class ResourceDescription(Tagged):
    """A resource, as `resources/list` shows it."""

    uri: str
    name: str
    title: str | None = since(_2025_06)
    description: str | None = optional()
    mime_type: str | None = optional()
    size: int | None = optional()
    annotations: Annotations | None = optional()
    icons: list[Icon] | None = since(_2025_11)
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class ResourceLink(ResourceDescription, Content):
    """A pointer to a resource that the client may read.

    Revisions before 2025-06-18 have no such block; their clients get its name and URI as text.
    """

    type: Literal["resource_link"] = type_field("resource_link")


@public
@frozen
class TextResourceContents:
    """The contents of a resource that is text."""

    uri: str
    text: str
    mime_type: str | None = optional()
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class BlobResourceContents:
    """The contents of a resource that is not text.

    Args:
        uri: The resource.
        blob: Its bytes, or their base64 as text. The attribute is always base64.
        mime_type: Its media type.
    """

    uri: str
    blob: str = field(converter=base64_text)
    mime_type: str | None = optional()
    meta: dict[str, Json] | None = meta_field()


ResourceContents = TextResourceContents | BlobResourceContents


@public
@frozen
class EmbeddedResource(Content):
    """The contents of a resource, inside a result."""

    resource: ResourceContents
    type: Literal["resource"] = type_field("resource")
    annotations: Annotations | None = optional()
    meta: dict[str, Json] | None = meta_field()


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource

CONTENT_BLOCKS: Final[dict[str, type]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}

BLOCK_SINCE: Final[dict[type, frozenset[Revision]]] = {
    AudioContent: SINCE[_2025_03],
    ResourceLink: SINCE[_2025_06],
}
"""The blocks that early revisions do not have."""


def _audio_as_resource(audio: AudioContent) -> EmbeddedResource:
    contents = BlobResourceContents("attachment:audio", audio.data, mime_type=audio.mime_type)
    return EmbeddedResource(contents, annotations=audio.annotations)


def _link_as_text(link: ResourceLink) -> TextContent:
    return TextContent(f"{link.title or link.name}: {link.uri}", annotations=link.annotations)


DEGRADED: Final[dict[type, Callable[[Any], ContentBlock]]] = {
    AudioContent: _audio_as_resource,
    ResourceLink: _link_as_text,
}
"""What blocks become in revisions that do not have them."""


@public
@frozen
class CallToolResult(Content):
    """The result of a tool call.

    Args:
        content: Blocks for the model to read.
        structured_content: The same as a JSON value, for programs.
        is_error: The tool failed, and `content` says how.
        meta: Anything else, under namespaced keys.
    """

    content: list[ContentBlock]
    structured_content: Json = since(STRUCTURED_SINCE)
    is_error: bool | None = optional()
    meta: dict[str, Json] | None = meta_field(FIRST)


def as_block(content: Any) -> Any:
    """Turn a string into a block of text; leave anything else as it is."""
    return TextContent(content) if isinstance(content, str) else content
