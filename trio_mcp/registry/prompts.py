"""Prompts: functions that write messages for a model, from arguments that a user gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Unpack

from attrs import frozen

from trio_mcp.layers.binding import UncheckedArguments
from trio_mcp.registry.checks import check_payload
from trio_mcp.registry.context import Context
from trio_mcp.registry.describing import check_names, handler_fields, shown_fields
from trio_mcp.registry.handlers import Handler, Keywords, TextArguments, Texts
from trio_mcp.registry.invalid import checked_wire, invalid_result
from trio_mcp.registry.options import PromptOptions
from trio_mcp.schema import ArgumentError, Problem, check_function, describe_function, name_of
from trio_mcp.schema.errors import errors_at
from trio_mcp.wire.content import ContentBlock, TextContent
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.offers import GetPromptResult, PromptArgument, PromptDescription, PromptMessage
from trio_mcp.wire.revisions import Revision


@frozen(eq=False, kw_only=True, repr=False)
class Prompt(Handler):
    """A registered prompt. Made by `Registry.prompt` and `Registry.add_prompt`."""

    kind: ClassVar[Literal["prompt"]] = "prompt"
    description: PromptDescription
    """As `prompts/list` shows it."""
    parameters: Mapping[str, Json]
    """The schema of each argument."""
    arguments: Texts

    def bind(self, arguments: Json) -> Keywords | UncheckedArguments:
        """Check arguments, or raise `ArgumentError`, and turn them into keyword arguments.

        Large ones are left to a thread.
        """
        if not isinstance(arguments, dict):
            raise ArgumentError(f"The arguments must be an object, not {json_type(arguments)}.")
        for name, value in arguments.items():
            if not isinstance(value, str):
                text = f"Argument '{name}' must be a string, not {json_type(value)}."
                raise ArgumentError(Problem(text, name))
        check = partial(self.arguments.bind, arguments)
        if self.arguments.takes_long(arguments):
            return UncheckedArguments(f"prompt {self.name}", check)
        return check()

    def to_result(self, value: Any, name: str, revision: Revision) -> dict[str, Json]:
        try:
            return to_wire(messages_of(self, value), revision)
        except (TypeError, ValueError, AttributeError) as error:  # wrongly filled blocks
            raise invalid_result(value, f"prompt {self.name}", error) from None


def make_prompt(function: Callable[..., Any], **options: Unpack[PromptOptions]) -> Prompt:
    """Make a prompt of a function. The options are those of `Registry.prompt`."""
    check_names(options, PromptOptions, "prompt option")
    check_function(function)
    name = options.get("name") or name_of(function)
    with errors_at(f"Prompt {name!r:.200}"):
        described = describe_function(function, context_type=Context, describe_result=False)
        handler = handler_fields(function, described, options)
        shown = shown_fields(described, options)
        arguments = _arguments_of(described.input_schema) or None
        description = PromptDescription(name, arguments=arguments, **shown)
        check_payload(description)
    return Prompt(
        name=name,
        description=description,
        parameters=described.input_schema.get("properties", {}),
        arguments=TextArguments(described),
        **handler,
    )


def _arguments_of(schema: Json) -> list[PromptArgument]:
    required = schema.get("required", [])
    arguments = [
        PromptArgument(
            name,
            title=about.get("title"),
            description=about.get("description"),
            required=name in required,
        )
        for name, about in schema.get("properties", {}).items()
    ]
    for argument in arguments:
        check_payload(argument, f"{argument.name}.")
    return arguments


def messages_of(prompt: Prompt, value: Any) -> GetPromptResult:
    """Turn what a prompt's function returned into the result that its caller gets.

    A string or a content block is what the user says; a `PromptMessage` says itself who speaks; a
    list holds several of these.

    Raises:
        McpError: The value is none of these (`-32603`, naming its type).
    """
    if isinstance(value, GetPromptResult):
        result = value
    else:
        pieces = value if isinstance(value, list | tuple) else [value]
        messages = [_message(prompt, piece) for piece in pieces]
        result = GetPromptResult(messages, description=prompt.description.description)
        if all(piece.__class__ is str for piece in pieces):
            return result
    checked_wire(result, value, f"prompt {prompt.name}")
    return result


def _message(prompt: Prompt, value: Any) -> PromptMessage:
    if isinstance(value, PromptMessage):
        return value
    if isinstance(value, str):
        return PromptMessage("user", TextContent(value))
    if isinstance(value, ContentBlock):
        return PromptMessage("user", value)
    error = invalid_result(value, f"prompt {prompt.name}")
    error.reason += "; a prompt returns texts, content blocks or PromptMessages, one or a list"
    raise error
