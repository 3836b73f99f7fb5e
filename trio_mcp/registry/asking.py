"""Questions to the client: what they look like on the wire, and what its answers mean."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar, cast
from urllib.parse import urlsplit

from attrs import frozen

from trio_mcp.public import public
from trio_mcp.registry.conversation import Conversation
from trio_mcp.schema import ArgumentError
from trio_mcp.threads import offload
from trio_mcp.wire import methods
from trio_mcp.wire.content import BLOCK_SINCE
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    McpError,
    ToolError,
)
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import ToolDescription
from trio_mcp.wire.questions import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitAnswer,
    ElicitParams,
    ListRootsResult,
    Root,
    SamplingMessage,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from trio_mcp.wire.revisions import ALL, Revision

T = TypeVar("T")

Action = Literal["accept", "decline", "cancel"]
_REFUSED: Final = {
    "decline": "The user declined to answer.",
    "cancel": "The user dismissed the question.",
}


@public
@frozen
class ElicitResult(Generic[T]):
    """A user's answer.

    Args:
        action: `accept`, `decline` (an explicit no) or `cancel` (dismissed without a choice).
        content: What the user filled in; `None` unless the action is `accept`.
    """

    action: Action
    content: T | None = None

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"

    @property
    def value(self) -> T:
        """What the user filled in.

        Raises:
            ToolError: The user did not accept; the text says what happened instead.
        """
        if self.action != "accept":
            raise ToolError(_REFUSED[self.action])
        return cast(T, self.content)


async def elicit(
    conversation: Conversation, message: str, kind: Any, key: str | None
) -> ElicitResult[Any]:
    from trio_mcp.registry.forms import form_of

    _require(conversation, "elicitation", "form")
    form = form_of(kind, conversation.revision)
    mode = "form" if conversation.revision.url_elicitation else None
    params = ElicitParams(message=message, mode=mode, requested_schema=form.schema)
    answer = await _ask(conversation, methods.ELICIT, params, ElicitAnswer, key)
    if answer.action != "accept":
        return ElicitResult(answer.action)
    try:
        return ElicitResult(answer.action, await offload(form.parse, answer.content))
    except ArgumentError as error:
        raise _bad_answer(methods.ELICIT, str(error)) from None


async def elicit_url(
    conversation: Conversation, message: str, url: str, key: str | None, id: str | None
) -> ElicitResult[None]:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("the URL of a page for the user must begin with https:// or http://")
    _require(conversation, "elicitation", "url")
    named = (id or str(uuid.uuid4())) if conversation.revision.elicitation_ids else None
    params = ElicitParams(message=message, mode="url", url=url, elicitation_id=named)
    answer = await _ask(conversation, methods.ELICIT, params, ElicitAnswer, key)
    return ElicitResult(answer.action)


async def sample(
    conversation: Conversation,
    messages: str | Sequence[str | SamplingMessage],
    tools: Sequence[ToolDescription] | None,
    tool_choice: str | None,
    key: str | None,
    **options: Any,
) -> CreateMessageResult:
    _require(conversation, "sampling")
    given = [messages] if isinstance(messages, str) else messages
    said = [SamplingMessage("user", one) if isinstance(one, str) else one for one in given]
    if tools:
        _require(conversation, "sampling", "tools")
    params = CreateMessageParams(
        messages=[
            part for message in said for part in _as_revision_has_it(message, conversation.revision)
        ],
        tools=list(tools) if tools else None,
        tool_choice=ToolChoice(mode=tool_choice) if tools and tool_choice is not None else None,
        **options,
    )
    return await _ask(conversation, methods.SAMPLE, params, CreateMessageResult, key)


def _as_revision_has_it(message: SamplingMessage, revision: Revision) -> list[SamplingMessage]:
    """Write a message of several blocks as several, where a revision has only one in each.

    Raises:
        McpError: The revision does not have such a block at all (`-32600`).
    """
    blocks = message.content if isinstance(message.content, list) else [message.content]
    for block in blocks:
        of_tools = isinstance(block, ToolUseContent | ToolResultContent)
        if revision not in BLOCK_SINCE.get(type(block), ALL) or (
            of_tools and not revision.sampling_tools
        ):
            what = f"content of type {block.type} in sampling"
            raise McpError(INVALID_REQUEST, _too_old(revision, what))
    if isinstance(message.content, list) and not revision.sampling_tools:
        return [SamplingMessage(message.role, block) for block in blocks]
    return [message]


async def roots(conversation: Conversation, key: str | None) -> list[Root]:
    _require(conversation, "roots")
    answer = await _ask(conversation, methods.LIST_ROOTS, None, ListRootsResult, key)
    return answer.roots


async def _ask(
    conversation: Conversation, method: methods.Method, params: Any, kind: type[T], key: str | None
) -> T:
    wire = {} if params is None else to_wire(params, conversation.revision)
    result = await conversation.send_request(method.name, wire, key)
    try:
        return await offload(partial(from_wire, payload_type=kind), result)
    except ValueError as error:
        raise _bad_answer(method, str(error)) from None


async def ask(
    conversation: Conversation, method: str, params: dict[str, Json], key: str | None
) -> Json:
    """Send a question of another server, as it is, but for what the caller's revision has not."""
    _require(conversation, *_needed_for(method, params))
    return await conversation.send_request(
        method, _as_asked_in(conversation.revision, method, params), key
    )


