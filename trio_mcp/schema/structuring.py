"""Valid JSON arguments as the Python types that a function is annotated with.

A plain JSON type costs nothing. Numbers are settled by exact type (JSON says `1` for the float 1.0,
and may say `1.0` for the integer 1). All else goes through `hooks`, imported at the first need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trio_mcp.schema.errors import ArgumentError, AtPath, ConversionError, Problem
from trio_mcp.schema.kinds import bare, is_plain
from trio_mcp.schema.sentences import join_path, subject

if TYPE_CHECKING:
    from trio_mcp.schema.hooks import Hook


def structure_arguments(
    annotations: dict[str, Any], rest: Any = None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make the function that turns valid arguments into keyword arguments.

    It leaves its argument as it is, returns the very same dictionary where there is nothing to
    change, and raises `ArgumentError` for what the schema could not know. `rest` is what
    `**kwargs` is annotated with, if the function takes it.
    """
    wanted = {
        name: annotation
        for name, annotation in annotations.items()
        if not is_plain(annotation, numbers=False)
    }
    takes_rest = not is_plain(rest, numbers=False)
    if not wanted and not takes_rest:
        return as_they_came
    hooks_of_wanted = functools.cache(
        lambda: [(name, *_hook_and_type(annotation)) for name, annotation in wanted.items()]
    )
    hook_of_rest = functools.cache(lambda: _hook_and_type(rest))

    def structure(arguments: dict[str, Any]) -> dict[str, Any]:
        structured, name = arguments, ""
        hooks = hooks_of_wanted()
        if takes_rest:
            others = arguments.keys() - annotations.keys()
            hooks = [*hooks, *((name, *hook_of_rest()) for name in arguments if name in others)]
        try:
            for name, hook, settled in hooks:
                value = arguments.get(name, _MISSING)
                if value is _MISSING or type(value) is settled:
                    continue
                if structured is arguments:
                    structured = arguments.copy()
                structured[name] = hook(value)
        except (Exception, SystemExit) as error:  # a validator that exits must not end the server
            raise ArgumentError(Problem(explain("argument", error, name), name)) from error
        return structured

    return structure


def as_they_came(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments: what structures those that need nothing."""
    return arguments


_MISSING = object()


def _hook_and_type(annotation: Any) -> tuple[Hook, Any]:
    """A hook, and the type whose values do not need it."""
    from trio_mcp.schema.hooks import hook_for  # no start waits for them

    kind = bare(annotation)
    return hook_for(kind), kind if kind in (int, float) else _MISSING


def explain(noun: str, error: BaseException, *path: str) -> str:
    """Say what is wrong at a path, or below it: with an 'argument', or a 'field'."""
    steps: list[str | int] = [*path]
    while isinstance(error, AtPath):
        steps.append(error.step)
        error = error.error
    place = join_path(steps)
    if isinstance(error, ConversionError):
        return error.tell(noun, place)
    return f"{subject(noun, place)} is not acceptable{_reason_of(error)}."


def _reason_of(error: BaseException) -> str:
    """What a class says of its own values, which is meant for those who give them.

    Anything else may be of the inside and stays there.
    """
    said = error.args[0] if isinstance(error, ValueError) and error.args else None
    return f": {said[:200].rstrip('.')}" if isinstance(said, str) and said else ""
