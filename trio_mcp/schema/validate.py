"""Whether a value fits a schema, and if not, why.

Schemas of plain types are checked by a table (`plain`). What that does not accept is for `judge`,
which is not imported, and compiles nothing, before the first value that needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trio_mcp.schema.errors import Problem
from trio_mcp.schema.plain import TAKES_LONG, classes_of, plain_test

if TYPE_CHECKING:
    from trio_mcp.schema.judge import Judge

__all__ = ["TAKES_LONG", "Validator", "compile_test", "compile_validator"]


class Validator:
    """Says what is wrong with values by one schema. Made by `compile_validator`.

    It may be called from several threads. On an event loop, `at_once` is.
    """

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        self._schema = schema
        self._noun = noun
        self._shows_values = shows_values
        self.is_plain = plain_test(schema) or _never
        """Whether a value fits at sight, as most do; if not, it may fit all the same."""

    def __call__(self, value: Any) -> Problem | None:
        """Say what is wrong with a value, in one or a few sentences; `None` if nothing is.

        Where, what was expected, what came. A value that would take too much work, that is nested
        more than 200 levels deep, or that holds numbers of more than 1,024 bits where these matter,
        is refused without being held against the schema.
        """
        return None if self.is_plain(value) else self._judge.tell(value)

    def at_once(self, value: Any) -> Problem | None:
        """Do the same, unless it may take long, and is better done in a thread by a plain call.

        Returns:
            What is wrong, `None`, or `TAKES_LONG` if the value was not checked.
        """
        return None if self.is_plain(value) else self._judge.tell_at_once(value)

    def takes_long(self, value: Any) -> bool:
        """Whether checking a value, or converting it, is not for an event loop."""
        return not self.is_plain(value) and self._judge.takes_long(value)

    def compile(self) -> None:
        """Do now what else the first value would have to wait for.

        Raises:
            SchemaError: jsonschema-rs does not take the schema.
        """
        assert self._judge

    @functools.cached_property
    def _judge(self) -> Judge:
        from trio_mcp.schema.judge import Judge  # most servers do not need it for their first call

        return Judge(self._schema, self._noun, self._shows_values)


def compile_validator(
    schema: Mapping[str, Any],
    *,
    inferred: bool = False,
    noun: str = "argument",
    shows_values: bool = True,
) -> Validator:
    """Make the function that validates values against a schema.

    Args:
        schema: A JSON Schema; `$schema` says its dialect, which is 2020-12 if it does not. It
            must not change.
        inferred: The schema comes from annotations or parameters of this room, so it need not
            be checked.
        noun: What the values within the value are called in sentences: 'argument' or 'result'.
        shows_values: Whether the sentences quote what came; they always tell its type.

    Returns:
        A function that returns `None` for a valid value and otherwise one or a few clear
        sentences: where, what was expected, what came.

    Raises:
        SchemaError: The schema is not acceptable, as `check_schema` says.

    Example:
        >>> validate = compile_validator({"properties": {"a": {"type": "number"}}})
        >>> validate({"a": "x"})
        "Argument 'a' must be a number, but a string came ('x')."
    """
    validator = Validator(schema, noun, shows_values)
    if not inferred:
        from trio_mcp.schema.bounds import check_schema  # schemas written by hand are the exception

        check_schema(schema)
        validator.compile()
    return validator


def compile_test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Make the function that says whether a value fits a schema from annotations, and no more.

    The value must be part of one that a validator has passed, or come from the author: its cost is
    not looked at.
    """

    @functools.cache
    def fits() -> Callable[[Any], bool]:
        from trio_mcp.schema.engine import Engine

        return Engine(schema).fits

    classes = classes_of(schema) or frozenset()
    return lambda value: value.__class__ in classes or fits()(value)


def _never(_: Any) -> bool:
    return False
