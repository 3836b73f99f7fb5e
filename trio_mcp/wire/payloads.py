"""What MCP messages carry, as attrs classes.

A field is declared once: its name here, its name on the wire (the same in camel case, unless it
says otherwise), and the first revision that has it. `conversion` turns payloads into JSON-able
objects and back.

Here is what every server needs, or may need for its first call. `offers` has the payloads of
resources, prompts and completions, `questions` those of what a server asks of its client.
"""

from typing import Any, Final, Literal, get_args

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.fields import base64_text, meta_field, optional, since, type_field, zero_to_one
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import FIRST, SINCE, Revision
from trio_mcp.wire.tags import Tagged

Role = Literal["user", "assistant"]

_2025_03, _2025_06, _2025_11 = "2025-03-26", "2025-06-18", "2025-11-25"


@public
@frozen
class Icon:
    """An image that stands for something in a user interface.

    Args:
        src: An `https:` or `data:` URI.
        mime_type: Its media type, if the URI does not imply it.
        sizes: The sizes that it suits, such as `["48x48"]` or `["any"]`.
        theme: The background it is made for: `light` or `dark`.
    """

    src: str
    mime_type: str | None = optional()
    sizes: list[str] | None = optional()
    theme: Literal["light", "dark"] | None = optional()


@public
@frozen
class Implementation:
    """What a client or a server is called, and its version."""

    name: str
    version: str
    title: str | None = since(_2025_06)
    description: str | None = since(_2025_11)
    website_url: str | None = since(_2025_11)
    icons: list[Icon] | None = since(_2025_11)


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
class TextContent:
    """A block of text."""

    text: str
    type: Literal["text"] = type_field("text")
    annotations: Annotations | None = optional()
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class ImageContent:
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
class AudioContent:
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
class ResourceLink(ResourceDescription):
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
class EmbeddedResource:
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


@public
@frozen(kw_only=True)
class ToolAnnotations:
    """Hints on what a tool does. A client need not believe them.

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


WRAPS_RESULT: Final = "x-fastmcp-wrap-result"
"""Says in an output schema that `result` is what the tool has returned; FastMCP reads it, too."""


@public
@frozen
class ToolDescription(Tagged):
    """A tool, as `tools/list` shows it."""

    name: str
    input_schema: dict[str, Json]
    title: str | None = since(_2025_06)
    description: str | None = optional()
    output_schema: dict[str, Json] | None = since(_2025_06)
    annotations: ToolAnnotations | None = since(_2025_03)
    icons: list[Icon] | None = since(_2025_11)
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class CallToolResult:
    """The result of a tool call.

    Args:
        content: Blocks for the model to read.
        structured_content: The same as a JSON value, for programs.
        is_error: The tool failed, and `content` says how.
        meta: Anything else, under namespaced keys.
    """

    content: list[ContentBlock]
    structured_content: Json = since(_2025_06)
    is_error: bool | None = optional()
    meta: dict[str, Json] | None = meta_field(FIRST)


def as_block(content: Any) -> Any:
    """Turn a string into a block of text; leave anything else as it is."""
    return TextContent(content) if isinstance(content, str) else content


LoggingLevel = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]

LOGGING_LEVELS: Final[dict[str, int]] = {
    name: severity for severity, name in enumerate(get_args(LoggingLevel))
}
"""The levels and how severe they are (RFC 5424, in reverse)."""
