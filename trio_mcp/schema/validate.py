"""Whether a value fits a schema, and if not, why.

Schemas of plain types are checked by a table (`plain`). For all others jsonschema-rs decides
(`engine`), after a look at what that will cost (`work`). What it refuses is looked for (`refusals`)
and put into words (`explain`). Nothing is compiled, and nothing heavy imported, before the first
value that needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from trio_mcp.schema.bounds import check_schema
from trio_mcp.schema.engine import Engine
from trio_mcp.schema.explain import Voice
from trio_mcp.schema.plain import classes_of, plain_test
from trio_mcp.schema.references import References
from trio_mcp.schema.refusals import Refusals
from trio_mcp.schema.work import (
    AT_ONCE,
    IN_A_THREAD,
    VALUES_AT_ONCE,
    Burden,
    Verdict,
    is_light,
    is_small,
)

__all__ = ["TAKES_LONG", "Validator", "compile_test", "compile_validator"]

_MOST_REFUSALS: Final = 20

TAKES_LONG: Final = "This takes long to check."
"""What `Validator.at_once` returns, by identity, for a value that it has not checked."""


class Validator:
    """Says what is wrong with values by one schema. Made by `compile_validator`.

    It may be called from several threads. On an event loop, `at_once` is.
    """

    def __init__(
        self, schema: Mapping[str, Any], inferred: bool, noun: str, shows_values: bool
    ) -> None:
        self._schema = schema
        self._inferred = inferred
        self._voice = Voice(noun, shows_values)
        self._is_plain = plain_test(schema) or _never

    def __call__(self, value: Any) -> str | None:
        """Say what is wrong with a value, in one or a few sentences; `None` if nothing is.

        Where, what was expected, what came. A value that would take too much work, that is nested
        more than 200 levels deep, or that holds numbers of more than 1,024 bits where these matter,
        is refused without being held against the schema.
        """
        if self._is_plain(value):
            return None
        return self._check(value, self._compiled.burden.judge(value, IN_A_THREAD))

    def at_once(self, value: Any) -> str | None:
        """Do the same, unless it may take long, and is better done in a thread by a plain call.

        Returns:
            What is wrong, `None`, or `TAKES_LONG` if the value was not checked.
        """
        if self._is_plain(value):
            return None
        if self._compiled.is_light and is_small(value):
            return self._check(value, Verdict.FINE)
        verdict = self._compiled.burden.judge(value, AT_ONCE, VALUES_AT_ONCE)
        return TAKES_LONG if verdict is Verdict.TOO_MUCH else self._check(value, verdict)

    def takes_long(self, value: Any) -> bool:
        """Whether checking a value, or converting it, is not for an event loop."""
        if self._is_plain(value) or (self._compiled.is_light and is_small(value)):
            return False
        verdict = self._compiled.burden.judge(value, AT_ONCE, VALUES_AT_ONCE)
        return verdict is Verdict.TOO_MUCH

    def compile(self) -> None:
        """Do now what else the first value would have to wait for.

        Raises:
            SchemaError: jsonschema-rs does not take the schema.
        """
        assert self._compiled

    def _check(self, value: Any, verdict: Verdict) -> str | None:
        compiled = self._compiled
        if verdict is not Verdict.FINE:
            return self._voice.of_the_whole(verdict)
        try:
            if compiled.engine.fits(value):
                return None
            refusals = Refusals(self._schema, compiled.engine, compiled.references)
            return self._voice.explain(list(islice(refusals.find(value), _MOST_REFUSALS)))
        except ValueError:  # a set, half a surrogate pair: nothing that came as JSON
            return self._voice.no_json()

    @functools.cached_property
    def _compiled(self) -> _Compiled:
        return _Compiled(self._schema, self._inferred)


class _Compiled:
    """What is made of a schema for the first value that is not plain."""

    def __init__(self, schema: Mapping[str, Any], inferred: bool) -> None:
        # References first: they refuse what the engine would compile without end.
        self.references = References(schema)
        self.engine = Engine(schema)
        self.burden = Burden(schema, self.references)
        self.is_light = is_light(schema, inferred=inferred)


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
    validator = Validator(schema, inferred, noun, shows_values)
    if not inferred:
        check_schema(schema)
        validator.compile()
    return validator


def compile_test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Make the function that says whether a value fits a schema from annotations, and no more.

    The value must be part of one that a validator has passed, or come from the author: its cost is
    not looked at.
    """

    @functools.cache
    def engine() -> Engine:
        return Engine(schema)

    classes = classes_of(schema) or frozenset()
    return lambda value: value.__class__ in classes or engine().fits(value)


def _never(_: Any) -> bool:
    return False
