"""What MCP messages carry, as attrs classes.

A field is declared once: its name here, its name on the wire (the same in camel case, unless it
says otherwise), and the first revision that has it. `conversion` turns payloads into JSON-able
objects and back.
"""

from typing import Any, Final, Literal

from attrs import field, frozen, validators

from trio_mcp.public import public
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import FIRST, SINCE, Revision

Role = Literal["user", "assistant"]

_2025_03, _2025_06, _2025_11 = "2025-03-26", "2025-06-18", "2025-11-25"


def _since(revision: str, *, wire: str | None = None) -> Any:
    return field(default=None, kw_only=True, metadata={"since": SINCE[revision], "wire": wire})


def _optional() -> Any:
    return field(default=None, kw_only=True)


def _meta(since: str = _2025_06) -> Any:
    return _since(since, wire="_meta")


def _type(name: str) -> Any:
    return field(default=name, init=False, repr=False)


@public
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


@public
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


@public
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


@public
@frozen
class TextContent:
    """A block of text."""

    text: str
    type: Literal["text"] = _type("text")
    annotations: Annotations | None = _optional()
    meta: dict[str, Json] | None = _meta()


@public
@frozen
class ImageContent:
    """A picture: its bytes in base64, and its media type."""

    data: str
    mime_type: str
    type: Literal["image"] = _type("image")
    annotations: Annotations | None = _optional()
    meta: dict[str, Json] | None = _meta()


@public
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


@public
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


@public
@frozen
class TextResourceContents:
    """The contents of a resource that is text."""

    uri: str
    text: str
    mime_type: str | None = _optional()
    meta: dict[str, Json] | None = _meta()


@public
@frozen
class BlobResourceContents:
    """The contents of a resource that is not text, in base64."""

    uri: str
    blob: str
    mime_type: str | None = _optional()
    meta: dict[str, Json] | None = _meta()


ResourceContents = TextResourceContents | BlobResourceContents


@public
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

BLOCK_SINCE: Final[dict[type, frozenset[Revision]]] = {
    AudioContent: SINCE[_2025_03],
    ResourceLink: SINCE[_2025_06],
}
"""The blocks that early revisions do not have."""


@public
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


@public
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


@public
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
    meta: dict[str, Json] | None = _meta(since=FIRST)


@public
@frozen
class ResourceDescription:
    """A resource, as `resources/list` shows it."""

    uri: str
    name: str
    title: str | None = _since(_2025_06)
    description: str | None = _optional()
    mime_type: str | None = _optional()
    size: int | None = _optional()
    annotations: Annotations | None = _optional()
    icons: list[Icon] | None = _since(_2025_11)
    meta: dict[str, Json] | None = _meta()


@public
@frozen
class ResourceTemplateDescription:
    """A family of resources, as `resources/templates/list` shows it."""

    uri_template: str
    name: str
    title: str | None = _since(_2025_06)
    description: str | None = _optional()
    mime_type: str | None = _optional()
    annotations: Annotations | None = _optional()
    icons: list[Icon] | None = _since(_2025_11)
    meta: dict[str, Json] | None = _meta()


@public
@frozen
class PromptArgument:
    """An argument of a prompt. Its value is always text."""

    name: str
    title: str | None = _since(_2025_06)
    description: str | None = _optional()
    required: bool | None = _optional()


@public
@frozen
class PromptDescription:
    """A prompt, as `prompts/list` shows it."""

    name: str
    title: str | None = _since(_2025_06)
    description: str | None = _optional()
    arguments: list[PromptArgument] | None = _optional()
    icons: list[Icon] | None = _since(_2025_11)
    meta: dict[str, Json] | None = _meta()


def _as_block(content: Any) -> Any:
    return TextContent(content) if isinstance(content, str) else content


@public
@frozen
class PromptMessage:
    """One message of a prompt.

    Args:
        role: Who says it: `user` or `assistant`.
        content: A content block; a string is taken for a block of text.
    """

    role: Role
    content: ContentBlock = field(converter=_as_block)


@public
@frozen
class GetPromptResult:
    """A prompt, filled in."""

    messages: list[PromptMessage]
    description: str | None = _optional()
    meta: dict[str, Json] | None = _meta(since=FIRST)


@public
@frozen
class Completion:
    """Suggestions for the value of an argument.

    Args:
        values: At most 100 of them, the best first.
        total: How many there are altogether, if that is known.
        has_more: Whether there are more than these.
    """

    values: list[str]
    total: int | None = _optional()
    has_more: bool | None = _optional()


@public
@frozen
class Root:
    """A directory or file that the client considers relevant, as a `file:` URI."""

    uri: str
    name: str | None = _optional()
    meta: dict[str, Json] | None = _meta()


@public
@frozen
class ToolUseContent:
    """A model's wish to use a tool (sampling, since 2025-11-25)."""

    id: str
    name: str
    input: dict[str, Json]
    type: Literal["tool_use"] = _type("tool_use")
    meta: dict[str, Json] | None = _meta()


@public
@frozen
class ToolResultContent:
    """What a tool gave to the model that wanted it (sampling, since 2025-11-25)."""

    tool_use_id: str
    content: list[ContentBlock]
    type: Literal["tool_result"] = _type("tool_result")
    structured_content: Json = _optional()
    is_error: bool | None = _optional()
    meta: dict[str, Json] | None = _meta()


SamplingBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent

SAMPLING_BLOCKS: Final[dict[str, type]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "tool_use": ToolUseContent,
    "tool_result": ToolResultContent,
}


@public
@frozen
class SamplingMessage:
    """One message of a conversation with a model.

    Args:
        role: Who says it: `user` or `assistant`.
        content: A block, or (since 2025-11-25) a list of blocks; a string is a block of text.
    """

    role: Role
    content: SamplingBlock | list[SamplingBlock] = field(converter=_as_block)
    meta: dict[str, Json] | None = _meta(since=_2025_11)


@public
@frozen
class ModelHint:
    """A part of the name of a model that would suit."""

    name: str | None = None


@public
@frozen(kw_only=True)
class ModelPreferences:
    """What matters in the choice of a model, from 0 (not at all) to 1 (most)."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = field(default=None, validator=_zero_to_one)
    speed_priority: float | None = field(default=None, validator=_zero_to_one)
    intelligence_priority: float | None = field(default=None, validator=_zero_to_one)


@public
@frozen
class CreateMessageResult:
    """What a model answered (`sampling/createMessage`)."""

    role: Role
    content: SamplingBlock | list[SamplingBlock]
    model: str
    stop_reason: str | None = _optional()
    meta: dict[str, Json] | None = _meta(since=FIRST)

    @property
    def text(self) -> str:
        """The text of all text blocks, line by line."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(each.text for each in blocks if isinstance(each, TextContent))


LoggingLevel = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]

LOGGING_LEVELS: Final[dict[str, int]] = {
    name: severity
    for severity, name in enumerate(
        ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    )
}
"""The levels and how severe they are (RFC 5424, in reverse)."""
