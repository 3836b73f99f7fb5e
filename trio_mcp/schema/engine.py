"""jsonschema-rs, as this room uses it: whether a value fits a schema, and if not, what is wrong.

It never fetches a reference, and is imported by the first schema that needs it (10 to 25 ms).

It cannot be interrupted, and lets no other thread run. So where a check may take long, every schema
has a keyword written in Python: there other threads get their turn, and the check ends once its
budget of processor time is spent. What would take long in a single keyword is refused before.

Alternatives (`anyOf`, `oneOf`) are a single yes or no when errors are looked for: all that is wrong
in each of them would be too much, and without end where they recur. So is what `unevaluated...`
says, which depends on them.
"""

import functools
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from attrs import define

from trio_mcp.schema.bounds import (
    LARGEST,
    Test,
    matching_time,
    pattern_size,
    pattern_test,
    patterns_of,
)
from trio_mcp.schema.references import dialect_of
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.subschemas import WORDS, Path, with_parts

_PLACE: Final = "x-trio-mcp-place"
"""The keyword that is added to schemas, with the place where each stands."""

MOST_MATCHING: Final = 70e6  # nanoseconds in which nothing else runs
_DEEPEST: Final = 200
"""So deep a value may be nested. Far beyond it, jsonschema-rs overruns the stack and crashes."""
_MOST_VALUES: Final = 10_000_000
_SMALL: Final = (2000, 1_000_000)  # values and characters that are checked on an event loop
_SECONDS: Final = (0.05, 5.0)  # of processor time, for small values and for large ones
_LOOKS: Final = 64  # between two looks at the clock
_PLAIN: Final = frozenset({float, bool, type(None)})


class Refused(Exception):
    """A value is not checked against its schema; the text says what it is instead."""


# Texts, and not exceptions: one that is raised again and again keeps what each frame held.
TOO_MUCH: Final = "too much work to check against the schema; send less, or nest it less deeply"
TOO_DEEP: Final = "nested too deeply to be checked"
OUT_OF_RANGE: Final = "not valid: a number is out of range"
_NO_JSON: Final = "not JSON: something in it is of another type, or no Unicode"
_UNKNOWN: Final = "Unsupported type: "
"""How the engine begins to say of which type a value is that is not JSON."""


def not_json(error: ValueError) -> str:
    """Say why the engine does not take a value for JSON."""
    kind = str(error).partition(_UNKNOWN)[2]
    return f"not JSON, which has no type {kind}" if kind else _NO_JSON


@define
class Size:
    """How large a value is."""

    values: int = 0
    characters: int = 0
    properties: int = 0
    names: int = 0
    """The characters of the names in objects."""
    bits: int = 0
    """Those of the largest integer."""

    @property
    def is_small(self) -> bool:
        """Whether an event loop may wait for its check."""
        return self.values <= _SMALL[0] and self.characters <= _SMALL[1]


def measure(value: Any) -> Size:
    """Count a value; raise `Refused` beyond 200 levels, or more values than can be checked."""
    size = Size()
    levels = [iter((value,))]
    while levels:
        for part in levels[-1]:
            kind = part.__class__
            if kind is str:
                size.characters += len(part)
            elif kind in _PLAIN:
                continue
            elif kind is int:
                if not -(2**63) < part < 2**63:
                    size.bits = max(size.bits, part.bit_length())
            elif isinstance(part, dict | list | tuple):
                if len(levels) > _DEEPEST:
                    raise Refused(TOO_DEEP)
                size.values += len(part)
                if size.values > _MOST_VALUES:
                    raise Refused(TOO_MUCH)
                if isinstance(part, dict):
                    size.properties += len(part)
                    size.names += sum(len(name) for name in part if isinstance(name, str))
                    part = part.values()
                levels.append(iter(part))
                break
        else:
            levels.pop()
    return size


class _Budget(threading.local):
    """The processor time that is left for the check that a thread makes."""

    _end = 0.0
    _looks = 0
    is_spent = False

    def begin(self, size: Size) -> None:
        self._end = time.thread_time() + _SECONDS[not size.is_small]
        self._looks = _LOOKS
        self.is_spent = False

    def look(self, looks: int = 1) -> None:
        """Give other threads a turn now and then; raise `ValueError` once the budget is spent."""
        self._looks -= looks
        if self._looks < 0:
            self._looks = _LOOKS
            self.is_spent = self.is_spent or time.thread_time() > self._end
        if self.is_spent:
            raise ValueError


budget: Final = _Budget()


class _Turn:
    """The keyword that demands nothing, at which others get their turn."""

    def __init__(self, parent: dict[str, Any], wanted: Any, path: list[Any]) -> None:
        pass

    def validate(self, value: Any) -> None:
        budget.look()


class _Large:
    """The keyword `pattern` where patterns are large."""

    def __init__(self, parent: dict[str, Any], pattern: str, path: list[Any]) -> None:
        self._fits = pattern_test(pattern, LARGEST)
        self._time = matching_time(pattern)

    def validate(self, value: Any) -> None:
        if not isinstance(value, str):
            return
        budget.look(_LOOKS)
        most = len(value) if value.isascii() else 4 * len(value)  # bytes of UTF-8
        if most * self._time > MOST_MATCHING:
            budget.is_spent = True
            raise ValueError
        if not (self._fits and self._fits(value)):
            raise ValueError


_LARGE_PATTERNS: Final[dict[str, Any]] = {"pattern": _Large}
_TURNS: Final[dict[str, Any]] = {_PLACE: _Turn}
"""The keywords of a check that may take long."""


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
        self._patient = {**_TURNS, **(_LARGE_PATTERNS if any(sizes) else {})}

    @functools.cached_property
    def fits(self) -> Test:
        """Whether a value fits, as quickly as can be."""
        test: Test = self._compile(self._schema, {}).is_valid
        return test

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
        """The test that the schema at a place makes, or the alternatives of a keyword in it.

        It gives other threads turns, and keeps within the budget.
        """
        key = (*place, keyword)
        if key not in self._tests:
            schema = _reference(place)
            if keyword:
                schema = {keyword: [_reference((*key, index)) for index in range(members)]}
            self._tests[key] = self._compile(schema, self._patient, self._marked).is_valid
        return self._tests[key]

    @functools.cached_property
    def _opaque(self) -> dict[str, Any]:
        """The keywords that are a single yes or no."""
        engine = self

        class Opaque:
            def __init__(self, parent: dict[str, Any], wanted: Any, path: list[Any]) -> None:
                self._place = parent.get(_PLACE)
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
    return {**whole, _PLACE: [*place]}
