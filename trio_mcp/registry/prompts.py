"""Prompts: functions that write messages for a model, from arguments that a user gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import Handler, Keywords, TextArguments
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.options import check_timeout
from trio_mcp.schema import (
    ArgumentError,
    SchemaError,
    check_function,
    describe_function,
    name_of,
)
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json, encode, json_type
from trio_mcp.wire.payloads import (
    ContentBlock,
    GetPromptResult,
    Icon,
    PromptArgument,
    PromptDescription,
    PromptMessage,
    TextContent,
)


@frozen(eq=False, kw_only=True)
class Prompt(Handler):
    """A registered prompt. Made by `Registry.prompt` and `Registry.add_prompt`."""

    description: PromptDescription
    """As `prompts/list` shows it."""
    parameters: Mapping[str, Json]
    """The schema of each argument."""
    arguments: TextArguments

    def bind(self, arguments: Json) -> Keywords:
        """Check a user's arguments and turn them into the function's keyword arguments.

        Raises:
            ArgumentError: They do not fit; the message is for the caller.
        """
        if not isinstance(arguments, dict):
            raise ArgumentError(f"The arguments must be an object, not {json_type(arguments)}.")
        for name, value in arguments.items():
            if not isinstance(value, str):
                raise ArgumentError(f"Argument '{name}' must be a string, not {json_type(value)}.")
        return self.arguments.bind(arguments)


def make_prompt(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[Icon] | None = None,
    meta: Mapping[str, Json] | None = None,
    timeout: float | None = None,
) -> Prompt:
    """Make a prompt of a function. The arguments are those of `Registry.prompt`."""
    check_function(function)
    name = name or name_of(function)
    try:
        check_timeout(timeout)
        described = describe_function(function, context_type=Context, describe_result=False)
    except SchemaError as error:
        raise SchemaError(f"Prompt {name!r}: {error}") from None
    schema = described.input_schema
    required = schema.get("required", [])
    arguments = [
        PromptArgument(
            each,
            title=about.get("title"),
            description=about.get("description"),
            required=each in required,
        )
        for each, about in schema.get("properties", {}).items()
    ]
    return Prompt(
        name=name,
        label=f"Prompt {name}",
        function=function,
        timeout=timeout,
        context_parameter=described.context_parameter,
        description=PromptDescription(
            name,
            title=title,
            description=described.description if description is None else description,
            arguments=arguments or None,
            icons=list(icons) if icons else None,
            meta=dict(meta) if meta else None,
        ),
        parameters=schema.get("properties", {}),
        arguments=TextArguments(described),
    )


def messages_of(prompt: Prompt, value: Any) -> GetPromptResult:
    """Turn what a prompt's function returned into the result that its caller gets.

    A string or a content block is what the user says; a `PromptMessage` says itself who speaks; a
    list holds several of these.

    Raises:
        McpError: The value is none of these (`-32603`, naming its type).
    """
    if isinstance(value, GetPromptResult):
        return _checked(prompt, value, value)
    pieces = value if isinstance(value, list | tuple) else [value]
    messages = [_message(prompt, each) for each in pieces]
    result = GetPromptResult(messages, description=prompt.description.description)
    return (
        result if all(each.__class__ is str for each in pieces) else _checked(prompt, value, result)
    )


def _message(prompt: Prompt, value: Any) -> PromptMessage:
    if isinstance(value, PromptMessage):
        return value
    if isinstance(value, str):
        return PromptMessage("user", TextContent(value))
    if isinstance(value, ContentBlock):
        return PromptMessage("user", value)
    raise invalid_result(value, f"prompt {prompt.name}")


def _checked(prompt: Prompt, value: Any, result: GetPromptResult) -> GetPromptResult:
    """Make sure that messages and blocks which the prompt filled itself are what they should be."""
    try:
        wire = to_wire(result)
        encode(wire)
        from_wire(wire, GetPromptResult)
    except Exception as error:  # whatever a wrongly filled block makes the converter raise
        raise invalid_result(value, f"prompt {prompt.name}", error) from None
    return result
