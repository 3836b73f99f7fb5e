"""Pydantic's types: it decides on their values, makes their schemas, and writes their JSON.

Pydantic is never imported here: an author who annotates with its types has done so already.

Its models check values by rules of their own (aliases, validators, conversions), which no JSON
Schema has in full. So what Pydantic decides is not checked against the published schema: it gets
the JSON, and its errors become sentences like all others. It does not let other threads run while
it validates, and it tries each member of a recursive union at each level, so the work is counted
before.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from trio_mcp.schema.constraints import needs_pydantic
from trio_mcp.schema.errors import ConversionError
from trio_mcp.schema.fields import UNIONS
from trio_mcp.schema.sentences import describe, join_path, subject
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.jsonrpc import encode
from trio_mcp.wire.subschemas import parts_of, references_in, walk, with_parts

if TYPE_CHECKING:
    from trio_mcp.schema.references import References

_MOST_WORK: Final = 250_000
"""Before others get their turn; the unit is about 0.1 µs."""
_OBJECT, _ARRAY, _SCALAR, _PER_CHARACTER = 10, 2, 1, 0.02
_LEFT_OUT, _COPIED = 1, 12  # for each field of a model that is not there
_IN_VAIN: Final = 12

_MOST_SENTENCES: Final = 3
_MOST_REASONS: Final = 500
"""Pydantic tells all of them or none, and holds up everything else meanwhile."""


def is_model(annotation: Any) -> bool:
    """Whether Pydantic decides on the values of an annotation.

    These are its classes, unions with one of them, and what has a rule of Pydantic's in
    `Annotated` that JSON Schema does not have, such as a validator or a discriminator.
    """
    if not hasattr(sys.modules.get("pydantic"), "TypeAdapter"):
        return False
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        kind, *metadata = typing.get_args(annotation)
        return is_model(kind) or needs_pydantic(metadata)
    if origin in UNIONS:
        members = [member for member in typing.get_args(annotation) if member is not type(None)]
        return any(map(_mentions_model, members)) and (
            len(members) == 1 or _adapter_or_error(annotation)[1] is None
        )
    kind = origin or annotation
    return isinstance(kind, type) and (
        hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__pydantic_validator__")
    )


def is_old_model(kind: type) -> bool:
    """Whether a class is a model as Pydantic 1 had them."""
    return any(
        base.__name__ == "BaseModel" and base.__module__ in ("pydantic.main", "pydantic.v1.main")
        for base in kind.__mro__
    )


def _mentions_model(annotation: Any) -> bool:
    return is_model(annotation) or any(map(_mentions_model, typing.get_args(annotation)))


def _adapter_or_error(annotation: Any) -> tuple[Any, Exception | None]:
    try:
        return sys.modules["pydantic"].TypeAdapter(annotation), None
    except _mistakes() as error:
        return None, error


def _mistakes() -> tuple[type[Exception], ...]:
    """What Pydantic raises for types that it can make nothing of."""
    import pydantic

    # An `ImportError` says which package a type needs, as that of email addresses does.
    return pydantic.PydanticUserError, pydantic.PydanticUndefinedAnnotation, ImportError


class Model:
    """What Pydantic makes of an annotation that `is_model`; `SchemaError` if it cannot (yet)."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._adapter, error = _adapter_or_error(annotation)
        if error is not None:
            raise _schema_error(annotation, error)

    def schema(self, *, output: bool) -> dict[str, Any]:
        """The JSON Schema of what it accepts, or of what it returns, in Pydantic's words."""
        mode: Any = "serialization" if output else "validation"
        try:
            # Of several at once, definitions are given by reference, as where they are shared.
            schemas, shared = self._adapter.json_schemas(
                [("it", mode, self._adapter)], schema_generator=_generator()
            )
        except _mistakes() as error:
            raise _schema_error(self._annotation, error) from error
        return {**schemas["it", mode], "$defs": shared.get("$defs", {})}

    def read(self, value: Any) -> Any:
        """Make a Python value of a JSON value, or raise `ConversionError`."""
        try:
            text = encode(value)
        except TypeError:
            raise ConversionError("JSON", value) from None
        harmless = _MOST_WORK // (_OBJECT + self._most_defaults)
        if (self._branching > 1 or len(text) > harmless) and self._is_much(value):
            raise ConversionError("less, or nested less deeply, to be checked at once", value)
        try:
            return self._adapter.validate_json(text)
        except sys.modules["pydantic"].ValidationError as error:
            raise RefusedByModel(value, error) from None

    def write(self, value: Any) -> Any:
        """Make JSON of a Python value, or raise `TypeError`."""
        try:
            # What is of another type than its field is found by the output schema.
            return self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except Exception as error:  # of a serializer, or a computed field
            name = type(value).__name__
            raise TypeError(f"a value of type {name} cannot be turned into JSON") from error

    def _is_much(self, value: Any) -> bool:
        work: float = 0
        # Where members of a union do not fit, each leaves an error behind.
        waiting = [(value, self._root, 1 if self._branching == 1 else _IN_VAIN)]
        while waiting and work < _MOST_WORK:
            each, node, times = waiting.pop()
            if isinstance(each, dict):
                there = min(len(each) / (node.properties or 1), 1)
                work += (_OBJECT + (1 - there) * node.defaults) * times
                inner = times * self._branching
                waiting.extend((part, node.at(name), inner) for name, part in each.items())
            elif isinstance(each, list):
                work += _ARRAY * times
                waiting.extend((part, node.at(None), times) for part in each)
            else:
                text = len(each) * _PER_CHARACTER if isinstance(each, str) else 0
                work += (_SCALAR + text) * times
        return work >= _MOST_WORK

    @functools.cached_property
    def _schema(self) -> dict[str, Any]:
        return self.schema(output=False)

    @functools.cached_property
    def _branching(self) -> int:
        return _branching(self._schema)

    @functools.cached_property
    def _most_defaults(self) -> int:
        """What the defaults of the model cost that has the most."""
        return max(_defaults(part.get("properties", {}).values()) for _, part in walk(self._schema))

    @functools.cached_property
    def _root(self) -> _CostNode:
        from trio_mcp.schema.references import References  # few values are large

        return _CostNode([self._schema], References(self._schema), {})


