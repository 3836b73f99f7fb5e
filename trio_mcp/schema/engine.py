"""jsonschema-rs, as this room uses it: whether a value fits a schema, a part or a keyword of it.

It never fetches a reference, and matches patterns in linear time. It is imported when the first
schema needs it, which takes 10 to 25 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from trio_mcp.schema.dialects import dialect_of
from trio_mcp.schema.keywords import Path, walk, with_parts
from trio_mcp.schema.sentences import cut
from trio_mcp.wire.errors import SchemaError

__all__ = ["Engine", "Test", "matches", "pattern_size", "patterns_of"]

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
        self._tests: dict[tuple[Any, ...], Test] = {}
        sizes = [pattern_size(pattern) for _, pattern in patterns_of(schema)]
        self._keywords: dict[str, Any] = {"pattern": _Pattern} if any(sizes) else {}
        self.fits: Test = self._compile(self._schema).is_valid

    def of_part(self, path: Path) -> Test:
        """The test that the schema makes which stands at a place in the schema."""
        # A part on its own would lose what its references lead to.
        return self._test((path,), lambda: _reference(path))

    def of_keyword(self, path: Path, schema: Mapping[str, Any], keyword: str) -> Test:
        """The test that one keyword makes of the schema at a place, without its neighbours."""
        return self._test((path, keyword), lambda: _alone(path, schema, keyword))

    def _test(self, key: tuple[Any, ...], schema: Callable[[], dict[str, Any]]) -> Test:
        if key not in self._tests:
            self._tests[key] = self._compile(schema(), self._registry).is_valid
        return self._tests[key]

    @functools.cached_property
    def _registry(self) -> Any:
        import jsonschema_rs

        draft = getattr(jsonschema_rs, self._dialect.removesuffix("Validator"))
        return jsonschema_rs.Registry([(_URI, self._schema)], draft=draft)

    def _compile(self, schema: dict[str, Any], registry: Any = None) -> Any:
        import jsonschema_rs

        try:
            return getattr(jsonschema_rs, self._dialect)(
                schema,
                registry=registry,
                offline=True,
                validate_formats=False,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=_LARGEST),
                keywords=self._keywords or None,
            )
        except ValueError as error:
            message = str(getattr(error, "message", error))
            raise SchemaError(f"the schema is invalid: {message[:200]}") from None


def _reference(path: Path) -> dict[str, str]:
    steps = [str(each).replace("~", "~0").replace("/", "~1") for each in path]
    return {"$ref": f"{_URI}#" + "".join(f"/{quote(each, safe='')}" for each in steps)}


def _alone(path: Path, schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    """A keyword of a schema, and of its neighbours no more than what it takes its meaning from."""
    beside: Iterable[str] = _BESIDE.get(keyword, ())
    if keyword.startswith("exclusive") and schema[keyword] is not True:
        beside = ()  # it is only Draft 4 where it says how another keyword is meant
    said = {each: schema[each] for each in (keyword, *beside) if each in schema}

    def replaced(within: Path, _: Any) -> Any:
        is_other = within[0] != keyword or keyword == "dependencies"
        return True if is_other else _reference((*path, *within))

    return with_parts(said, replaced)


_BESIDE: Final[dict[str, tuple[str, ...]]] = {
    "contains": ("minContains", "maxContains"),
    "exclusiveMinimum": ("minimum",),
    "exclusiveMaximum": ("maximum",),
    "additionalProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "additionalItems": ("items",),
}


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


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern that has been accepted is found in a text."""
    test = _pattern_test(pattern, _LARGEST)
    return test is not None and test(text)


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