def _as_asked_in(revision: Revision, method: str, params: dict[str, Json]) -> dict[str, Json]:
    """Write a question as a revision has it, which may be another one than the server's."""
    if method == methods.ELICIT.name and params.get("mode") == "url" and revision.elicitation_ids:
        return {"elicitationId": str(uuid.uuid4()), **params}
    if method == methods.ELICIT.name and not revision.url_elicitation:
        return {name: value for name, value in params.items() if name != "mode"}
    if method == methods.SAMPLE.name and not revision.sampling_tools:
        messages = params.get("messages")
        if isinstance(messages, list):
            return {
                **params,
                "messages": [part for message in messages for part in _apart(message)],
            }
    return params


def _apart(message: Json) -> list[Json]:
    """Write a message of several blocks as several."""
    match message:
        case {"content": list(blocks)}:
            return [{**message, "content": block} for block in blocks]
    return [message]


def _needed_for(method: str, params: Mapping[str, Json]) -> tuple[str, ...]:
    match method:
        case methods.ELICIT.name:
            return ("elicitation", "url" if params.get("mode") == "url" else "form")
        case methods.SAMPLE.name:
            return ("sampling", "tools") if params.get("tools") else ("sampling",)
        case methods.LIST_ROOTS.name:
            return ("roots",)
    raise McpError(INVALID_REQUEST, f"No client can be asked {method:.100}")


def _bad_answer(method: methods.Method, why: str) -> McpError:
    return McpError(INVALID_PARAMS, f"Invalid answer to {method.name}: {why}")


def _require(conversation: Conversation, *capability: str) -> None:
    """Raise `McpError` unless the caller has declared a capability, and can be asked for it."""
    name = ".".join(capability)
    if not methods.has_question(conversation.revision, capability):
        raise McpError(INVALID_REQUEST, _too_old(conversation.revision, name))
    if conversation.cannot_ask is not None:
        raise McpError(INVALID_REQUEST, conversation.cannot_ask)
    if conversation.supports(*capability):
        return
    message = f"This needs a client with the capability {name}, which it has not declared"
    if not conversation.revision.modern:
        raise McpError(INVALID_REQUEST, message)
    needed: dict[str, Json] = {}
    for part in reversed(capability):
        needed = {part: needed}
    raise McpError(MISSING_CLIENT_CAPABILITY, message, {"requiredCapabilities": needed})


def _too_old(revision: Revision, what: str) -> str:
    return f"The client speaks revision {revision.name}, which does not have {what}"