class _CostNode:
    """The schemas that look at one value, and what it costs if its properties are left out."""

    def __init__(
        self, schemas: list[Any], references: References, known: dict[Any, _CostNode]
    ) -> None:
        self._references, self._known = references, known
        self._schemas = [schema for schema in schemas if isinstance(schema, Mapping)]
        for schema in self._schemas:  # the loop goes on with them
            alike = references.in_place(schema)
            self._schemas += [part for part in alike if isinstance(part, Mapping)]
        held = [part for schema in self._schemas for part in schema.get("properties", {}).values()]
        self.properties, self.defaults = len(held), _defaults(held)
        self._nodes: dict[Any, _CostNode] = {}

    def at(self, name: Any) -> _CostNode:
        """The node of a property; of an item, where there is no name."""
        if name not in self._nodes:
            parts = [part for schema in self._schemas for part in _parts_at(schema, name)]
            key = frozenset(map(id, parts))
            if key not in self._known:
                self._known[key] = _CostNode(parts, self._references, self._known)
            self._nodes[name] = self._known[key]
        return self._nodes[name]


def _parts_at(schema: Mapping[str, Any], name: Any) -> Iterator[Any]:
    named = schema.get("properties", {})
    if name in named:
        yield named[name]
    else:
        keywords = ("items", "prefixItems") if name is None else ("additionalProperties",)
        yield from (part for _, part in parts_of(schema, keywords))


def _defaults(properties: Iterable[Any]) -> int:
    """What it costs if all properties are left out: mutable defaults are copied each time."""
    held = (schema.get("default") if isinstance(schema, Mapping) else None for schema in properties)
    return sum(_COPIED if isinstance(default, list | dict) else _LEFT_OUT for default in held)


def adopt(
    schema: Mapping[str, Any],
    share: Callable[[str, str, Callable[[], dict[str, Any]]], dict[str, Any]],
) -> dict[str, Any]:
    """Make a schema of Pydantic's one of ours, which shares its definitions with others.

    `share` takes what a definition is known by, its name and what builds it, and returns a
    reference to it.
    """
    definitions = schema.get("$defs", {})

    def adopted(each: Any) -> Any:
        if not isinstance(each, Mapping):
            return each
        kept = {key: value for key, value in each.items() if key not in _NOT_ADOPTED}
        if not _is_linear(kept.get("pattern")):
            del kept["pattern"]  # only Pydantic could check it, and it does
        ours = with_parts(kept, lambda _, part: adopted(part))
        if "$ref" in each:
            name = _name_in(each["$ref"])
            known_by = json.dumps(_reachable(name, definitions), sort_keys=True, default=repr)
            definition = definitions[name]
            if re.sub(r"[^\w.-]", "_", str(definition.get("title"))) == name:  # which says no more
                definition = {key: value for key, value in definition.items() if key != "title"}
            reference = share(f"{name} {known_by}", name, lambda: adopted(definition))
            reference.update(ours)
            return reference
        return ours

    result: dict[str, Any] = adopted(schema)
    return result


