"""jsonschema-rs, as this room uses it: whether a value fits a schema, and if not, what is wrong.

It never fetches a reference, and is imported by the first schema that needs it (10 to 25 ms).

Alternatives (`anyOf`, `oneOf`) are a single yes or no when errors are looked for: all that is wrong
in each of them would be too much, and without end where they recur. So is what `unevaluated...`
says, which depends on them.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from trio_mcp.schema.budget import LARGE_PATTERNS, PLACE, TURNS
from trio_mcp.schema.keywords import Path, with_parts
from trio_mcp.schema.patterns import LARGEST, Test, pattern_size, patterns_of
from trio_mcp.schema.plain import WORDS
from trio_mcp.schema.references import dialect_of
from trio_mcp.wire.errors import SchemaError

_URI: Final = "urn:trio-mcp:schema"


class Engine:
    """A checked schema as jsonschema-rs compiles it: the whole of it, and parts of it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._dialect = dialect_of(schema)
        self._schema = dict(schema)
        self._tests: dict[tuple[Any, ...], Test] = {}
        self._finders: dict[Path, Any] = {}
        sizes = [pattern_size(pattern) for _, pattern in patterns_of(schema)]
        self.has_large_patterns = any(sizes)
        self._patient = {**TURNS, **(LARGE_PATTERNS if any(sizes) else {})}

    @functools.cached_property
    def fits(self) -> Test:
        """Whether a value fits, as quickly as can be."""
        test: Test = self._compile(self._schema, {}).is_valid
        return test

    @functools.cached_property
    def fits_patiently(self) -> Test:
        """The same, with turns for other threads, and within the budget."""
        return self._test((), _reference(()))

    def errors(self, place: Path, value: Any, *, every: bool) -> list[Any]:
        """What is wrong with a value by the schema at a place; the first error, or every one."""
        import jsonschema_rs

        if place not in self._finders:
            keywords = {**self._patient, **self._opaque}
            self._finders[place] = self._compile(_reference(place), keywords, self._marked)
        if every:
            return list(self._finders[place].iter_errors(value))
        try:
            self._finders[place].validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def test(self, place: Path, keyword: str = "", members: int = 0) -> Test:
        """The test that the schema at a place makes, or the alternatives of a keyword in it."""
        schema = _reference(place)
        if keyword:
            schema = {keyword: [_reference((*place, keyword, index)) for index in range(members)]}
        return self._test((*place, keyword), schema)

    def _test(self, key: tuple[Any, ...], schema: dict[str, Any]) -> Test:
        if key not in self._tests:
            self._tests[key] = self._compile(schema, self._patient, self._marked).is_valid
        return self._tests[key]

    @functools.cached_property
    def _opaque(self) -> dict[str, Any]:
        """The keywords that are a single yes or no."""
        engine = self

        class Opaque:
            def __init__(self, parent: dict[str, Any], wanted: Any, path: list[Any]) -> None:
                self._place = parent.get(PLACE)
                self._keyword, self._members = "", 0
                if path[-1] in _ALTERNATIVES:
                    self._keyword, self._members = path[-1], len(wanted)

            def validate(self, value: Any) -> None:
                # A schema that only a reference leads to has no place.
                if self._place is not None and not engine.test(
                    tuple(self._place), self._keyword, self._members
                )(value):
                    raise ValueError

        return dict.fromkeys((*_ALTERNATIVES, *_UNEVALUATED), Opaque)

    @functools.cached_property
    def _marked(self) -> Any:
        """A registry with the schema, in which every schema has its place."""
        import jsonschema_rs

        draft = getattr(jsonschema_rs, self._dialect.removesuffix("Validator"))
        return jsonschema_rs.Registry([(_URI, _mark(self._schema, ()))], draft=draft)

    def _compile(self, schema: Any, keywords: dict[str, Any], registry: Any = None) -> Any:
        import jsonschema_rs

        try:
            return getattr(jsonschema_rs, self._dialect)(
                schema,
                registry=registry,
                offline=True,
                validate_formats=False,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=LARGEST),
                keywords=keywords or None,
            )
        except ValueError as error:
            message = str(getattr(error, "message", error))
            raise SchemaError(f"the schema is invalid: {message[:200]}") from None


_ALTERNATIVES: Final = ("anyOf", "oneOf")
_QUICK: Final = {"type", "minLength", "maxLength"}
"""Keywords beside which others need no turn: a million values take 10 ms."""
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")


def _reference(path: Path) -> dict[str, Any]:
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    return {"$ref": f"{_URI}#" + "".join(f"/{quote(step, safe='')}" for step in steps)}


def _mark(schema: Any, place: Path) -> Any:
    if not isinstance(schema, Mapping) or schema.keys() - WORDS <= _QUICK:
        return schema
    whole = with_parts(schema, lambda within, part: _mark(part, place + within))
    return {**whole, PLACE: [*place]}
