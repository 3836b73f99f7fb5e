"""Forms: what a server may ask of a user (elicitation), and what to make of the answer.

A form is a flat object. What is asked for is said as everywhere else, by a class or a type; each
field becomes a schema as a tool's parameter does, which is then read as the field of a form and
written as the revision wants it. The answer goes the same way back: it is checked against the very
schema that was sent, and what formats demand beyond it, and structured.

A form asks for text, numbers, yes or no, one choice of several strings, or some of them; which of
these a schema means is its shape. A keyword that the shape does not list is refused, because no
client could be relied upon to honour it. Choices are plain (`enum`), have titles beside
(`enumNames`, which is all that 2025-06-18 has) or within (`oneOf`, or `anyOf` below `items`), and
are written as they were given if the revision has that.

Fields that were not asked for are left out of what is returned.
"""

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import NOTHING, field, frozen

from trio_mcp.schema.annotations import Builder
from trio_mcp.schema.bounds import Test
from trio_mcp.schema.errors import ArgumentError, AtPath, ConversionError, errors_at
from trio_mcp.schema.fields import is_record
from trio_mcp.schema.hooks import Hook, hook_for
from trio_mcp.schema.kinds import annotation_text, without_names
from trio_mcp.schema.models import is_model
from trio_mcp.schema.references import dialect_of
from trio_mcp.schema.sentences import expectation, join_words, shorten
from trio_mcp.schema.size import check_size
from trio_mcp.schema.structuring import explain
from trio_mcp.schema.validate import Validator, compile_test, compile_validator
from trio_mcp.wire.bounds import is_finite
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import SINCE, Revision

_ONLY: Final = "value"  # the field of a form for a single value


@frozen(eq=False)
class Form:
    """A form to be filled in by a user, as one revision writes it."""

    schema: dict[str, Json]
    _emptied: Sequence[str] = field(repr=False)
    """The fields that are `None` if they were left empty; of others the class knows better."""

    _validate: Validator = field(repr=False)
    _make: Hook = field(repr=False)

    def parse(self, content: Json) -> Any:
        """Turn the content of an accepted form into what was asked for.

        Where an optional field was left empty, it has its default, which is `None` if the class
        gives no other.

        Raises:
            ArgumentError: The content does not fit; the message names the field, what was
                expected and what came.
        """
        wrong = self._validate(content)
        if wrong is not None:
            raise ArgumentError(wrong)
        answers: dict[str, Any] = dict.fromkeys(self._emptied)
        asked: dict[str, Any] = self.schema["properties"]
        for name in (name for name in asked if name in content):
            answer = answers[name] = content[name]
            expected = missed_format(asked[name], answer)
            if expected is not None:
                raise ArgumentError(ConversionError(expected, answer).tell("field", name))
        try:
            return self._make(answers)
        except (Exception, SystemExit) as error:  # a validator that exits must not end the server
            raise ArgumentError(explain("field", error)) from error


def form_of(kind: Any, revision: Revision) -> Form:
    """Make the form that asks a user for a value (Elicitation, "Form Mode", "Requested Schema").

    Args:
        kind: A record class or Pydantic model with fields of `str`, `int`, `float`, `bool`, `date`,
            `datetime`, `Literal` or `Enum` of strings, a list of the latter two, or one of these or
            `None`; one such type alone, for a form with the field "value"; or a JSON Schema, whose
            title and description are not sent. `{"format": "email"}` or `"uri"` in `Annotated` says
            more of a string. A field with a default, or that may be `None`, may be left empty.
        revision: The revision that the client speaks. 2025-06-18 has defaults only for `bool`, and
            no lists.

    Raises:
        SchemaError: Forms cannot ask for such a value, or not in this revision.

    Example:
        >>> from trio_mcp.wire.revisions import NEWEST
        >>> form = form_of(bool, NEWEST)
        >>> form.schema["properties"]
        {'value': {'type': 'boolean'}}
        >>> form.parse({"value": True})
        True
    """
    if revision not in SINCE[FORMS_SINCE]:
        raise SchemaError(f"revision {revision.name} has no forms; they came with {FORMS_SINCE}")
    if isinstance(kind, Mapping):
        return _form_of_schema(kind, revision)
    builder, record = _Builder(), without_names(kind)
    if is_model(record) or is_record(record):
        schema = builder.build(record)
        if "properties" in schema:
            return _form(schema, revision, hook_for(record), f" of {annotation_text(record)}")
    with errors_at(f"field {_ONLY!r}"):
        only = builder.build(kind)
    schema = {"properties": {_ONLY: only}, "required": [_ONLY]}
    return _form(schema, revision, _maker_of_one(hook_for(kind)))


