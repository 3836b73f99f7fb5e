"""What a function returns, by its annotation.

What has structure has a schema, which is published and which results are checked against; text and
nothing have none. A type without a JSON Schema is refused only if no value of it, or of a subclass,
can have a JSON form.
"""

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from trio_mcp.schema.annotations import Builder
from trio_mcp.schema.errors import Unmapped
from trio_mcp.schema.fields import class_of, is_opaque, is_record
from trio_mcp.schema.kinds import (
    ARRAYS,
    OBJECTS,
    alternatives,
    annotation_text,
    is_plain,
    without_names,
)
from trio_mcp.schema.unstructuring import can_unstructure, unstructure
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.payloads import WRAPS_RESULT
from trio_mcp.wire.subschemas import DEFINITIONS, refers_by

BYTES = (bytes, bytearray, memoryview)
USE_OF_BYTES = (
    "bytes alone do not say what they are; return ImageContent(data, 'image/png'), "
    "AudioContent(data, 'audio/wav'), EmbeddedResource(BlobResourceContents(uri, data)), or text"
)

_LISTS = (tuple, *ARRAYS)
_WHAT_CAN_BE = (
    "a tool returns str, numbers, bool, None, dates and times, UUID, Path, Enum, lists, dicts, "
    "attrs classes, dataclasses, TypedDicts, content blocks or a CallToolResult"
)


def describe_return(
    tool: str, annotation: Any, result_types: Collection[type] = ()
) -> tuple[dict[str, Any] | None, Callable[[Any], Any] | None, bool]:
    """Read a return annotation, in which `result_types` are results that are not converted.

    The outcome is the schema of results, what makes JSON of them, and whether they are lists of
    `result_types`.
    """
    if any(member in BYTES for member in alternatives(annotation)):
        raise SchemaError(f"function {tool!r}, return annotation: {USE_OF_BYTES}")
    if _mentions(annotation, result_types):
        return None, unstructure, _lists(annotation, result_types)
    schema = _schema(tool, annotation)
    return schema, None if is_plain(annotation) else unstructure, False


def _schema(tool: str, annotation: Any) -> dict[str, Any] | None:
    builder = Builder(output=True)
    try:
        schema = builder.build_at(tool, "return", annotation)
    except SchemaError as error:
        if builder.has_models or _is_object(annotation):
            raise
        lost = error.annotation if isinstance(error, Unmapped) else None
        if not isinstance(lost, type) or _may_have_form(lost):  # a protocol, say
            return None
        raise SchemaError(
            f"function {tool!r}, return annotation: {annotation_text(lost)} has no JSON form; "
            f"{_WHAT_CAN_BE}"
        ) from None
    builder.finish_within_bounds(tool, schema)
    if _says_nothing({key: value for key, value in schema.items() if key != "description"}):
        return None
    if _is_of_objects(schema, schema.get("$defs", {})):
        # A reference or a union does not say so at first sight, as older clients want it.
        return {"type": "object", **schema}
    return schema


def _is_of_objects(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    members = schema.get("anyOf", schema.get("oneOf", ()))
    if members:
        return all(_is_of_objects(member, definitions) for member in members)
    return schema.get("type") == "object"


def _says_nothing(schema: dict[str, Any]) -> bool:
    """Whether the text of a result has all that could be structured, or it may be anything."""
    members = schema.get("anyOf", [schema])
    return any(member in _ANYTHING for member in members) or all(
        member in _TEXT for member in members
    )


_ANYTHING: Final[tuple[dict[str, Any], ...]] = ({}, {"type": "array"})
"""Also content blocks."""
_TEXT: Final = ({"type": "string"}, {"type": "null"})


def _mentions(annotation: Any, kinds: Collection[type]) -> bool:
    """Whether one of the classes, or a subclass, stands anywhere in the annotation."""
    if isinstance(annotation, type) and any(kind in annotation.__mro__ for kind in kinds):
        return True
    return any(_mentions(argument, kinds) for argument in typing.get_args(annotation))


def _lists(annotation: Any, kinds: Collection[type]) -> bool:
    """Whether the annotation is, or may be, a list with one of the classes in it."""
    lists = (member for member in alternatives(annotation) if typing.get_origin(member) in _LISTS)
    return any(_mentions(member, kinds) for member in lists)


def _is_object(annotation: Any) -> bool:
    kind = without_names(annotation)
    return is_record(kind) or class_of(kind) in OBJECTS


def _may_have_form(kind: type) -> bool:
    """Whether values of a class without a schema may have a JSON form all the same."""
    is_general = inspect.isabstract(kind) or getattr(kind, "_is_protocol", False)
    return not is_opaque(kind) and (is_general or _has_form(kind))


def _has_form(kind: type) -> bool:
    return can_unstructure(kind) or any(map(_has_form, type.__subclasses__(kind)))


def wrapped(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of `{"result": value}`, where a schema is of the value.

    Returns:
        `None` if something in it would then refer to another place.

    Example:
        >>> wrapped({"type": "integer"})["properties"]
        {'result': {'type': 'integer'}}
    """
    places = tuple(f"#/{place}/" for place in DEFINITIONS)
    if not refers_by(schema, lambda reference: reference.startswith(places)):
        return None
    whole = {key: schema[key] for key in ("$schema", *DEFINITIONS) if key in schema}
    value = {key: schema[key] for key in schema if key not in whole}
    of_object = {"type": "object", "properties": {"result": value}, "required": ["result"]}
    return {**whole, **of_object, WRAPS_RESULT: True}
