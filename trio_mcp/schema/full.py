"""The check of values that are not plain: by jsonschema-rs, within bounds, and with reasons."""

from collections.abc import Mapping
from typing import Any

from trio_mcp.schema.budget import (
    MOST_MATCHING,
    NO_JSON,
    OUT_OF_RANGE,
    TOO_MUCH,
    Refused,
    Size,
    budget,
    measure,
)
from trio_mcp.schema.engine import Engine
from trio_mcp.schema.errors import Problem
from trio_mcp.schema.explain import ErrorFormatter
from trio_mcp.schema.keywords import walk
from trio_mcp.schema.patterns import matching_time
from trio_mcp.schema.references import References
from trio_mcp.schema.refusals import Refusals

_MOST_BITS = 1024
_NATIVE_BITS = 63
_MOST_UNIQUE = (300_000, 200)
"""Values that are compared: large integers share one hash, so each is compared with each."""

_COMPARING = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("enum", "const", "uniqueItems"),
}


class FullValidator:
    """One schema, compiled. The arguments are those of `compile_validator`."""

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        self._formatter = ErrorFormatter(noun, shows_values)
        # References first: they refuse what the engine would compile without end.
        self._references = References(schema)
        self._engine = Engine(schema)
        self._refusals = Refusals(schema, self._engine, self._references)
        parts = [each for _, each in walk(schema) if isinstance(each, Mapping)]
        self._compares = any(not _COMPARING.isdisjoint(part) for part in parts)
        self._is_unique = any(part.get("uniqueItems") for part in parts)
        names = [pattern for part in parts for pattern in part.get("patternProperties", ())]
        self._matching = sum(map(matching_time, names))
        self._is_heavy = self._references.is_heavy or self._engine.has_large_patterns
        # Compile now, and not at the first value.
        assert (self._engine.fits_patiently if self._is_heavy else self._engine.fits) is not None

    def __call__(self, value: Any) -> Problem | None:
        try:
            size = measure(value)
            if self._fits(value, size):
                return None
            return self._formatter.explain(self._refusals.find(value, size))
        except Refused as error:
            return self._formatter.of_the_whole(error)
        except ValueError:  # a set, half a surrogate pair: nothing that came as JSON
            return self._formatter.of_the_whole(NO_JSON)

    def _fits(self, value: Any, size: Size) -> bool:
        if size.bits > _MOST_BITS and self._compares:
            raise OUT_OF_RANGE
        if (size.names + 8 * size.properties) * self._matching > MOST_MATCHING:
            raise TOO_MUCH
        if self._is_unique and size.values > _MOST_UNIQUE[size.bits > _NATIVE_BITS]:
            raise TOO_MUCH
        if size.is_small and size.bits <= _NATIVE_BITS and not self._is_heavy:
            return self._engine.fits(value)
        budget.begin(size)
        fits = self._engine.fits_patiently(value)
        if budget.is_spent:
            raise TOO_MUCH
        return fits
