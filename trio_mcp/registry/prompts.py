"""Prompts: functions that write messages for a model, from arguments that a user gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from attrs import frozen

from trio_mcp.registry.checks import check_payload, check_timeout, icons_of, json_of, scopes_of
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import (
    NO_EXTENSIONS,
    Handler,
    Keywords,
    TextArguments,
    Texts,
    Unbound,
)
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.options import Icons
from trio_mcp.schema import (
    ArgumentError,
    Problem,
    SchemaError,
    check_function,
    describe_function,
    name_of,
)
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json, encode, json_type
from trio_mcp.wire.offers import GetPromptResult, PromptArgument, PromptDescription, PromptMessage
from trio_mcp.wire.payloads import ContentBlock, TextContent


@frozen(eq=False, kw_only=True)
class Prompt(Handler):
    """A registered prompt. Made by `Registry.prompt` and `Registry.add_prompt`."""

    kind: ClassVar[Literal["prompt"]] = "prompt"
    description: PromptDescription
    """As `prompts/list` shows it."""
    parameters: Mapping[str, Json]
    """The schema of each argument."""
    arguments: Texts

    def bind(self, arguments: Json) -> Keywords | Unbound:
        """Check a user's arguments and turn them into the function's keyword arguments.

        What would take long is left to `run`.

        Raises:
            ArgumentError: They do not fit; the message is for the caller.
        """
        if not isinstance(arguments, dict):
            raise ArgumentError(f"The arguments must be an object, not {json_type(arguments)}.")
        for name, value in arguments.items():
            if not isinstance(value, str):
                text = f"Argument '{name}' must be a string, not {json_type(value)}."
                raise ArgumentError(Problem(text, name))
        check = partial(self.arguments.bind, arguments)
        if self.arguments.takes_long(arguments):
            return Unbound(f"prompt {self.name}", check)
        return check()


def make_prompt(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Icons | None = None,
    meta: Mapping[str, Json] | None = None,
    timeout: float | None = None,
    scopes: Sequence[str] = (),
    extensions: Mapping[str, Any] = NO_EXTENSIONS,
) -> Prompt:
    """Make a prompt of a function. The arguments are those of `Registry.prompt`."""
    check_function(function)
    name = name or name_of(function)
    try:
        check_timeout(timeout)
        needed = scopes_of(scopes)
        described = describe_function(function, context_type=Context, describe_result=False)
        shown = PromptDescription(
            name,
            title=title,
            description=described.description if description is None else description,
            arguments=_arguments_of(described.input_schema) or None,
            icons=icons_of(icons),
            meta=json_of("meta", meta) or None,
        )
        check_payload(shown)
    except SchemaError as error:
        raise SchemaError(f"Prompt {name!r:.200}: {error}") from None
    return Prompt(
        name=name,
        label=f"Prompt {name}",
        function=function,
        timeout=timeout,
        context_parameter=described.context_parameter,
        scopes=needed,
        extensions=extensions,
        description=shown,
        parameters=described.input_schema.get("properties", {}),
        arguments=TextArguments(described),
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
    for each in arguments:
        check_payload(each, f"{each.name}.")
    return arguments


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
