"""Whether a value fits a schema, and if not, why.

Three layers, from quick to thorough. What the compiled acceptor accepts is valid. Where a schema
is beyond the acceptor, jsonschema-rs may say yes, if it is installed and the schema is one on
which the two libraries cannot differ. Everything else goes to jsonschema, the authority, whose
errors become sentences.

jsonschema is run with a budget: each evaluation of a keyword costs one, so that a schema and a
value that are made for each other to explode end in a sentence, not in silence. Nothing is
compiled, and nothing heavy imported, before the first value that needs it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import islice
from typing import Any

from trio_mcp.schema.bounds import check_schema, dialect_of
from trio_mcp.schema.keywords import parts_of

__all__ = ["Validate", "compile_test", "compile_validator"]

Validate = Callable[[Any], str | None]
"""What validates: `None` for a valid value, else a sentence that says what is wrong."""

_BUDGET = 50_000
_BUDGET_PER_VALUE = 50
_MOST_ERRORS = 20


def compile_validator(
    schema: Mapping[str, Any],
    *,
    inferred: bool = False,
    noun: str = "argument",
    shows_values: bool = True,
) -> Validate:
    """Make the function that validates values against a schema.

    Args:
        schema: A JSON Schema; `$schema` says its dialect, which is 2020-12 if it does not.
        inferred: The schema comes from annotations or parameters of this room, so it need not
            be checked.
        noun: What the values within the value are called in sentences: 'argument' or 'result'.
        shows_values: Whether the sentences quote what came; they always tell its type.

    Returns:
        A function that returns `None` for a valid value and otherwise one or a few clear
        sentences: where, what was expected, what came. It never raises, and may be called from
        several threads.

    Raises:
        SchemaError: The schema is not acceptable, as `check_schema` says.

    Example:
        >>> validate = compile_validator({"properties": {"a": {"type": "number"}}})
        >>> validate({"a": "x"})
        "Argument 'a' must be a number, but a string came ('x')."
    """
    if not inferred:
        check_schema(schema)
    return _compile_lazily(schema, noun, shows_values)


def compile_test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Make the function that says whether a value fits a schema from annotations, and no more."""
    validate = compile_validator(schema, inferred=True)
    return lambda value: validate(value) is None


def _compile_lazily(schema: Mapping[str, Any], noun: str, shows_values: bool) -> Validate:
    """A validator that compiles its layers when the first value needs them."""
    accept: Callable[[Any], bool]
    explain: Validate

    def compile_and_accept(value: Any) -> bool:
        nonlocal accept
        accept = quick_test(schema)
        return accept(value)

    def compile_and_explain(value: Any) -> str | None:
        nonlocal explain
        explain = _Thorough(schema, noun, shows_values).validate
        return explain(value)

    def validate(value: Any) -> str | None:
        try:
            if accept(value):
                return None
        except (RecursionError, OverflowError, ValueError):
            pass  # jsonschema has the words for it
        return explain(value)

    accept, explain = compile_and_accept, compile_and_explain
    return validate


def quick_test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """The quickest function that is true only of valid values."""
    from trio_mcp.schema.accept import compile_acceptor

    return compile_acceptor(schema) or _accelerator(schema) or _never


def _never(_: Any) -> bool:
    return False


# The accelerator ------------------------------------------------------------------------------

# Keywords on which jsonschema and jsonschema-rs agree for every JSON value. Patterns are of
# another dialect there, and numbers are compared in another way where they are very large or not
# whole: hence no pattern, no multipleOf, no uniqueItems, no enum.
_AGREED = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "const",
    "enum",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
}


def _accelerator(schema: Mapping[str, Any]) -> Callable[[Any], bool] | None:
    if not _agreed(schema):
        return None
    try:
        import jsonschema_rs
    except ImportError:
        return None
    accelerated = jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=False)
    test: Callable[[Any], bool] = accelerated.is_valid
    return test


def _agreed(schema: Any) -> bool:
    """Whether both libraries must agree on the schema; references are left out for their cost."""
    if not isinstance(schema, Mapping):
        return True
    for keyword, value in schema.items():
        if keyword not in _AGREED:
            return False
        choices = value if keyword == "enum" else [value] if keyword == "const" else []
        if any(not isinstance(each, str | bool | None) for each in choices):
            return False
    return all(_agreed(part.schema) for part in parts_of(schema))


