"""Where the references of a schema lead, found without ever fetching anything.

References are what makes a schema a graph. Whoever walks along them (the checks at registration,
the count of the work that a value makes, the search for what refuses a value) asks here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trio_mcp.schema.dialects import LONE_REFERENCES, dialect_of
from trio_mcp.schema.keywords import (
    IN_PLACE,
    REFERENCES,
    Path,
    parts_of,
    place_in_words,
    resolve_pointer,
    walk,
)
from trio_mcp.schema.sentences import cut
from trio_mcp.wire.errors import SchemaError

__all__ = ["References"]

_MOST_LOOKS: Final = 2000
"""So often a schema may look at one value, with everything followed that looks at it too."""


class References:
    """The references of one schema.

    Args:
        schema: A schema that is JSON and within its bounds.

    Raises:
        SchemaError: A reference leads to nothing, to what is no schema, or out of the schema; or
            references run in a circle that never gets to another value; or they multiply the
            looks at a value beyond all measure.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._dialect = dialect_of(schema)
        self._schema = schema
        self._paths: dict[int, Path] = {}
        self._targets: dict[int, list[Any]] = {}
        self._find(self._resolver())
        self._check_looks()

    def targets(self, schema: Any) -> list[Any]:
        """The schemas that the references of a schema lead to."""
        return self._targets.get(id(schema), [])

    def path(self, schema: Any) -> Path | None:
        """Where a schema stands, if that is known."""
        return self._paths.get(id(schema))

    def in_place(self, schema: Any) -> list[Any]:
        """The schemas that look at the same value as a schema does, one step away."""
        targets = self.targets(schema)
        if self.is_lone(schema):
            return targets
        return [part for _, part in parts_of(schema, IN_PLACE)] + targets

    def is_lone(self, schema: Any) -> bool:
        """Whether a schema is a reference beside which nothing else counts."""
        return self._dialect in LONE_REFERENCES and bool(self.targets(schema))

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
        waiting: list[tuple[Path | None, Any, Any]] = [((), self._schema, root)]
        while waiting:
            path, schema, resolver = waiting.pop()
            if not isinstance(schema, Mapping):
                continue
            if path is not None:
                self._paths.setdefault(id(schema), path)
            if id(schema) in self._targets:
                continue
            self._check_dialect(path or (), schema)
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

    def _check_dialect(self, path: Path, schema: Mapping[str, Any]) -> None:
        if path and "$schema" in schema and schema["$schema"] != self._schema.get("$schema"):
            raise SchemaError(
                f"the schema at {place_in_words(path)} changes the dialect with $schema"
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
                reason = "" if isinstance(found[1], Mapping | bool) else "is no schema"
            except LookupError:
                reason = (
                    "does not lead to anything in it"
                    if reference.startswith("#")
                    else "leads out of it, and nothing is ever fetched; copy what it names to $defs"
                )
            if reason:
                place = place_in_words(path)
                raise SchemaError(
                    f"the schema at {place} refers to {cut(reference)}, which {reason}"
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
        """Count from the innermost outwards how many schemas look at one value."""
        looks: dict[int, int] = {}
        entered: set[int] = set()
        waiting = [schema for _, schema in walk(self._schema)][::-1]
        while waiting:
            here = waiting.pop()
            if id(here) in looks:
                continue
            nexts = self.in_place(here)
            uncounted = [each for each in nexts if id(each) not in looks]
            if not uncounted:
                looks[id(here)] = 1 + sum(looks[id(each)] for each in nexts)
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


def _is_plain(schema: Any) -> bool:
    """Whether a schema refers by pointers alone, and begins no resource of its own."""
    if not isinstance(schema, Mapping):
        return True
    references = [schema[each] for each in REFERENCES if isinstance(schema.get(each), str)]
    return not isinstance(schema.get("$id", schema.get("id")), str) and all(
        each == "#" or each.startswith("#/") for each in references
    )
