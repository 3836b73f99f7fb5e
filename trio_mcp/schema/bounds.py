"""What a schema may be, before it is used.

A schema may come from anywhere, so it is looked at as data first: how deep, how large, whether
it is JSON at all. Then its dialect's metaschema has its say, and at last what no metaschema can
know: where references lead (never to the network, never in a circle that gets nowhere) and what
its regular expressions can cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trio_mcp.schema.errors import SchemaError
from trio_mcp.schema.keywords import REFERENCES, parts_of
from trio_mcp.schema.sentences import cut

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["check_schema", "check_size", "dialect_of"]

_DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
_VALUES_PER_SUBSCHEMA = 50
_LEVELS_PER_SUBSCHEMA = 3

Path = tuple[str | int, ...]


def check_schema(
    schema: Mapping[str, Any], *, max_depth: int = 64, max_subschemas: int = 2000
) -> None:
    """Check that a JSON Schema is valid, bounded and self-contained.

    Args:
        schema: The schema, as JSON. Its dialect is what `$schema` says, or 2020-12.
        max_depth: How many schemas may stand one within another.
        max_subschemas: How many schemas there may be in all.

    Raises:
        SchemaError: The schema is no JSON, is invalid, too large or too deep, is of an unknown
            dialect, refers to what is not in it or in a circle that consumes nothing, or holds
            a regular expression that is invalid or could take for ever.
    """
    check_size(schema, max_depth=max_depth, max_subschemas=max_subschemas)
    validator = dialect_of(schema)
    try:
        _check_metaschema(validator, schema)
        _References(validator, schema).check()
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    _check_patterns(schema)


def check_size(
    schema: Mapping[str, Any], *, max_depth: int = 64, max_subschemas: int = 2000
) -> None:
    """Check that a schema is JSON and within its bounds, and no more than that.

    Raises:
        SchemaError: It is not.
    """
    if not isinstance(schema, Mapping):
        raise SchemaError(f"a schema is a JSON object, not a {type(schema).__name__}")
    _check_json(schema, max_depth * _LEVELS_PER_SUBSCHEMA, max_subschemas * _VALUES_PER_SUBSCHEMA)
    count = 0
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        each, depth = waiting.pop()
        count += 1
        if count > max_subschemas:
            raise SchemaError(f"the schema holds more than {max_subschemas} subschemas")
        if depth > max_depth:
            raise SchemaError(f"the schema is nested more than {max_depth} levels deep")
        waiting.extend((part.schema, depth + 1) for part in parts_of(each))


def dialect_of(schema: Mapping[str, Any]) -> type[Validator]:
    """The jsonschema class for a schema's dialect.

    Raises:
        SchemaError: `$schema` names a dialect that is not supported.
    """
    import jsonschema

    name = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    known = _DIALECTS.get(name.rstrip("#")) if isinstance(name, str) else None
    if known is None:
        raise SchemaError(
            f"the dialect {cut(name)} is not supported; leave $schema out for 2020-12, or use "
            f"one of {', '.join(_DIALECTS)}"
        )
    validator: type[Validator] = getattr(jsonschema, known)
    return validator


# Size -----------------------------------------------------------------------------------------


def _check_json(schema: Any, max_levels: int, max_values: int) -> None:
    values = 0
    waiting = [(schema, 0)]
    while waiting:
        value, level = waiting.pop()
        values += 1
        if values > max_values:
            raise SchemaError(f"the schema holds more than {max_values} values")
        if level > max_levels:
            raise SchemaError(f"the schema is nested more than {max_levels} levels deep")
        if isinstance(value, Mapping):
            for key, each in value.items():
                if not isinstance(key, str):
                    raise SchemaError(f"the schema has the key {cut(key)}, which is no string")
                waiting.append((each, level + 1))
        elif isinstance(value, list):
            waiting.extend((each, level + 1) for each in value)
        elif not isinstance(value, str | int | float | bool | None):
            raise SchemaError(
                f"the schema holds a {type(value).__name__} ({cut(value)}), which JSON has not"
            )


def _walk(schema: Any) -> Iterator[tuple[Path, Any]]:
    """All the schemas in a schema, outermost first, with where they stand."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        path, each = waiting.pop()
        yield path, each
        waiting.extend((path + part.path, part.schema) for part in parts_of(each))


def _place(path: Path) -> str:
    return "/".join(["#", *map(str, path)])


