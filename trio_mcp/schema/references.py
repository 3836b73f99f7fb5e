"""Where the references of a schema lead, found without ever fetching anything.

References make a schema a graph. The checks at registration, the count of the work that a value
makes, and the search for what refuses a value follow them by this module.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.subschemas import (
    IN_PLACE,
    REFERENCES,
    Path,
    parts_of,
    place_in_words,
    resolve_pointer,
    walk,
)

_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"

_DIALECTS: Final = {
    _NEWEST: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}

LONE_REFERENCES: Final = frozenset({"Draft7Validator", "Draft6Validator", "Draft4Validator"})
"""The dialects in which whatever stands beside `$ref` says nothing."""


def dialect_of(schema: Mapping[str, Any]) -> str:
    """The name of the class for a schema's dialect, which both libraries call the same."""
    name = schema.get("$schema", _NEWEST)
    known = _DIALECTS.get(name.rstrip("#")) if isinstance(name, str) else None
    if known is None:
        raise SchemaError(
            f"the dialect {shorten(name)} is not supported; leave $schema out for 2020-12, or use "
            f"one of {', '.join(_DIALECTS)}"
        )
    return known


_MOST_LOOKS: Final = 2000
"""So often a schema may look at one value, with everything followed that looks at it too."""

_HEAVY: Final = 100

_NUMERIC: Final = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}


class References:
    """The references of one schema that is JSON and within its bounds.

    Raises:
        SchemaError: A reference leads to nothing, to what is not a schema, or out of the schema; or
            references run in a circle that never gets to another value; or they multiply the
            looks at a value beyond all measure.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._dialect = dialect_of(schema)
        self._schema = schema
        self._paths: dict[int, Path] = {}
        self._targets: dict[int, list[Any]] = {}
        self._root = self._resolver()
        self._find(self._root)
        self.is_heavy = False
        """Whether even a small value may take long to check."""
        self._check_looks()

    def look_up(self, location: str) -> tuple[Mapping[str, Any], Path | None]:
        """The schema at a location that jsonschema-rs names, and its place, if that is known."""
        base, _, pointer = location.partition("#")
        try:
            if base.startswith("urn:trio-mcp:"):
                _, found = resolve_pointer(self._schema, f"#{pointer}")
            else:
                _, found, _ = self._look_up_one(f"{base}#{pointer}", self._root)
        except LookupError:
            return {}, None
        return found, self._paths.get(id(found))

    def in_place(self, schema: Any) -> list[Any]:
        """The schemas that look at the same value as a schema does, one step away."""
        targets = self._targets.get(id(schema), [])
        if targets and self._dialect in LONE_REFERENCES:  # what stands beside does not count
            return targets
        return [part for _, part in parts_of(schema, IN_PLACE)] + targets

    def _resolver(self) -> Any:
        """What looks references up; `None` if all are pointers, which need no library.

        It is the library by which jsonschema does it, with nothing to fall back on but the schema.
        """
        if all(_is_plain(each) for _, each in walk(self._schema)):
            return None
        import referencing
        import referencing.jsonschema

        uri = self._schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
        self._specification = referencing.jsonschema.specification_with(uri)
        resource = self._specification.create_resource(self._schema)
        return referencing.Registry().resolver_with_root(resource)

    def _find(self, root: Any) -> None:
        dialect = self._schema.get("$schema")
        waiting: list[tuple[Path | None, Any, Any]] = [((), self._schema, root)]
        while waiting:
            path, schema, resolver = waiting.pop()
            if not isinstance(schema, Mapping):
                continue
            if path is not None:
                self._paths.setdefault(id(schema), path)
            if id(schema) in self._targets:
                continue
            if path and schema.get("$schema", dialect) != dialect:
                place = place_in_words(path)
                raise SchemaError(f"the schema at {place} changes the dialect with $schema")
            if path and resolver is not None:
                resource = self._specification.create_resource(schema)
                resolver = resolver.in_subresource(resource)
            found = list(self._look_up(path or (), schema, resolver))
            self._targets[id(schema)] = [target for _, target, _ in found]
            # A target's own place is not the place of what refers to it.
            waiting.extend(found)
            waiting.extend(
                (None if path is None else path + within, part, resolver)
                for within, part in parts_of(schema)
            )

    def _look_up(
        self, path: Path, schema: Mapping[str, Any], resolver: Any
    ) -> Iterator[tuple[Path | None, Any, Any]]:
        for keyword in REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                found = self._look_up_one(reference, resolver)
                reason = "" if isinstance(found[1], Mapping | bool) else "is not a schema"
            except LookupError:
                reason = (
                    "does not lead to anything in it"
                    if reference.startswith("#")
                    else "leads out of it, and nothing is ever fetched; copy what it names to $defs"
                )
            if reason:
                place = place_in_words(path)
                raise SchemaError(
                    f"the schema at {place} refers to {shorten(reference)}, which {reason}"
                )
            yield found

    def _look_up_one(self, reference: str, resolver: Any) -> tuple[Path | None, Any, Any]:
        if resolver is None:
            path, target = resolve_pointer(self._schema, reference)
            return path, target, None
        import referencing.exceptions

        try:
            resolved = resolver.lookup(reference)
        except (referencing.exceptions.Unresolvable, ValueError):
            raise LookupError(reference) from None
        return None, resolved.contents, resolved.resolver

    def _check_looks(self) -> None:
        """Count from the innermost outwards how many schemas look at one value, and how long."""
        looks: dict[int, int] = {}
        weights: dict[int, int] = {}
        entered: set[int] = set()
        waiting: list[Any] = [schema for _, schema in walk(self._schema)][::-1]
        while waiting:
            here = waiting.pop()
            if id(here) in looks:
                continue
            nexts = self.in_place(here)
            uncounted = [part for part in nexts if id(part) not in looks]
            if not uncounted:
                looks[id(here)] = 1 + sum(looks[id(part)] for part in nexts)
                weights[id(here)] = _weight(here) + sum(weights[id(part)] for part in nexts)
                self.is_heavy = self.is_heavy or weights[id(here)] > _HEAVY
                if looks[id(here)] > _MOST_LOOKS:
                    raise SchemaError(
                        f"the schema at {self._where(here)} looks at one value more than "
                        f"{_MOST_LOOKS} times, with all its alternatives and references; "
                        "simplify it"
                    )
            elif id(here) in entered:
                raise SchemaError(
                    f"the schema at {self._where(here)} refers to itself in a circle that never "
                    "gets to another value"
                )
            else:  # it is counted when all below it are, and those lie on top of it until then
                entered.add(id(here))
                waiting += [here, *reversed(uncounted)]

    def _where(self, schema: Any) -> str:
        return place_in_words(self._paths.get(id(schema), ()))


def _weight(schema: Any) -> int:
    """How long a schema looks at one value, in units of about 50 ns, at worst."""
    if not isinstance(schema, Mapping):
        return 1
    enum, named = schema.get("enum"), schema.get("patternProperties")
    choices = enum if isinstance(enum, list) else ()
    slow = (
        len(_NUMERIC & schema.keys()) + sum(not isinstance(choice, str) for choice in choices) // 2
    )
    return 1 + 20 * slow + (len(named) if isinstance(named, Mapping) else 0)


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether a schema refers by pointers alone, and begins no resource of its own."""
    references = [schema[keyword] for keyword in REFERENCES if isinstance(schema.get(keyword), str)]
    return not isinstance(schema.get("$id", schema.get("id")), str) and all(
        reference == "#" or reference.startswith("#/") for reference in references
    )
