"""jsonschema-rs, as this room uses it: whether a value fits a schema, and where it does not.

It never fetches a reference and matches patterns in linear time. For a failed alternative, its own
error would tell everything that is wrong in every branch, which for alternatives that recur is
without bound; so when errors are asked for, it is only told yes or no about alternatives.

It is imported when the first schema needs it, which takes 10 to 25 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from attrs import frozen

from trio_mcp.schema.dialects import dialect_of
from trio_mcp.schema.keywords import Path, walk
from trio_mcp.schema.sentences import cut
from trio_mcp.wire.errors import SchemaError

__all__ = ["ALTERNATIVES", "Engine", "Test", "pattern_size", "patterns_of"]

ALTERNATIVES: Final = ("anyOf", "oneOf")

Test = Callable[[Any], bool]
"""Whether a value fits."""

_SMALLEST: Final = 1024
_LARGEST: Final = 1024 * 1024
_URI: Final = "urn:trio-mcp:schema"


class Engine:
    """The tests that one schema makes.

    Args:
        schema: A schema that has been checked.

    Raises:
        SchemaError: jsonschema-rs does not take it.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._dialect = dialect_of(schema)
        self._schema = dict(schema)
        self._parts: dict[tuple[Path, str], Any] = {}
        sizes = [pattern_size(pattern) for _, pattern in patterns_of(schema)]
        self._keywords: dict[str, Any] = {"pattern": _Pattern} if any(sizes) else {}
        self.fits: Test = self._compile(self._schema).is_valid

    def fits_part(self, path: Path, value: Any) -> bool:
        """Whether a value fits the schema at a place in the schema."""
        return bool(self._part(path).is_valid(value))

    def errors(self, path: Path, value: Any, *, first: bool) -> list[Any]:
        """What is wrong with a value by the schema at a place in the schema.

        Args:
            path: The place.
            value: The value; each error comes with a copy of the part of it that is wrong.
            first: Whether the first error is enough.
        """
        import jsonschema_rs

        part = self._part(path, explains=True)
        if not first:
            return list(part.iter_errors(value))
        try:
            part.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def alone(self, keywords: dict[str, Any]) -> Test:
        """The test that keywords make which hold no references."""
        test: Test = self._compile(keywords).is_valid
        return test

    def fits_alternatives(self, keyword: str, path: Path, members: list[Any], value: Any) -> bool:
        """Whether a value fits the alternatives at a place, as `anyOf` or `oneOf` has it."""
        key = (path, keyword)
        if key not in self._parts:
            schema = {keyword: [_reference((*path, index)) for index in range(len(members))]}
            self._parts[key] = self._compile(schema, registry=self._registry)
        return bool(self._parts[key].is_valid(value))

    def _part(self, path: Path, explains: bool = False) -> Any:
        key = (path, "errors" if explains else "test")
        if key not in self._parts:
            ours = ALTERNATIVES if explains else ()
            keywords = {each: functools.partial(_Alternatives, self, each) for each in ours}
            # A part on its own would lose what its references lead to.
            self._parts[key] = self._compile(_reference(path), keywords, self._registry)
        return self._parts[key]

    @functools.cached_property
    def _registry(self) -> Any:
        import jsonschema_rs

        draft = getattr(jsonschema_rs, self._dialect.removesuffix("Validator"))
        return jsonschema_rs.Registry([(_URI, self._schema)], draft=draft)

    def _compile(
        self, schema: dict[str, Any], keywords: Mapping[str, Any] = {}, registry: Any = None
    ) -> Any:
        import jsonschema_rs

        try:
            return getattr(jsonschema_rs, self._dialect)(
                schema,
                registry=registry,
                offline=True,
                validate_formats=False,
                mask="it",  # or the message of each error would quote all of the value
                pattern_options=jsonschema_rs.RegexOptions(size_limit=_LARGEST),
                keywords={**self._keywords, **keywords} or None,
            )
        except ValueError as error:
            message = str(getattr(error, "message", error))
            raise SchemaError(f"the schema is invalid: {message[:200]}") from None


@frozen
class _Alternatives:
    """The keywords `anyOf` and `oneOf` where errors are asked for: they end here."""

    _engine: Engine
    _keyword: str
    _schema: Mapping[str, Any]
    _members: list[Any]
    _path: list[str | int]

    def validate(self, value: Any) -> None:
        path, members = tuple(self._path), self._members
        if not self._engine.fits_alternatives(self._keyword, path, members, value):
            raise ValueError


def _reference(path: Path) -> dict[str, str]:
    steps = [str(each).replace("~", "~0").replace("/", "~1") for each in path]
    return {"$ref": f"{_URI}#" + "".join(f"/{quote(each, safe='')}" for each in steps)}


class _Pattern:
    """The keyword `pattern` where a pattern is large: matched by a call back into Python.

    jsonschema-rs never lets go of the interpreter by itself. Here it does between two texts, so
    that other threads, and with them the event loop, get their turn.
    """

    def __init__(self, _: Any, pattern: str, path: list[Any]) -> None:
        self._fits = _pattern_test(pattern, _LARGEST)

    def validate(self, value: Any) -> None:
        if not (self._fits and self._fits(value)):
            raise ValueError


# Patterns -------------------------------------------------------------------------------------


def patterns_of(schema: Any) -> Iterator[tuple[Path, str]]:
    """All the regular expressions in a schema, with the place of the schema that has them."""
    for path, each in walk(schema):
        if not isinstance(each, Mapping):
            continue
        named = each.get("patternProperties")
        yield from ((path, name) for name in (named if isinstance(named, Mapping) else ()))
        if isinstance(each.get("pattern"), str):
            yield path, each["pattern"]


@functools.lru_cache(maxsize=1024)
def pattern_size(pattern: str) -> int:
    """How large a pattern is once it is compiled, in bytes; 0 if that is of no importance.

    Matching takes linear time, but what a character costs grows with this size. Up to 1 KiB there
    are so few states that the engine remembers all of them, and then a character costs nothing to
    speak of.

    Raises:
        SchemaError: It is no regular expression, or none that is matched in linear time, or it
            is too large.
    """
    size = _SMALLEST
    while size <= _LARGEST:
        if _pattern_test(pattern, size):
            return 0 if size == _SMALLEST else size
        size *= 2
    import jsonschema_rs

    # How far too large it is, is not found out: to compile it takes the longer, the larger it is.
    if _pattern_test(pattern, 4 * _LARGEST):
        reason = "is not accepted: it is too large; use fewer or smaller repeats"
    elif _pattern_test(pattern, _LARGEST, jsonschema_rs.FancyRegexOptions):
        reason = (
            "is not accepted: what looks ahead or behind, or refers back, cannot be matched in "
            "linear time; write it without, or check that in the function"
        )
    else:
        reason = "is no regular expression" + (", or far too large" if "}" in pattern else "")
    raise SchemaError(f"the pattern {cut(pattern)} {reason}")


def _pattern_test(pattern: str, size: int, engine: Any = None) -> Test | None:
    """Compile a pattern, if it is one and no larger than a size."""
    import jsonschema_rs

    options = (engine or jsonschema_rs.RegexOptions)(size_limit=size)
    try:
        return jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=options
        ).is_valid
    except ValueError:
        return None