# The authority --------------------------------------------------------------------------------


class _Exhausted(Exception):
    """The budget is spent."""


_budget = threading.local()


class _Thorough:
    """jsonschema with a budget, and with words for its errors."""

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        from referencing import Registry

        from trio_mcp.schema.explain import ErrorFormatter
        from trio_mcp.schema.patterns import longest_text

        dialect = dialect_of(schema)
        # Named, the dialect would be looked up again within, and found without a budget.
        schema = {key: value for key, value in schema.items() if key != "$schema"}
        self._validator = _budgeted(dialect)(schema, registry=Registry())
        self._formatter = ErrorFormatter(noun, shows_values)
        self._longest_name = min(map(longest_text, _name_patterns(schema)), default=None)

    def validate(self, value: Any) -> str | None:
        size, longest_name = _measure(value)
        if self._longest_name is not None and longest_name > self._longest_name:
            return self._formatter.long_name(self._longest_name)
        before = getattr(_budget, "left", None)
        _budget.left = _BUDGET + _BUDGET_PER_VALUE * size
        try:
            errors = list(islice(self._validator.iter_errors(value), _MOST_ERRORS))
            return self._formatter.explain(errors) if errors else None
        except _Exhausted:
            return self._formatter.too_much()
        except RecursionError:
            return self._formatter.too_deep()
        except (OverflowError, ValueError):
            # jsonschema divides and prints numbers, and some are too large for that.
            return self._formatter.out_of_range()
        finally:
            _budget.left = before


def _measure(value: Any) -> tuple[int, int]:
    """How many values there are in a value, and the length of its longest property name."""
    size, longest = 0, 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        size += 1
        if isinstance(each, dict):
            longest = max(longest, max(map(len, map(str, each)), default=0))
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return size, longest


def _name_patterns(schema: Any) -> Iterator[str]:
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or not isinstance(each, Mapping):
            continue
        seen.add(id(each))
        yield from each.get("patternProperties", ())
        waiting.extend(part.schema for part in parts_of(each))


@functools.cache
def _budgeted(dialect: Any) -> Any:
    """A dialect's class whose keywords spend from the budget."""
    from jsonschema import validators

    keywords = {**dialect.VALIDATORS}
    keywords["properties"] = functools.partial(_properties, keywords["properties"])
    keywords["pattern"] = _pattern
    keywords["uniqueItems"] = _unique_items
    counted = {name: _counted(evaluate) for name, evaluate in keywords.items()}
    return validators.extend(dialect, validators=counted)  # type: ignore[no-untyped-call]


def _counted(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def spend_and_evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _budget.left -= 1
        if _budget.left < 0:
            raise _Exhausted
        return evaluate(validator, value, instance, schema)

    return spend_and_evaluate


def _properties(
    evaluate: Callable[..., Any], validator: Any, properties: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    """As jsonschema's own, which does not say which property it was that is not allowed."""
    from jsonschema import ValidationError

    if validator.is_type(instance, "object"):
        for name, each in properties.items():
            if each is False and name in instance:
                yield ValidationError("is not allowed", path=[name])
            else:
                yield from evaluate(validator, {name: each}, instance, schema)


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    """As jsonschema's own, on texts that are short enough for it."""
    from jsonschema import ValidationError

    from trio_mcp.schema.patterns import compile_bounded

    if validator.is_type(instance, "string") and not compile_bounded(pattern)(instance):
        yield ValidationError("does not match")


def _unique_items(validator: Any, unique: Any, instance: Any, _: Any) -> Iterator[Any]:
    """As jsonschema's own, without comparing each item with each."""
    from jsonschema import ValidationError

    if not unique or not validator.is_type(instance, "array"):
        return
    if len(set(map(_identity, instance))) < len(instance):
        yield ValidationError("has an item twice")


def _identity(value: Any) -> Hashable:
    """What is equal for equal JSON values, and only for those: 1 is 1.0, and True is neither."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("array", tuple(map(_identity, value)))
    if isinstance(value, dict):
        return ("object", frozenset((key, _identity(each)) for key, each in value.items()))
    return value  # type: ignore[no-any-return]