_NOT_ADOPTED: Final = ("$defs", "$ref", "discriminator")
"""Keywords that are replaced, and one of OpenAPI's, whose references are not followed."""


def _is_linear(pattern: Any) -> bool:
    if not isinstance(pattern, str):
        return True
    from trio_mcp.schema.bounds import pattern_size  # most schemas have no patterns

    try:
        pattern_size(pattern)
    except SchemaError:
        return False
    return True


def _reachable(name: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A definition, and all that it leads to."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found and each in definitions:
            found[each] = definitions[each]
            waiting.extend(map(_name_in, references_in(definitions[each])))
    return found


def _name_in(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _branching(schema: Mapping[str, Any]) -> int:
    """How many members of a union lead back to it, and are all tried: at each level of a value."""
    definitions = schema.get("$defs", {})
    largest = 1
    for name, definition in definitions.items():
        for _, each in walk(definition):
            if "discriminator" in each:
                continue
            members = [*each.get("anyOf", ()), *each.get("oneOf", ())]
            targets = [map(_name_in, references_in(member)) for member in members]
            back = (any(name in _reachable(one, definitions) for one in some) for some in targets)
            largest = max(largest, sum(back))
    return largest


@functools.cache
def _generator() -> Any:
    """Pydantic's generator, without titles that only repeat the names of fields, or warnings."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def emit_warning(self, kind: Any, detail: str) -> None:
            pass

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Generator


def _schema_error(annotation: Any, error: Exception) -> SchemaError:
    name = getattr(annotation, "__qualname__", None) or str(annotation)
    said = str(getattr(error, "message", error)).partition("\n")[0].rstrip(".")
    if getattr(error, "code", None) in ("undefined-annotation", "class-not-fully-defined"):
        return SchemaError(
            f"the model {name} names types that are not known; define them at module level, before "
            f"it is used, or call {name}.model_rebuild()"
        )
    return SchemaError(f"Pydantic has no JSON Schema for {name}: {said}")


class RefusedByModel(ConversionError):
    """A value that Pydantic has refused, with the first few reasons of its `ValidationError`."""

    def __init__(self, value: Any, error: Any) -> None:
        super().__init__("valid", value)
        self._count: int = error.error_count()
        self._reasons: list[Any] = []
        if self._count <= _MOST_REASONS:
            self._reasons = error.errors(include_url=False, include_input=False)[:_MOST_SENTENCES]

    def tell(self, noun: str, place: str) -> str:
        if not self._reasons:
            what = subject(noun, place)
            return f"{what} is not acceptable: {self._count} values in it are wrong or missing."
        sentences = [_sentence(noun, place, self.value, reason) for reason in self._reasons]
        return " ".join(dict.fromkeys(sentences))


def _sentence(noun: str, place: str, value: Any, reason: Mapping[str, Any]) -> str:
    kind, said = reason["type"], reason["msg"]
    steps = reason["loc"]  # some of which name members of a union, or functions
    for number, step in enumerate(steps, 1):
        is_missing = kind == "missing" and number == len(steps)
        if isinstance(value, dict) and (step in value or is_missing):
            place, value = join_path([place, step]), value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            place, value = f"{place}[{step}]", value[step]
    if kind in _ABOUT_NAMES:
        return f"{_ABOUT_NAMES[kind]} {noun} {place!r}."
    what = subject(noun, place)
    for beginning in _BY_THE_AUTHOR:
        if said.startswith(beginning):
            return f"{what} is not acceptable: {said.removeprefix(beginning)[:200].rstrip('.')}."
    demand = re.match(_DEMAND, said)
    if demand:
        return f"{what} must {said[demand.end() :][:200].rstrip('.')}, but {describe(value)}."
    return f"{what} is not acceptable: {said[:200].rstrip('.')}; {describe(value)}."


_ABOUT_NAMES: Final = {"missing": "Missing required", "extra_forbidden": "Unexpected"}
_BY_THE_AUTHOR: Final = ("Value error, ", "Assertion failed, ")
_DEMAND: Final = r"[A-Z]\w* should "  # such as `Input should be less than 3`
