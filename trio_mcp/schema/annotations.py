"""Python annotations as JSON Schema 2020-12.

A `Builder` walks an annotation by tables: exact types, the origin of generic aliases, the kind of
class. Every class becomes a definition that is referred to; in the end those that are referred to
once are put where they are used, so `$defs` holds only what recurs or is shared.
"""

import enum
import math
import typing
from collections.abc import Callable
from typing import Any

from attrs import NOTHING

from trio_mcp.schema.constraints import apply_metadata
from trio_mcp.schema.docstrings import parse_docstring
from trio_mcp.schema.errors import Unmapped, errors_at
from trio_mcp.schema.fields import (
    UNIONS,
    Field,
    class_of,
    fields_of,
    is_named_tuple,
    is_record,
    key_of,
    own_docstring,
)
from trio_mcp.schema.kinds import ARRAYS, OBJECTS, SETS, alias_value, annotation_text, is_type_alias
from trio_mcp.schema.models import Model, adopt, is_model, is_old_model
from trio_mcp.schema.signatures import where
from trio_mcp.schema.size import check_size
from trio_mcp.schema.texts import text_type
from trio_mcp.schema.unstructuring import unstructure
from trio_mcp.wire.errors import SchemaError

_EXACT: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    bytes: {"type": "string", "contentEncoding": "base64"},
    tuple[()]: {"type": "array", "maxItems": 0},
}

_SUPPORTED = (
    "use str, int, float, bool, list, dict[str, ...], Literal, Enum, a date or time type, UUID, "
    "Path, an attrs class, a dataclass, a TypedDict or a Pydantic model; or Any, to take whatever "
    "comes"
)


def schema_of(annotation: Any) -> dict[str, Any]:
    """Turn an annotation into a JSON Schema, a new dictionary that the caller may change.

    Raises:
        SchemaError: The annotation has no counterpart in JSON.

    Example:
        >>> schema_of(list[int])
        {'type': 'array', 'items': {'type': 'integer'}}
    """
    builder = Builder()
    return builder.finish(builder.build(annotation))


def published_default(value: Any) -> Any:
    """A default as JSON, or `NOTHING` where JSON cannot carry it."""
    if value is NOTHING or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    try:
        return unstructure(value)
    except TypeError:
        return NOTHING