def _form(
    schema: Mapping[str, Any],
    revision: Revision,
    make: Hook,
    owner: str = "",
    *,
    is_raw: bool = False,
) -> Form:
    """The form that asks for the properties of an object; a raw schema means what it says."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    emptied: list[str] = []
    for name, each in schema["properties"].items():
        with errors_at(f"field {name!r}{owner}"):
            asked, optional = (each, False) if is_raw else _without_null(each)
            properties[name] = form_field(asked, revision)
        if name in schema.get("required", ()):
            (emptied if optional else required).append(name)
    sent: dict[str, Json] = {"type": "object", "properties": properties}
    if "$schema" in schema and revision in SINCE[DIALECTS_SINCE]:
        sent = {"$schema": schema["$schema"], **sent}
    if required:
        sent["required"] = required
    check_size(sent)
    return Form(sent, emptied, compile_validator(sent, inferred=True, noun="field"), make)


def _maker_of_one(hook: Hook) -> Hook:
    def make(answers: dict[str, Any]) -> Any:
        try:
            return hook(answers[_ONLY])
        except Exception as error:
            raise AtPath(_ONLY, error) from error

    return make


class _Builder(Builder):
    """Puts definitions where they are used, and tells the members of an `Enum` by name, too."""

    def _shared(self, key: Any, name: str, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if key in self._names:  # it is within itself
            return {"$ref": f"#/$defs/{name}"}
        self._names[key] = name
        definition = build()
        del self._names[key]
        return definition

    def _enum(self, kind: type[enum.Enum]) -> dict[str, Any]:
        schema = super()._enum(kind)
        if schema["type"] == "string" and any(member.name != member.value for member in kind):
            del schema["enum"]
            schema["oneOf"] = [
                {"const": member.value, "title": _title(member.name)} for member in kind
            ]
        return schema


def _title(name: str) -> str:
    """`DARK_RED` as people write it: `Dark red`."""
    words = name.replace("_", " ").strip() or name
    return words.capitalize() if words.isupper() or words.islower() else words


def _without_null(schema: dict[str, Json]) -> tuple[dict[str, Json], bool]:
    """A schema without the null that it allows, and whether it did."""
    without = dict(schema)
    members = schema.get("anyOf")
    if isinstance(members, list) and {"type": "null"} in members:
        others = [member for member in members if member != {"type": "null"}]
        del without["anyOf"]
        without = {**others[0], **without} if len(others) == 1 else {"anyOf": others, **without}
    kinds, values = without.get("type"), without.get("enum")
    if isinstance(kinds, list) and isinstance(values, list) and None in values:
        named = [kind for kind in kinds if kind != "null"]
        without["type"] = named[0] if len(named) == 1 else named
        without["enum"] = [value for value in values if value is not None]
    optional = without != schema
    if without.get("default", NOTHING) is None:
        del without["default"]
    return without, optional


_MEANT: Final = ("$schema", "type", "properties", "required")
_NOT_SENT: Final = ("title", "description")


def _form_of_schema(schema: Mapping[str, Json], revision: Revision) -> Form:
    for keyword in schema:
        if keyword not in (*_MEANT, *_NOT_SENT):
            raise SchemaError(
                f"{shorten(keyword)} has no place in the schema of a form, which has "
                f"{join_words(map(repr, _MEANT), 'and')}"
            )
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise SchemaError("the schema of a form must have the type 'object', and 'properties'")
    known = [name for name in properties if isinstance(required, list) and name in required]
    if not isinstance(required, list) or len(known) != len(required):
        raise SchemaError("'required' must list names that are in 'properties', each once")
    for name in properties:
        if not isinstance(name, str):
            raise SchemaError(f"field {shorten(name)}: its name must be a string")
    dialect_of(schema)
    return _form(schema, revision, lambda answers: answers, is_raw=True)


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

_BY_TYPE: Final = {shape.type: shape for shape in (_TEXT, _NUMBER, _INTEGER, _BOOLEAN, _CHOICES)}
_OPTIONS: Final = ("enum", "oneOf", "anyOf")


def form_field(schema: Json, revision: Revision) -> dict[str, Json]:
    """Write the schema of a property as the field of a form, as a revision knows it.

    A default is left out where it has no place. An exclusive bound of whole numbers is written
    as an inclusive one.

    Raises:
        SchemaError: A form cannot ask for that, or not in this revision.
    """
    shape = _shape_of(schema)
    schema = _inclusive(schema) if shape is _INTEGER else dict(schema)
    beside = "enumNames" in schema or revision not in SINCE[_2025_11]
    options = _take_options(shape, schema) if shape in (_CHOICE, _CHOICES) else {}
    del schema["type"]
    _check_keywords(shape, schema)
    order = ("title", "description", *shape.keywords, "default")
    field = {"type": shape.type, **{key: schema[key] for key in order if key in schema}}
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


def _shape_of(schema: Json) -> _Shape:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" and any(keyword in schema for keyword in _OPTIONS):
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
        if is_finite(schema.get(exclusive)):
            bound = nearest(schema.pop(exclusive)) + step
            other = schema.get(inclusive)
            schema[inclusive] = tighter(bound, other) if is_finite(other) else bound
    return schema


_FORMATS: Final = {"email": "idn-email", "uri": "uri", "date": "date", "date-time": "date-time"}
"""The formats of forms, and what is taken for them: people have letters beyond ASCII."""

_VALUES: Final[dict[str, tuple[Callable[[Json], bool], str]]] = {
    **dict.fromkeys(("title", "description"), (lambda value: isinstance(value, str), "a string")),
    **dict.fromkeys(("minimum", "maximum"), (is_finite, "a number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems"),
        (lambda value: type(value) is int and value >= 0, "a whole number that is not negative"),
    ),
    "format": (
        lambda value: isinstance(value, str) and value in _FORMATS,
        "one of 'email', 'uri', 'date' and 'date-time'",
    ),
}


def _check_keywords(shape: _Shape, schema: Mapping[str, Json]) -> None:
    allowed = ("title", "description", *shape.keywords, "default")
    for keyword, value in schema.items():
        if keyword not in allowed:
            raise SchemaError(
                f"{shorten(keyword)} cannot be demanded of {shape.noun} in a form; its keywords "
                f"are {join_words(allowed, 'and')}"
            )
        test, wanted = _VALUES.get(keyword, (None, ""))
        if test is not None and not test(value):
            raise SchemaError(f"{keyword!r} must be {wanted}, not {shorten(value)}")


def _check_default(field: Mapping[str, Json]) -> None:
    if "default" not in field:
        return
    default = field["default"]
    endless = isinstance(default, float) and not math.isfinite(default)
    if endless or not compile_test(field)(default) or missed_format(field, default):
        raise SchemaError(
            f"its default {shorten(default)} does not fit the field itself; give one that does, or "
            "None for a field that may be left empty"
        )


def _take_options(shape: _Shape, schema: dict[str, Json]) -> dict[str, str | None]:
    """Remove the options from a schema, and what stands beside them below `items`."""
    if shape is _CHOICE:
        return _read_options(schema)
    items = schema.pop("items", None)
    if not isinstance(items, Mapping) or not any(keyword in items for keyword in _OPTIONS):
        raise SchemaError(f"it is a list of something other than choices; {_ALLOWED}")
    items = dict(items)
    options = _read_options(items)
    if "description" in items:
        schema.setdefault("description", items.pop("description"))
    if items.pop("type", "string") != "string" or items:
        raise SchemaError(f"its items must be choices and nothing else; {_ALLOWED}")
    return options


def _read_options(schema: dict[str, Json]) -> dict[str, str | None]:
    keyword = next(keyword for keyword in _OPTIONS if keyword in schema)
    listing = schema.pop(keyword)
    if not isinstance(listing, list) or not listing:
        raise SchemaError(f"{keyword!r} must be a list with at least one choice in it")
    if keyword == "enum":
        titles = schema.pop("enumNames", [None] * len(listing))
        if not isinstance(titles, list) or len(titles) != len(listing):
            raise SchemaError("'enumNames' must be a list with a title for each value of 'enum'")
        options = list(zip(listing, titles, strict=True))
    else:
        options = [_read_titled(keyword, option) for option in listing]
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
            f"{shorten(option)}; {_ALLOWED}"
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


_FORMAT_WORDS: Final = {"email": "an email address such as user@example.com"}


@functools.cache
def _format_test(name: str) -> Test:
    import jsonschema_rs

    schema = {"format": _FORMATS[name]}
    test: Test = jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid
    return test
