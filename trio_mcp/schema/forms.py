"""Forms: what a server may ask of a user (elicitation), and what to make of the answer.

A form is a flat object. What is asked for is said as everywhere else, by a class or a type; each
field becomes a schema as a tool's parameter does, which is then read as the field of a form
(`form_fields`) and written as the revision wants it. The answer goes the same way back: it is
checked against the very schema that was sent, and what formats demand beyond it, and structured.

Fields that were not asked for are left out of what is returned.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from attrs import NOTHING, field, frozen

from trio_mcp.schema.annotations import Builder
from trio_mcp.schema.dialects import dialect_of
from trio_mcp.schema.errors import ArgumentError, Unfit, Within, errors_at
from trio_mcp.schema.fields import is_record
from trio_mcp.schema.form_fields import DIALECTS_SINCE, FORMS_SINCE, form_field, missed_format
from trio_mcp.schema.hooks import Hook, hook_for
from trio_mcp.schema.kinds import annotation_text, without_names
from trio_mcp.schema.models import is_model
from trio_mcp.schema.sentences import cut, listed
from trio_mcp.schema.size import check_size
from trio_mcp.schema.structuring import explain
from trio_mcp.schema.validate import Validator, compile_validator
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import SINCE, Revision

__all__ = ["Form", "form_of"]

T = TypeVar("T")

_ONLY: Final = "value"
"""The name of the only field of a form for a single value."""


@frozen(eq=False)
class Form(Generic[T]):
    """A form to be filled in by a user, as one revision writes it."""

    schema: dict[str, Json]
    """The `requestedSchema`."""

    _emptied: Sequence[str] = field(repr=False)
    """The fields that are `None` if they were left empty; of others the class knows better."""

    _validate: Validator = field(repr=False)
    _make: Callable[[dict[str, Any]], T] = field(repr=False)

    def takes_long(self, content: Json) -> bool:
        """Whether `parse` would hold up an event loop."""
        return self._validate.takes_long(content)

    def parse(self, content: Json) -> T:
        """Turn the content of an accepted form into what was asked for.

        Args:
            content: What the client returned.

        Returns:
            An instance of the class, the single value, or for a raw schema a dictionary. Where
            an optional field was left empty it has its default, which is `None` if the class
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
        for name in (each for each in asked if each in content):
            answer = answers[name] = content[name]
            expected = missed_format(asked[name], answer)
            if expected is not None:
                raise ArgumentError(Unfit(expected, answer).tell("field", name))
        try:
            return self._make(answers)
        except (Exception, SystemExit) as error:  # a validator that exits must not end the server
            raise ArgumentError(explain("field", error)) from error


@overload
def form_of(kind: type[T], revision: Revision) -> Form[T]: ...
@overload
def form_of(kind: Mapping[str, Json], revision: Revision) -> Form[dict[str, Json]]: ...
@overload
def form_of(kind: object, revision: Revision) -> Form[Any]: ...
def form_of(kind: Any, revision: Revision) -> Form[Any]:
    """Make the form that asks a user for a value (Elicitation, "Form Mode", "Requested Schema").

    Args:
        kind: An attrs class, a dataclass, a `TypedDict` or a Pydantic model, whose fields are
            `str`, `int`, `float`, `bool`, `date`, `datetime`, `Literal` or `Enum` of strings, a
            list of the latter two, or one of these or `None`; what stands in `Annotated` describes
            and bounds them, and `{"format": "email"}` or `"uri"` there says more of a string. A
            field with a default, or that may be `None`, may be left empty. Or one of those types
            alone, which makes a form with one field, "value". Or a JSON Schema, whose own title and
            description are not sent.
        revision: The revision that the client speaks. The titles of an `Enum`, from the names of
            its members, and defaults are written as it has them; 2025-06-18 has defaults only for
            `bool`, and no lists.

    Returns:
        The form.

    Raises:
        SchemaError: Forms cannot ask for such a value, or not in this revision. The message names
            the field and says what is allowed.

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
) -> Form[Any]:
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


# Types ----------------------------------------------------------------------------------------


def _maker_of_one(hook: Hook) -> Hook:
    def make(answers: dict[str, Any]) -> Any:
        try:
            return hook(answers[_ONLY])
        except Exception as error:
            raise Within(_ONLY, error) from error

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
        if schema["type"] == "string" and any(each.name != each.value for each in kind):
            del schema["enum"]
            schema["oneOf"] = [{"const": each.value, "title": _title(each.name)} for each in kind]
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
        others = [each for each in members if each != {"type": "null"}]
        del without["anyOf"]
        without = {**others[0], **without} if len(others) == 1 else {"anyOf": others, **without}
    kinds, values = without.get("type"), without.get("enum")
    if isinstance(kinds, list) and isinstance(values, list) and None in values:
        named = [each for each in kinds if each != "null"]
        without["type"] = named[0] if len(named) == 1 else named
        without["enum"] = [each for each in values if each is not None]
    optional = without != schema
    if without.get("default", NOTHING) is None:
        del without["default"]
    return without, optional


# Raw schemas ----------------------------------------------------------------------------------

_MEANT: Final = ("$schema", "type", "properties", "required")
_NOT_SENT: Final = ("title", "description")


def _form_of_schema(schema: Mapping[str, Json], revision: Revision) -> Form[dict[str, Json]]:
    for keyword in schema:
        if keyword not in (*_MEANT, *_NOT_SENT):
            raise SchemaError(
                f"{cut(keyword)} has no place in the schema of a form, which has "
                f"{listed(map(repr, _MEANT), 'and')}"
            )
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise SchemaError("the schema of a form must have the type 'object', and 'properties'")
    known = [each for each in properties if isinstance(required, list) and each in required]
    if not isinstance(required, list) or len(known) != len(required):
        raise SchemaError("'required' must list names that are in 'properties', each once")
    for name in properties:
        if not isinstance(name, str):
            raise SchemaError(f"field {cut(name)}: its name must be a string")
    dialect_of(schema)
    return _form(schema, revision, lambda answers: answers, is_raw=True)