# Validity -------------------------------------------------------------------------------------


def _check_metaschema(validator: type[Validator], schema: Mapping[str, Any]) -> None:
    from jsonschema.exceptions import best_match

    metaschema = validator(validator.META_SCHEMA)
    error = best_match(metaschema.iter_errors(schema))
    if error is not None:
        raise SchemaError(
            f"the schema is invalid at {_place(tuple(error.absolute_path))}: "
            f"{cut(error.instance)} does not fit {error.validator} {cut(error.validator_value)}"
        )


class _References:
    """Where the references of a schema lead.

    The same library that will resolve them in validation resolves them here, with nothing to
    fall back on but the schema itself.
    """

    def __init__(self, validator: type[Validator], schema: Mapping[str, Any]) -> None:
        import referencing
        import referencing.jsonschema

        uri = validator.META_SCHEMA.get("$schema", "")
        self._specification = referencing.jsonschema.specification_with(str(uri))
        self._schema = schema
        resource = self._specification.create_resource(schema)
        self._root = referencing.Registry().resolver_with_root(resource)
        # From each schema to those that look at the same value.
        self._edges: dict[int, list[Any]] = {}
        self._paths: dict[int, Path] = {}

    def check(self) -> None:
        waiting: list[tuple[Path, Any, Any]] = [((), self._schema, self._root)]
        while waiting:
            path, schema, resolver = waiting.pop()
            if id(schema) in self._edges or not isinstance(schema, Mapping):
                continue
            self._check_identity(path, schema)
            if path:
                resource = self._specification.create_resource(schema)
                resolver = resolver.in_subresource(resource)
            parts = list(parts_of(schema))
            targets = list(self._targets(path, schema, resolver))
            self._paths[id(schema)] = path
            self._edges[id(schema)] = [part.schema for part in parts if part.in_place]
            self._edges[id(schema)] += [target for target, _ in targets]
            waiting.extend((path + part.path, part.schema, resolver) for part in parts)
            waiting.extend((path, target, beyond) for target, beyond in targets)
        self._check_circles()

    def _check_identity(self, path: Path, schema: Mapping[str, Any]) -> None:
        if path and "$schema" in schema and schema["$schema"] != self._schema.get("$schema"):
            raise SchemaError(f"the schema at {_place(path)} changes the dialect with $schema")

    def _targets(self, path: Path, schema: Any, resolver: Any) -> Iterator[tuple[Any, Any]]:
        import referencing.exceptions

        for keyword in REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                resolved = resolver.lookup(reference)
            except (referencing.exceptions.Unresolvable, ValueError, LookupError):
                reason = (
                    "does not lead to anything in it"
                    if reference.startswith("#")
                    else "leads out of it, and nothing is ever fetched; copy what it names to $defs"
                )
                raise SchemaError(
                    f"the schema at {_place(path)} refers to {cut(reference)}, which {reason}"
                ) from None
            if not isinstance(resolved.contents, Mapping | bool):
                raise SchemaError(
                    f"the schema at {_place(path)} refers to {cut(reference)}, which is no schema"
                )
            yield resolved.contents, resolved.resolver

    def _check_circles(self) -> None:
        done: set[int] = set()
        for start in self._edges:
            trail: list[tuple[int, Iterator[Any]]] = [(start, iter(self._edges[start]))]
            entered = {start}
            while trail:
                here, nexts = trail[-1]
                following = next((id(each) for each in nexts if id(each) in self._edges), None)
                if following is None:
                    done.add(here)
                    entered.discard(here)
                    trail.pop()
                elif following in entered:
                    raise SchemaError(
                        f"the schema at {_place(self._paths[following])} refers to itself in a "
                        "circle that never gets to another value"
                    )
                elif following not in done:
                    entered.add(following)
                    trail.append((following, iter(self._edges[following])))


def _check_patterns(schema: Mapping[str, Any]) -> None:
    from trio_mcp.schema.patterns import longest_text

    for path, each in _walk(schema):
        if not isinstance(each, Mapping):
            continue
        patterns = list(each.get("patternProperties", ()))
        if isinstance(each.get("pattern"), str):
            patterns.append(each["pattern"])
        for pattern in patterns:
            try:
                longest_text(pattern)
            except SchemaError as error:
                raise SchemaError(f"the schema at {_place(path)}: {error}") from None
