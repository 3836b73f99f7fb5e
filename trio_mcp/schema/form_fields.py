"""One field of a form: what it may be, and how each revision writes it.

A form asks for text, numbers, yes or no, one choice of several strings, or some of them; which of
these a schema means is its shape. The table of shapes says what may stand beside the type; a
keyword that is not in it is refused, because no client could be relied upon to honour it.

Choices are written in three ways: plain (`enum`), with titles beside (`enumNames`, which is all
that 2025-06-18 has, and which later revisions still have), and with titles within (`oneOf`, or
`anyOf` below `items`). All of them are read, and each is written as it was given if the revision
has that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from trio_mcp.schema.engine import Test
from trio_mcp.schema.sentences import cut, expectation, listed
from trio_mcp.schema.validate import compile_test
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import SINCE, Revision

__all__ = ["DIALECTS_SINCE", "FORMS_SINCE", "form_field", "missed_format"]

_2025_06, _2025_11 = "2025-06-18", "2025-11-25"

FORMS_SINCE: Final = _2025_06
DIALECTS_SINCE: Final = _2025_11
"""`$schema` may stand in a form."""

_ALLOWED: Final = (
    "a form may ask for text, a number, yes or no, a date, one choice of several strings (Literal "
    "or Enum), or a list of such choices"
)


@frozen
class _Shape:
    """What kind of field it is."""

    noun: str
    type: str
    keywords: tuple[str, ...]
    """What may stand beside its type, title, description, default and options."""

    since: str = _2025_06
    default_since: str = _2025_11


_TEXT = _Shape("text", "string", ("minLength", "maxLength", "format"))
_NUMBER = _Shape("a number", "number", ("minimum", "maximum"))
_INTEGER = _Shape("a whole number", "integer", ("minimum", "maximum"))
_BOOLEAN = _Shape("yes or no", "boolean", (), default_since=_2025_06)
_CHOICE = _Shape("a choice", "string", ())
_CHOICES = _Shape("a list of choices", "array", ("minItems", "maxItems"), since=_2025_11)

_BY_TYPE: Final = {each.type: each for each in (_TEXT, _NUMBER, _INTEGER, _BOOLEAN, _CHOICES)}
_OPTIONS: Final = ("enum", "oneOf", "anyOf")


def form_field(schema: Json, revision: Revision) -> dict[str, Json]:
    """Write a schema as the field of a form, as a revision knows it.

    Args:
        schema: The schema of one property.
        revision: The revision.

    Returns:
        The schema of the field, without a default if it has no place there. A bound that excludes
        its end is written as one that includes it where that is the same, which is for whole
        numbers.

    Raises:
        SchemaError: A form cannot ask for that, or not in this revision; the message says what it
            can ask for.
    """
    shape = _shape_of(schema)
    schema = _inclusive(schema) if shape is _INTEGER else dict(schema)
    beside = "enumNames" in schema or revision not in SINCE[_2025_11]
    options = _take_options(shape, schema) if shape in (_CHOICE, _CHOICES) else {}
    del schema["type"]
    _check_keywords(shape, schema)
    order = ("title", "description", *shape.keywords, "default")
    field = {"type": shape.type, **{each: schema[each] for each in order if each in schema}}
    if options:
        field |= _write_options(shape, options, beside)
    _check_default(field)
    if revision not in SINCE[shape.since]:
        raise SchemaError(
            f"revision {revision.name} cannot ask for {shape.noun}, which came with "
            f"{shape.since}; ask for a single choice, or for yes or no on each"
        )
    if revision not in SINCE[shape.default_since]:
        field.pop("default", None)
    return field


def missed_format(field: Mapping[str, Json], value: Json) -> str | None:
    """What a value that fits a field should have been, if it is not of its format."""
    name = field.get("format")
    if name is None or _format_test(name)(value):
        return None
    return _FORMAT_WORDS.get(name) or expectation({"type": "string", "format": name})


# Shapes ---------------------------------------------------------------------------------------


def _shape_of(schema: Json) -> _Shape:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" and any(each in schema for each in _OPTIONS):
        return _CHOICE
    if isinstance(kind, str) and kind in _BY_TYPE and not (kind != "string" and "enum" in schema):
        return _BY_TYPE[kind]
    why = next(why for is_so, why in _REASONS if is_so(schema))
    raise SchemaError(f"{why}; {_ALLOWED}")


_REASONS: Final[list[tuple[Callable[[Any], bool], str]]] = [
    (lambda schema: not isinstance(schema, Mapping), "its schema must be a JSON object"),
    (
        lambda schema: schema.get("type") == "object" or "$ref" in schema,
        "it is an object, and a form is flat",
    ),
    (lambda schema: "enum" in schema, "the values of a choice must all be strings"),
    (
        lambda schema: isinstance(schema.get("type"), list) or any(map(schema.get, _OPTIONS)),
        "it may be of several types",
    ),
    (lambda schema: "type" not in schema, "nothing is said of its type"),
    (lambda schema: True, "values of its type cannot be asked for"),
]


def _inclusive(schema: Mapping[str, Json]) -> dict[str, Json]:
    schema = dict(schema)
    for exclusive, inclusive, nearest, step, tighter in (
        ("exclusiveMinimum", "minimum", math.floor, 1, max),
        ("exclusiveMaximum", "maximum", math.ceil, -1, min),
    ):
        if _is_number(schema.get(exclusive)):
            bound = nearest(schema.pop(exclusive)) + step
            other = schema.get(inclusive)
            schema[inclusive] = tighter(bound, other) if _is_number(other) else bound
    return schema


# Keywords -------------------------------------------------------------------------------------


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_format(value: Json) -> bool:
    return isinstance(value, str) and value in _FORMATS


_VALUES: Final[dict[str, tuple[Callable[[Json], bool], str]]] = {
    "title": (_is_text, "a string"),
    "description": (_is_text, "a string"),
    **dict.fromkeys(("minimum", "maximum"), (_is_number, "a number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems"),
        (_is_count, "a whole number that is not negative"),
    ),
    "format": (_is_format, "one of 'email', 'uri', 'date' and 'date-time'"),
}


def _check_keywords(shape: _Shape, schema: Mapping[str, Json]) -> None:
    allowed = ("title", "description", *shape.keywords, "default")
    for keyword, value in schema.items():
        if keyword not in allowed:
            raise SchemaError(
                f"{cut(keyword)} cannot be demanded of {shape.noun} in a form; its keywords are "
                f"{listed(allowed, 'and')}"
            )
        test, wanted = _VALUES.get(keyword, (None, ""))
        if test is not None and not test(value):
            raise SchemaError(f"{keyword!r} must be {wanted}, not {cut(value)}")


def _check_default(field: Mapping[str, Json]) -> None:
    if "default" not in field:
        return
    default = field["default"]
    endless = isinstance(default, float) and not math.isfinite(default)
    if endless or not compile_test(field)(default) or missed_format(field, default):
        raise SchemaError(
            f"its default {cut(default)} does not fit the field itself; give one that does, or "
            "None for a field that may be left empty"
        )


# Options --------------------------------------------------------------------------------------


def _take_options(shape: _Shape, schema: dict[str, Json]) -> dict[str, str | None]:
    """Remove the options from a schema, and what stands beside them below `items`."""
    if shape is _CHOICE:
        return _read_options(schema)
    items = schema.pop("items", None)
    if not isinstance(items, Mapping) or not any(each in items for each in _OPTIONS):
        raise SchemaError(f"it is a list of something other than choices; {_ALLOWED}")
    items = dict(items)
    options = _read_options(items)
    if "description" in items:
        schema.setdefault("description", items.pop("description"))
    if items.pop("type", "string") != "string" or items:
        raise SchemaError(f"its items must be choices and nothing else; {_ALLOWED}")
    return options


def _read_options(schema: dict[str, Json]) -> dict[str, str | None]:
    keyword = next(each for each in _OPTIONS if each in schema)
    listing = schema.pop(keyword)
    if not isinstance(listing, list) or not listing:
        raise SchemaError(f"{keyword!r} must be a list with at least one choice in it")
    if keyword == "enum":
        titles = schema.pop("enumNames", [None] * len(listing))
        if not isinstance(titles, list) or len(titles) != len(listing):
            raise SchemaError("'enumNames' must be a list with a title for each value of 'enum'")
        options = list(zip(listing, titles, strict=True))
    else:
        options = [_read_titled(keyword, each) for each in listing]
    for value, title in options:
        if not isinstance(value, str) or not isinstance(title, str | None):
            raise SchemaError("the values of a choice must all be strings, and so must its titles")
    if len(dict(options)) < len(options):
        raise SchemaError("the values of a choice must be different")
    return dict(options)


def _read_titled(keyword: str, option: Json) -> tuple[Json, Json]:
    if not isinstance(option, Mapping) or option.keys() != {"const", "title"}:
        raise SchemaError(
            f"{keyword!r} may only hold choices, each an object with 'const' and 'title', not "
            f"{cut(option)}; {_ALLOWED}"
        )
    return option["const"], option["title"]


def _write_options(shape: _Shape, options: dict[str, str | None], beside: bool) -> dict[str, Json]:
    values = list(options)
    titles = [title or value for value, title in options.items()]
    titled = any(title is not None for title in options.values())
    within = [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]
    if shape is _CHOICES:
        return {"items": {"anyOf": within} if titled else {"type": "string", "enum": values}}
    if not titled:
        return {"enum": values}
    if beside:
        return {"enum": values, "enumNames": titles}
    return {"oneOf": within}


# Formats --------------------------------------------------------------------------------------

_FORMATS: Final = {"email": "idn-email", "uri": "uri", "date": "date", "date-time": "date-time"}
"""The formats of forms, and what is taken for them: people have letters beyond ASCII."""
_FORMAT_WORDS: Final = {"email": "an email address such as user@example.com"}


@functools.cache
def _format_test(name: str) -> Test:
    import jsonschema_rs

    schema = {"format": _FORMATS[name]}
    test: Test = jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid
    return test
