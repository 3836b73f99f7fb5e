"""Payloads of resources, prompts and completions."""

from typing import Literal

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.content import (
    Annotations,
    ContentBlock,
    ResourceContents,
    Role,
    as_block,
)
from trio_mcp.wire.fields import meta_field, optional, since
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import Icon
from trio_mcp.wire.revisions import FIRST
from trio_mcp.wire.tags import Tagged

_2025_06, _2025_11 = "2025-06-18", "2025-11-25"


@public
@frozen
class ResourceTemplateDescription(Tagged):
    """A resource template, as `resources/templates/list` shows it."""

    uri_template: str
    name: str
    title: str | None = since(_2025_06)
    description: str | None = optional()
    mime_type: str | None = optional()
    annotations: Annotations | None = optional()
    icons: list[Icon] | None = since(_2025_11)
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class PromptArgument:
    """An argument of a prompt. Its value is always text."""

    name: str
    title: str | None = since(_2025_06)
    description: str | None = optional()
    required: bool | None = optional()


@public
@frozen
class PromptDescription(Tagged):
    """A prompt, as `prompts/list` shows it."""

    name: str
    title: str | None = since(_2025_06)
    description: str | None = optional()
    arguments: list[PromptArgument] | None = optional()
    icons: list[Icon] | None = since(_2025_11)
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class PromptMessage:
    """One message of a prompt.

    Args:
        role: Who says it: `user` or `assistant`.
        content: A content block; a string becomes a block of text.
    """

    role: Role
    content: ContentBlock = field(converter=as_block)


@public
@frozen
class GetPromptResult:
    """A prompt, filled in."""

    messages: list[PromptMessage]
    description: str | None = optional()
    meta: dict[str, Json] | None = meta_field(FIRST)


@public
@frozen
class Completion:
    """Suggestions for the value of an argument.

    Args:
        values: At most 100 of them, the best first.
        total: How many there are altogether, if known.
        has_more: Whether there are more than these.
    """

    values: list[str]
    total: int | None = optional()
    has_more: bool | None = optional()


# -- what is asked for, and what is answered ----------------------------------------------------


@frozen
class ResourceParams:
    """Parameters of requests about one resource."""

    uri: str


@frozen
class ReadResourceResult:
    """What a server answers to `resources/read`."""

    contents: list[ResourceContents]
    ttl_ms: Json = since("2026-07-28")
    cache_scope: Json = since("2026-07-28")
    meta: Json = meta_field(FIRST)


@frozen
class GetPromptParams:
    """Parameters of `prompts/get`."""

    name: str
    arguments: Json = None


@frozen
class CompletionRef:
    """What has the argument that is completed."""

    type: Literal["ref/prompt", "ref/resource"]
    name: str | None = None
    uri: str | None = None

    @property
    def target(self) -> str | None:
        """The name or URI, whichever goes with the type; `None` if that is missing."""
        return self.name if self.type == "ref/prompt" else self.uri


@frozen
class CompletionArgument:
    """An argument, and what has been typed of it."""

    name: str
    value: str


@frozen
class CompleteParams:
    """Parameters of `completion/complete`."""

    ref: CompletionRef
    argument: CompletionArgument
    context: Json = None


@frozen
class CompleteResult:
    """What a server answers to `completion/complete`."""

    completion: Completion
