"""The fields of a class that stands for a JSON object.

attrs classes, dataclasses, `TypedDict` and `NamedTuple` keep their fields each in their own way;
here all become a list of `Field`, for schemas, structuring and unstructuring.
"""

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import Any

import attrs
from attrs import NOTHING, Factory, field, frozen

from trio_mcp.wire.errors import SchemaError

UNIONS = (typing.Union, types.UnionType)
"""The origins of `Union[A, B]` and of `A | B`."""


def resolve_names(annotation: Any, known: dict[str, Any], local: dict[str, Any]) -> Any:
    """Replace the names within an annotation by what they stand for."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, known, local, include_extras=True)["it"]


_QUALIFIERS = {"Required": True, "NotRequired": False, "ReadOnly": None}


@frozen(eq=False, repr=False)
class Field:
    """One field of a record class.

    `name` is the attribute and the JSON name; `init` says whether the constructor takes it, which
    calls it `keyword`.
    """

    name: str
    annotation: Any
    required: bool
    default: Any = field(factory=lambda: NOTHING)
    description: str | None = None
    init: bool = True
    keyword: str = field(default=Factory(lambda self: self.name, takes_self=True))


def class_of(annotation: Any) -> Any:
    """The class of a generic one with its types: `Page` of `Page[Note]`; others as they are."""
    return typing.get_origin(annotation) or annotation


def key_of(annotation: Any) -> Any:
    """What an annotation is looked up by: itself; its text where a mapping within has no hash."""
    try:
        hash(annotation)
    except TypeError:
        return repr(annotation)
    return annotation


def is_typed_dict(kind: Any) -> bool:
    kind = class_of(kind)
    return (
        isinstance(kind, type)
        and issubclass(kind, dict)
        and hasattr(kind, "__required_keys__")
        and hasattr(kind, "__total__")
    )


def is_named_tuple(kind: Any) -> bool:
    kind = class_of(kind)
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_field_defaults")


def is_record(kind: Any) -> bool:
    """Whether instances of a class, which may be generic, are JSON objects with known fields."""
    kind = class_of(kind)
    return is_typed_dict(kind) or (members_of(kind) is not None and not is_opaque(kind))


def members_of(kind: Any) -> Sequence[Any] | None:
    """The fields of an attrs class or a dataclass, as these have them; else `None`."""
    if not isinstance(kind, type):
        return None
    if attrs.has(kind):
        fields: tuple[Any, ...] = attrs.fields(kind)
        return fields
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else None


def is_opaque(kind: Any) -> bool:
    """Whether `kind` only looks like a record: all its fields are private, and it makes them."""
    fields = members_of(kind) or ()
    return bool(fields) and not any(member.init or member.name[0] != "_" for member in fields)


def fields_of(annotation: Any) -> list[Field]:
    """List the fields of a class that `is_record`, with their annotations resolved."""
    kind = class_of(annotation)
    try:
        hints = typing.get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise SchemaError(
            f"the annotations of class {kind.__qualname__} cannot be resolved ({error}). If the "
            "class is yours, define what they name at module level, outside `if TYPE_CHECKING`; "
            "if not, it may be no data, and has no JSON Schema"
        ) from error
    for name, hint in hints.items():
        hints[name] = _with_types(hint, _types_of(annotation, name))
    if is_typed_dict(kind):
        return _typed_dict_fields(kind, hints)
    return _named_tuple_fields(kind, hints) if is_named_tuple(kind) else _class_fields(kind, hints)


def _types_of(annotation: Any, name: str) -> dict[Any, Any]:
    """What type variables stand for in the class that a field comes from."""
    kind = class_of(annotation)
    variables = getattr(kind, "__parameters__", ())
    given = typing.get_args(annotation)
    if annotation is kind:  # generic, without types
        given = tuple(map(_usual_type, variables))
    types = dict(zip(variables, given, strict=False))
    # A TypedDict also has the annotations that it inherits.
    own = {} if is_typed_dict(kind) else vars(kind).get("__annotations__", {})
    if name not in own:
        for base in vars(kind).get("__orig_bases__", kind.__bases__):
            inherited = getattr(class_of(base), "__mro__", ())  # `TypedDict` is a function
            if any(name in vars(ancestor).get("__annotations__", {}) for ancestor in inherited):
                return _types_of(_with_types(base, types), name)
    return types


def _with_types(annotation: Any, types: Mapping[Any, Any]) -> Any:
    if isinstance(annotation, typing.TypeVar):
        return types.get(annotation, Any)
    variables = getattr(annotation, "__parameters__", ())
    if not variables or isinstance(annotation, type):
        return annotation
    return annotation[tuple(types.get(variable, Any) for variable in variables)]


def _usual_type(variable: Any) -> Any:
    if getattr(variable, "has_default", bool)():  # from Python 3.13 on
        return variable.__default__
    if variable.__constraints__:
        return typing.Union[variable.__constraints__]  # noqa: UP007
    return variable.__bound__ or Any


def _class_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    fields = []
    for member in members_of(kind) or ():
        has_default = member.default is not NOTHING and member.default is not MISSING
        is_made = isinstance(member.default, Factory)  # type: ignore[arg-type]
        fields.append(
            Field(
                name=member.name,
                annotation=hints.get(member.name, Any if member.type is None else member.type),
                required=not has_default and getattr(member, "default_factory", MISSING) is MISSING,
                default=member.default if has_default and not is_made else NOTHING,
                description=member.metadata.get("description"),
                init=member.init,
                keyword=getattr(member, "alias", None) or member.name,
            )
        )
    return fields


def _typed_dict_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    fields = []
    for name, hint in hints.items():
        required = name in kind.__required_keys__
        while (qualifier := getattr(typing.get_origin(hint), "_name", None)) in _QUALIFIERS:
            explicit = _QUALIFIERS[qualifier]
            required = required if explicit is None else explicit
            (hint,) = typing.get_args(hint)
        fields.append(Field(name, hint, required))
    return fields


def _named_tuple_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    defaults = kind._field_defaults
    return [
        Field(name, hints.get(name, Any), name not in defaults, defaults.get(name, NOTHING))
        for name in kind._fields
    ]


def own_docstring(kind: type) -> str | None:
    """The docstring that the author wrote for the class, not one that was generated."""
    text = kind.__dict__.get("__doc__")
    if not isinstance(text, str) or not text.strip():
        return None
    generated = text.startswith((f"{kind.__name__}(", "Method generated by attrs"))
    return None if generated else inspect.cleandoc(text)
