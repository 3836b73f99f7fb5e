"""Payloads of what a server asks of its client: roots, sampling, and what users are asked."""

from typing import Final, Literal

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.content import (
    AudioContent,
    ContentBlock,
    ImageContent,
    Role,
    TextContent,
    as_block,
)
from trio_mcp.wire.fields import meta_field, optional, type_field, zero_to_one
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import ToolDescription
from trio_mcp.wire.revisions import FIRST

_2025_11 = "2025-11-25"


@public
@frozen
class Root:
    """A directory or file that the client considers relevant, as a `file:` URI."""

    uri: str
    name: str | None = optional()
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class ToolUseContent:
    """A model's request to use a tool (sampling, since 2025-11-25)."""

    id: str
    name: str
    input: dict[str, Json]
    type: Literal["tool_use"] = type_field("tool_use")
    meta: dict[str, Json] | None = meta_field()


@public
@frozen
class ToolResultContent:
    """The result of a tool that the model asked for (sampling, since 2025-11-25)."""

    tool_use_id: str
    content: list[ContentBlock]
    type: Literal["tool_result"] = type_field("tool_result")
    structured_content: Json = optional()
    is_error: bool | None = optional()
    meta: dict[str, Json] | None = meta_field()


SamplingBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent

SAMPLING_BLOCKS: Final[dict[str, type]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "tool_use": ToolUseContent,
    "tool_result": ToolResultContent,
}
_BLOCKS: Final = {"blocks": SAMPLING_BLOCKS}
"""Marks a field that holds one such block, or a list of them."""


@public
@frozen
class SamplingMessage:
    """One message of a conversation with a model.

    Args:
        role: Who says it: `user` or `assistant`.
        content: A block, or (since 2025-11-25) a list of blocks; a string becomes a block of text.
    """

    role: Role
    content: SamplingBlock | list[SamplingBlock] = field(converter=as_block, metadata=_BLOCKS)
    meta: dict[str, Json] | None = meta_field(_2025_11)


@public
@frozen
class ModelHint:
    """A part of the name of a suitable model."""

    name: str | None = None


@public
@frozen(kw_only=True)
class ModelPreferences:
    """What matters in the choice of a model, from 0 (not at all) to 1 (most)."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = field(default=None, validator=zero_to_one)
    speed_priority: float | None = field(default=None, validator=zero_to_one)
    intelligence_priority: float | None = field(default=None, validator=zero_to_one)


@public
@frozen
class CreateMessageResult:
    """A model's answer (`sampling/createMessage`)."""

    role: Role
    content: SamplingBlock | list[SamplingBlock] = field(metadata=_BLOCKS)
    model: str
    stop_reason: str | None = optional()
    meta: dict[str, Json] | None = meta_field(FIRST)

    @property
    def text(self) -> str:
        """The text of all text blocks, line by line."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


# -- the questions, and their answers -----------------------------------------------------------


@frozen(kw_only=True)
class ElicitParams:
    """Parameters of `elicitation/create`."""

    message: str
    mode: str | None = None
    requested_schema: dict[str, Json] | None = None
    url: str | None = None
    elicitation_id: str | None = None


@frozen
class ElicitAnswer:
    """What a client answers to `elicitation/create`."""

    action: Literal["accept", "decline", "cancel"]
    content: Json = field(factory=dict)


@frozen(kw_only=True)
class ToolChoice:
    """Whether a model uses the tools that it may use."""

    mode: str


@frozen(kw_only=True)
class CreateMessageParams:
    """Parameters of `sampling/createMessage`."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: ModelPreferences | None = None
    tools: list[ToolDescription] | None = None
    tool_choice: ToolChoice | None = None


@frozen
class ListRootsResult:
    """What a client answers to `roots/list`."""

    roots: list[Root]


@frozen
class InputRequest:
    """A question in a result that asks for input: what a legacy server would send as a request."""

    method: str
    params: dict[str, Json] | None = None


@frozen(kw_only=True)
class InputRequiredResult:
    """What a modern server answers if it has questions first."""

    result_type: Literal["input_required"] = type_field("input_required")
    input_requests: dict[str, Json] | None = None
    request_state: str | None = None
