"""Whether a value fits a schema, and if not, why.

Schemas of plain types are checked by a table (`plain`). What that does not accept is for `full`,
which is not imported, and compiles nothing, before the first value that needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trio_mcp.schema.errors import Problem
from trio_mcp.schema.plain import classes_of, plain_test

if TYPE_CHECKING:
    from trio_mcp.schema.full import FullValidator


class Validator:
    """Says what is wrong with values by one schema. Made by `compile_validator`.

    It may be called from several threads. On an event loop, large values are for another thread.
    """

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        self._schema = schema
        self._noun = noun
        self._shows_values = shows_values
        self.is_plain = plain_test(schema) or (lambda _: False)
        """Whether a value fits at sight, as most do; if not, it may fit all the same."""

    def __call__(self, value: Any) -> Problem | None:
        """Say what is wrong with a value, in one or a few sentences; `None` if nothing is.

        A value that takes too much work, that is nested more than 200 levels deep, or that holds
        numbers of more than 1,024 bits where these matter, is refused.
        """
        return None if self.is_plain(value) else self._full(value)

    def compile(self) -> None:
        """Do now what else the first value would have to wait for."""
        assert self._full

    @functools.cached_property
    def _full(self) -> FullValidator:
        from trio_mcp.schema.full import FullValidator  # most servers need it for no first call

        return FullValidator(self._schema, self._noun, self._shows_values)


def compile_validator(
    schema: Mapping[str, Any],
    *,
    inferred: bool = False,
    noun: str = "argument",
    shows_values: bool = True,
) -> Validator:
    """Make the function that says what is wrong with values by a schema, `None` for valid ones.

    Args:
        schema: A JSON Schema; `$schema` says its dialect, by default 2020-12. It must not change.
        inferred: The schema was made from annotations or parameters, and need not be checked.
        noun: What the values within the value are called in sentences: 'argument' or 'result'.
        shows_values: Whether the sentences quote what came; they always name its type.

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
    """Make the function that says whether a value fits a schema from annotations.

    The value must be part of one that a validator has passed, or come from the author: its cost
    is not looked at.
    """

    @functools.cache
    def fits() -> Callable[[Any], bool]:
        from trio_mcp.schema.engine import Engine

        return Engine(schema).fits

    classes = classes_of(schema) or frozenset()
    return lambda value: value.__class__ in classes or fits()(value)
