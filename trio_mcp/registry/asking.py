"""Questions to the client: what they look like on the wire, and what its answers mean."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar, cast
from urllib.parse import urlsplit

import trio
from attrs import frozen

from trio_mcp.public import public
from trio_mcp.registry.conversation import Conversation
from trio_mcp.registry.converting import converted
from trio_mcp.schema import ArgumentError
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    McpError,
    ToolError,
)
from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.methods import has_question
from trio_mcp.wire.payloads import BLOCK_SINCE
from trio_mcp.wire.questions import (
    CreateMessageResult,
    Root,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)
from trio_mcp.wire.revisions import ALL, Revision

T = TypeVar("T")

Action = Literal["accept", "decline", "cancel"]
_ACTIONS: Final = ("accept", "decline", "cancel")
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


async def elicit(talk: Conversation, message: str, kind: Any, key: str | None) -> ElicitResult[Any]:
    """Ask the user to fill in a form."""
    from trio_mcp.schema.forms import form_of

    _require(talk, "elicitation", "form")
    form = form_of(kind, talk.revision)
    params: dict[str, Json] = {"message": message, "requestedSchema": form.schema}
    if talk.revision.url_elicitation:
        params["mode"] = "form"
    action, content = _answer(await talk.send_request("elicitation/create", params, key))
    if action != "accept":
        return ElicitResult(action)
    try:
        if form.takes_long(content):
            parse = partial(form.parse, content)
            parsed = await trio.to_thread.run_sync(parse, abandon_on_cancel=True)
            return ElicitResult(action, parsed)
        return ElicitResult(action, form.parse(content))
    except ArgumentError as error:
        raise _bad_answer("elicitation/create", str(error)) from None


async def elicit_url(
    talk: Conversation, message: str, url: str, key: str | None
) -> ElicitResult[None]:
    """Ask the user to visit a web page."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("the URL of a page for the user must begin with https:// or http://")
    _require(talk, "elicitation", "url")
    params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
    if talk.revision.elicitation_ids:
        params["elicitationId"] = str(uuid.uuid4())
    action, _ = _answer(await talk.send_request("elicitation/create", params, key))
    return ElicitResult(action)


async def sample(
    talk: Conversation,
    messages: str | Sequence[str | SamplingMessage],
    max_tokens: int,
    options: Mapping[str, Any],
    key: str | None,
) -> CreateMessageResult:
    """Ask the client to have its model write something."""
    _require(talk, "sampling")
    said = [messages] if isinstance(messages, str) else messages
    params: dict[str, Json] = {
        "messages": [
            to_wire(message, talk.revision)
            for each in said
            for message in _as_revision_has_it(
                SamplingMessage("user", each) if isinstance(each, str) else each, talk.revision
            )
        ],
        "maxTokens": max_tokens,
    }
    if options["tools"]:
        _require(talk, "sampling", "tools")
        params["tools"] = [to_wire(each, talk.revision) for each in options["tools"]]
        if options["tool_choice"] is not None:
            params["toolChoice"] = {"mode": options["tool_choice"]}
    if options["model_preferences"] is not None:
        params["modelPreferences"] = to_wire(options["model_preferences"], talk.revision)
    plain = {
        "systemPrompt": options["system_prompt"],
        "temperature": options["temperature"],
        "stopSequences": options["stop_sequences"] and list(options["stop_sequences"]),
    }
    params |= {name: each for name, each in plain.items() if each is not None}
    result = await talk.send_request("sampling/createMessage", params, key)
    try:
        return await converted(partial(from_wire, payload_type=CreateMessageResult), result)
    except ValueError as error:
        raise _bad_answer("sampling/createMessage", str(error)) from None


def _as_revision_has_it(message: SamplingMessage, revision: Revision) -> list[SamplingMessage]:
    """Write a message of several blocks as several, where a revision has only one in each.

    Raises:
        McpError: The revision does not have such a block at all (`-32600`).
    """
    blocks = message.content if isinstance(message.content, list) else [message.content]
    for each in blocks:
        of_tools = isinstance(each, ToolUseContent | ToolResultContent)
        if revision not in BLOCK_SINCE.get(type(each), ALL) or (
            of_tools and not revision.sampling_tools
        ):
            what = f"content of type {each.type} in sampling"
            raise McpError(INVALID_REQUEST, _too_old(revision, what))
    if isinstance(message.content, list) and not revision.sampling_tools:
        return [SamplingMessage(message.role, each) for each in blocks]
    return [message]


async def roots(talk: Conversation, key: str | None) -> list[Root]:
    """Ask the client for its roots."""
    _require(talk, "roots")
    result = await talk.send_request("roots/list", {}, key)
    try:
        match result:
            case {"roots": list(found)}:
                return await converted(_roots, found)
    except ValueError as error:
        raise _bad_answer("roots/list", str(error)) from None
    raise _bad_answer("roots/list", "it has no list of roots")


def _roots(found: list[Json]) -> list[Root]:
    return [from_wire(each, Root) for each in found]


async def ask(talk: Conversation, method: str, params: dict[str, Json], key: str | None) -> Json:
    """Ask the client something in the words of somebody else."""
    _require(talk, *_needed_for(method, params))
    return await talk.send_request(method, params, key)


def _needed_for(method: str, params: Mapping[str, Json]) -> tuple[str, ...]:
    """The capability that a client needs for a question."""
    match method:
        case "elicitation/create":
            return ("elicitation", "url" if params.get("mode") == "url" else "form")
        case "sampling/createMessage":
            return ("sampling", "tools") if params.get("tools") else ("sampling",)
        case "roots/list":
            return ("roots",)
    raise McpError(INVALID_REQUEST, f"No client can be asked {method:.100}")


def _answer(result: Json) -> tuple[Action, Json]:
    action: Any = result.get("action") if isinstance(result, dict) else None
    if action not in _ACTIONS:
        what = json_type(result) if not isinstance(result, dict) else f"action {action!r:.40}"
        raise _bad_answer("elicitation/create", f"an action was expected, not {what}")
    return action, result.get("content", {})


def _bad_answer(method: str, why: str) -> McpError:
    return McpError(INVALID_PARAMS, f"Invalid answer to {method}: {why}")


def _require(talk: Conversation, *capability: str) -> None:
    """Make sure that the caller can be asked.

    Args:
        talk: The way to the caller.
        *capability: What the caller must have declared.

    Raises:
        McpError: It has not declared the capability, its revision does not know the question, or
            there is no way to ask it anything.
    """
    name = ".".join(capability)
    if not has_question(talk.revision, capability):
        raise McpError(INVALID_REQUEST, _too_old(talk.revision, name))
    if talk.cannot_ask is not None:
        raise McpError(INVALID_REQUEST, talk.cannot_ask)
    if talk.supports(*capability):
        return
    message = f"This needs a client with the capability {name}, which it has not declared"
    if not talk.revision.modern:
        raise McpError(INVALID_REQUEST, message)
    needed: dict[str, Json] = {}
    for each in reversed(capability):
        needed = {each: needed}
    raise McpError(MISSING_CLIENT_CAPABILITY, message, {"requiredCapabilities": needed})


def _too_old(revision: Revision, what: str) -> str:
    return f"The client speaks revision {revision.name}, which does not have {what}"
