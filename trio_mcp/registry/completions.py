"""Completion: suggestions for the arguments of prompts and the variables of templates.

They come from a function, from a list, or, where there is neither, from an annotation that names
all possible values (`Literal`, `Enum`, `bool`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from attrs import evolve, frozen

from trio_mcp.registry.checks import check_timeout
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import Handler
from trio_mcp.schema import SchemaError, describe_function
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.offers import Completion
from trio_mcp.wire.safe_repr import safe_repr

MOST_VALUES: Final = 100
"""So many suggestions one answer may hold (2026-07-28, "Completion")."""


@frozen(eq=False, kw_only=True)
class Completer(Handler):
    """A registered completion. Made by `Registry.completion`."""

    kind: ClassVar[Literal["completion"]] = "completion"
    parameters: frozenset[str]
    """Which of `value` and `arguments` the function takes."""

    def keywords(self, value: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """The function's keyword arguments."""
        given = {"value": value, "arguments": dict(arguments)}
        return {name: each for name, each in given.items() if name in self.parameters}


def make_completer(
    function: Callable[..., Any],
    what: str,
    timeout: float | None = None,
    middleware: tuple[Any, ...] = (),
) -> Completer:
    """Make a completion of a function that takes `value`, and `arguments` if it likes."""
    label = f"Completion of {what}"
    try:
        check_timeout(timeout)
        described = describe_function(function, context_type=Context, describe_result=False)
        parameters = frozenset(described.input_schema.get("properties", {}))
        if "value" not in parameters or not parameters <= {"value", "arguments"}:
            raise SchemaError(
                "the function must take `value` (what has been typed), and may take `arguments` "
                "(what was chosen already) and nothing else; it takes: "
                f"{', '.join(sorted(parameters)) or 'nothing'}"
            )
    except SchemaError as error:
        raise SchemaError(f"{label}: {error}") from None
    return Completer(
        name=what,
        label=label,
        function=function,
        timeout=timeout,
        context_parameter=described.context_parameter,
        parameters=parameters,
        middleware=middleware,
    )


def from_values(values: Sequence[str]) -> Callable[..., Any]:
    """Make a completion function of a list: what begins as typed, then what contains it."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(
            f"a completion is a function or a list of values, not {safe_repr(values)}"
        )
    known = [str(each) for each in values]

    async def complete(value: str) -> list[str]:
        typed = value.casefold()
        starts = [each for each in known if each.casefold().startswith(typed)]
        contains = [each for each in known if typed in each.casefold() and each not in starts]
        return starts + contains

    return complete


def values_of(schema: Json) -> list[str]:
    """All values that a parameter's schema allows, if it names them, as texts; else none."""
    if not isinstance(schema, dict):
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    if isinstance(schema.get("anyOf"), list):
        members = [values_of(each) for each in schema["anyOf"] if each != {"type": "null"}]
        return [value for each in members for value in each] if all(members) else []
    named = schema.get("enum") or [schema["const"]] if {"enum", "const"} & schema.keys() else []
    return [_text(each) for each in named if each is not None]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value)[:-1].decode()


def suggestions_of(completer: Completer, value: Any) -> Completion:
    """Turn what a completion function returned into what its caller gets.

    Raises:
        McpError: It is neither a list of strings nor a `Completion` (`-32603`).
    """
    found = value if isinstance(value, Completion) else Completion(value)
    values = found.values
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        kind = type(value).__name__
        message = f"Invalid handler result type: {kind} (completion of {completer.name})"
        raise McpError(INTERNAL_ERROR, message)
    shown = list(values[:MOST_VALUES])
    total = found.total
    if total is None and found is not value:  # a list is all there is
        total = len(values)
    more = len(values) > len(shown) or (total is not None and total > len(shown))
    return evolve(found, values=shown, total=total, has_more=bool(more or found.has_more))