class Builder:
    """Builds schemas that share one set of definitions.

    Args:
        output: Whether the schemas are of what is returned.
        open_models: Whether anything goes where Pydantic decides.

    `raw` says whether keywords were merged in that have not been checked yet, and `has_models`
    whether Pydantic has a part in it.
    """

    def __init__(self, *, output: bool = False, open_models: bool = False) -> None:
        self._output = output
        self._open_models = open_models
        self.has_models = False
        self._references: dict[str, list[dict[str, Any]]] = {}
        self._definitions: dict[str, dict[str, Any]] = {}
        self._names: dict[Any, str] = {}
        self.raw = False

    def build(self, annotation: Any) -> dict[str, Any]:
        key = key_of(annotation)
        if key in _EXACT:
            return dict(_EXACT[key])
        if is_model(annotation):
            return self._model(annotation)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in _SPECIAL:
            return _SPECIAL[origin](self, arguments)
        kind = class_of(annotation)
        if isinstance(kind, type) and kind in _COLLECTIONS:
            return _COLLECTIONS[kind](self, arguments)
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return self._enum(annotation)
        text = text_type(annotation)
        if text is not None:
            return {"type": "string", "format": text.format}
        if is_record(annotation) or is_named_tuple(annotation):
            words = [getattr(argument, "__name__", str(argument)) for argument in arguments]
            name = "_".join([class_of(annotation).__name__, *words])
            return self._shared(key, name, lambda: self._record(annotation))
        if hasattr(annotation, "__supertype__"):
            return self.build(annotation.__supertype__)
        if is_type_alias(annotation):
            name = annotation.__name__
            return self._shared(key, name, lambda: self.build(alias_value(annotation)))
        raise Unmapped(_why_unmapped(annotation), annotation)

    def build_at(self, tool: str, parameter: str, annotation: Any) -> dict[str, Any]:
        """Build the schema of a parameter, or of `return`, which errors name then."""
        with errors_at(f"function {tool!r}, {where(parameter)}"):
            return self.build(annotation)

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Put what is referred to once in its place, and the rest under `$defs`."""
        for name, references in self._references.items():
            if len(references) == 1:
                (reference,) = references
                beside = {key: value for key, value in reference.items() if key != "$ref"}
                reference.clear()
                reference.update(self._definitions.pop(name))
                reference.update(beside)
        if self._definitions:
            schema["$defs"] = self._definitions
        return schema

    def finish_within_bounds(self, tool: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Finish the schema of a function and check its bounds; raw keywords, in full."""
        self.finish(schema)
        with errors_at(f"function {tool!r}"):
            if self.raw:
                from trio_mcp.schema.bounds import check_schema  # imports much, seldom needed

                check_schema(schema)
            else:
                check_size(schema)
                if "$defs" in schema:  # an alias may stand for nothing but itself
                    from trio_mcp.schema.references import References  # seldom needed, too

                    References(schema)
        return schema

    def _annotated(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        kind, *metadata = arguments
        schema = self.build(kind)
        target = schema
        # A bound on `int | None` is a bound on the int.
        members = schema.get("anyOf", [])
        if len(members) == 2 and members[1] == {"type": "null"}:
            target = members[0]
        try:
            raw = apply_metadata(schema, target, metadata)
        except TypeError as error:
            raise SchemaError(str(error)) from None
        self.raw = self.raw or raw
        if "pattern" in target and not raw:
            from trio_mcp.schema.bounds import pattern_size  # most schemas have no patterns

            pattern_size(target["pattern"])
        return schema

    def _array(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        items = self.build(arguments[0]) if arguments else {}
        return {"type": "array", "items": items} if items else {"type": "array"}

    def _tuple(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if not arguments or arguments[1:] == (...,):
            return self._array(arguments)
        return _fixed([self.build(argument) for argument in arguments], len(arguments))

    def _object(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        key, value = arguments or (str, Any)
        keys, values = self.build(key), self.build(value)
        if keys.get("type") != "string":
            raise SchemaError(
                f"the keys of a JSON object are strings, so {annotation_text(key)} cannot be the "
                "key of a dict; use dict[str, ...]"
            )
        schema: dict[str, Any] = {"type": "object"}
        if len(keys) > 1:
            schema["propertyNames"] = keys
        if values:
            schema["additionalProperties"] = values
        return schema

    def _model(self, annotation: Any) -> dict[str, Any]:
        self.has_models = self.raw = True
        if self._open_models:
            return {}
        return adopt(Model(annotation).schema(output=self._output), self._shared)

    def _shared(self, key: Any, name: str, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Refer to the definition of `key`, which is built when it is first met."""
        known = self._names.get(key)
        if known is None:
            known = self._free_name(name)
            self._names[key] = known
            self._references[known] = []
            self._definitions[known] = {}  # keeps its place in the order of meeting
            self._definitions[known] = build()
        reference = {"$ref": f"#/$defs/{known}"}
        self._references[known].append(reference)
        return reference

    def _free_name(self, name: str) -> str:
        name = (
            "".join(character if character.isalnum() else "_" for character in name).strip("_")
            or "_"
        )
        free, number = name, 2
        while free in self._definitions:
            free, number = f"{name}{number}", number + 1
        return free

    def _enum(self, kind: type[enum.Enum]) -> dict[str, Any]:
        schema = self._values([member.value for member in kind])
        written = own_docstring(kind)
        if written is not None:
            schema["description"] = written
        return schema

    def _values(self, values: list[Any]) -> dict[str, Any]:
        for value in values:
            if not isinstance(value, str | int | float | bool | None):
                raise SchemaError(
                    f"the value {value!r} cannot be one of a choice, because JSON has no such "
                    "value; use strings, numbers, booleans or None"
                )
        classes = (next(kind for kind in type(value).__mro__ if kind in _EXACT) for value in values)
        kinds = list(dict.fromkeys(_EXACT[kind]["type"] for kind in classes))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}

    def _record(self, kind: Any) -> dict[str, Any]:
        docs = parse_docstring(own_docstring(class_of(kind)))
        fields = [field for field in fields_of(kind) if field.init or self._output]
        if is_named_tuple(kind):
            return self._named_tuple(fields)
        schema: dict[str, Any] = {"type": "object"}
        if docs.description:
            schema["description"] = docs.description
        schema["properties"] = {
            field.name: self._field(kind, field, docs.parameters.get(field.name))
            for field in fields
        }
        required = [field.name for field in fields if field.required]
        if required:
            schema["required"] = required
        return schema

    def _field(self, kind: Any, field: Field, written: str | None) -> dict[str, Any]:
        with errors_at(f"field {field.name!r} of {annotation_text(kind)}"):
            schema = self.build(field.annotation)
        document(schema, field.description or written, field.default)
        return schema

    def _named_tuple(self, fields: list[Field]) -> dict[str, Any]:
        schemas = [self.build(field.annotation) for field in fields]
        for each, schema in zip(fields, schemas, strict=True):
            document(schema, f"{each.name}", NOTHING)
        return _fixed(schemas, sum(field.required for field in fields))


_SPECIAL: dict[Any, Callable[[Builder, tuple[Any, ...]], dict[str, Any]]] = {
    typing.Annotated: Builder._annotated,
    **dict.fromkeys(UNIONS, lambda self, members: union_of(list(map(self.build, members)))),
    typing.Literal: lambda self, values: self._values(
        [getattr(value, "value", value) for value in values]
    ),
    **dict.fromkeys(
        (typing.Required, typing.NotRequired, typing.Final),
        lambda self, arguments: self.build(arguments[0]),
    ),
}

_COLLECTIONS: dict[Any, Callable[[Builder, tuple[Any, ...]], dict[str, Any]]] = {
    tuple: Builder._tuple,
    **dict.fromkeys(ARRAYS, Builder._array),
    **dict.fromkeys(SETS, lambda self, items: {**self._array(items), "uniqueItems": True}),
    **dict.fromkeys(OBJECTS, Builder._object),
}


def document(schema: dict[str, Any], description: str | None, default: Any) -> None:
    if description and "description" not in schema:
        schema["description"] = description.strip()
    default = published_default(default)
    if default is not NOTHING and (default is not None or allows_null(schema)):
        schema["default"] = default


def allows_null(schema: dict[str, Any]) -> bool:
    """Whether the schema itself says that null is welcome."""
    kind = schema.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "anyOf" in schema:
        return any(allows_null(member) for member in schema["anyOf"])
    return "$ref" not in schema


def union_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for any of several: `anyOf`, unless one of them says it all."""
    if any(not schema for schema in schemas):
        return {}
    flat: list[dict[str, Any]] = []
    for schema in schemas:
        members = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
        flat.extend(member for member in members if member not in flat)
    flat.sort(key=lambda each: each == {"type": "null"})
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _fixed(schemas: list[dict[str, Any]], required: int) -> dict[str, Any]:
    items = {"prefixItems": schemas} if schemas else {}
    least = {"minItems": required} if required else {}
    return {"type": "array", **items, **least, "maxItems": len(schemas)}


def _why_unmapped(annotation: Any) -> str:
    text = annotation_text(annotation)
    if isinstance(annotation, str | typing.ForwardRef):
        return (
            f"the annotation {text} is a name that cannot be resolved; define it at module level, "
            "outside `if TYPE_CHECKING`"
        )
    if not isinstance(annotation, type):
        return f"the annotation {text} has no JSON Schema; {_SUPPORTED}"
    if is_old_model(annotation):
        return (
            f"{text} is a model of Pydantic 1; derive it from the BaseModel of Pydantic 2, which "
            "is pydantic.BaseModel and not pydantic.v1.BaseModel"
        )
    return f"the class {text} has no JSON Schema; {_SUPPORTED}"
