from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NewType, Optional, TypedDict

import attrs
import pytest
from typing_extensions import TypeAliasType

from trio_mcp.schema import ArgumentError, SchemaError, describe_function, unstructure

if TYPE_CHECKING:
    from somewhere import Context, Elsewhere

pytestmark = pytest.mark.requirement("C1")


@attrs.define
class Point:
    x: float
    y: float = 0.0
    norm: float = attrs.field(init=False, default=0.0)


@attrs.define
class Tree:
    children: list[Tree]


class Movie(TypedDict):
    name: str


class Pair(NamedTuple):
    a: int


Named = NewType("Named", dict[str, int])
Alias = TypeAliasType("Alias", "dict[str, int]")


async def add(a: float, b: float = 0) -> float:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.

    Returns:
        Their sum.
    """
    return a + b


def test_a_function_describes_itself() -> None:
    described = describe_function(add)
    assert described.name == "add"
    assert described.description == "Add two numbers."
    assert described.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "The first."},
            "b": {"type": "number", "description": "The second.", "default": 0},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert described.output_schema == {"type": "number"}
    assert described.context_parameter is None
    assert described.unstructure is None
    structured = described.structure({"a": 1})
    assert structured == {"a": 1.0}
    assert type(structured["a"]) is float


def test_no_parameters() -> None:
    def ping() -> None: ...

    described = describe_function(ping)
    assert described.description is None
    assert described.input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_what_annotated_says_beats_the_docstring() -> None:
    def tool(a: Annotated[int, "By hand."], b: int) -> None:
        """Do it.

        :param a: By docstring.
        :param b: By docstring.
        """

    properties = describe_function(tool).input_schema["properties"]
    assert properties["a"]["description"] == "By hand."
    assert properties["b"]["description"] == "By docstring."


def test_keyword_only_and_unannotated_parameters() -> None:
    def tool(a, *, b: int = 1):  # type: ignore[no-untyped-def]
        ...

    schema = describe_function(tool).input_schema
    assert schema["properties"] == {"a": {}, "b": {"type": "integer", "default": 1}}
    assert schema["required"] == ["a"]


def test_the_rest_by_keyword() -> None:
    def typed(a: int, **rest: float) -> None: ...

    def untyped(**rest: Any) -> None: ...

    schema = describe_function(typed).input_schema
    assert schema["additionalProperties"] == {"type": "number"}
    assert list(schema["properties"]) == ["a"]
    assert describe_function(typed).structure({"a": 1.0, "b": 1}) == {"a": 1, "b": 1.0}
    assert "additionalProperties" not in describe_function(untyped).input_schema


# The context --------------------------------------------------------------------------------


class _Context:
    pass


class _Special(_Context):
    pass


_Context.__name__ = "Context"


def _plain(a: int, context: _Context) -> None: ...
def _for_checking(a: int, context: Context) -> None: ...
def _optional(a: int, context: Optional[_Context] = None) -> None: ...  # noqa: UP045
def _either(a: int, context: Context | None = None) -> None: ...
def _annotated(a: int, context: Annotated[_Context, "the context"]) -> None: ...
def _derived(a: int, context: _Special) -> None: ...


@pytest.mark.parametrize(
    "function", [_plain, _for_checking, _optional, _either, _annotated, _derived]
)
def test_the_context_stays_out_of_the_schema(function: Callable[..., Any]) -> None:
    described = describe_function(function, context_type=_Context)
    assert described.context_parameter == "context"
    assert list(described.input_schema["properties"]) == ["a"]
    assert described.input_schema["required"] == ["a"]


def test_without_a_context_type_there_is_no_context() -> None:
    with pytest.raises(SchemaError, match="parameter 'context'"):
        describe_function(_plain)


# Callables ----------------------------------------------------------------------------------


class Adder:
    """Adds."""

    def __call__(self, a: int) -> Point:
        """Call it."""
        return Point(a)

    def method(self, a: int) -> None:
        """Add here."""


class Silent:
    def __call__(self, a: int) -> None:
        """Call it."""


def test_methods_partials_and_objects() -> None:
    method = describe_function(Adder().method)
    assert method.name == "method"
    assert method.description == "Add here."
    assert list(method.input_schema["properties"]) == ["a"]

    instance = describe_function(Adder())
    assert instance.name == "Adder"
    assert instance.description == "Adds."
    assert instance.output_schema is not None
    assert describe_function(Silent()).description == "Call it."

    partial = describe_function(functools.partial(add, b=2.0))
    assert partial.name == "add"
    assert partial.description == "Add two numbers."
    assert partial.input_schema["properties"]["b"]["default"] == 2.0


def test_decorated_functions_show_what_they_wrap() -> None:
    @functools.wraps(add)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    described = describe_function(wrapper)
    assert described.name == "add"
    assert list(described.input_schema["properties"]) == ["a", "b"]


def test_local_classes_that_are_closed_over() -> None:
    @attrs.define
    class Local:
        x: int

    def tool(a: Local) -> None:
        Local(1)

    assert describe_function(tool).structure({"a": {"x": 1}}) == {"a": Local(1)}


def test_a_closed_over_name_that_is_not_yet_there() -> None:
    def tool(a: int) -> Any:
        return later

    described = describe_function(tool)
    later = 1
    assert described.name == "tool"
    assert tool(1) == later


# Results ------------------------------------------------------------------------------------


def _returning(annotation: Any) -> Callable[..., Any]:
    def tool() -> None: ...

    tool.__annotations__["return"] = annotation
    return tool


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object"}),
        (dict, {"type": "object"}),
        (Named, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Alias, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[dict[str, Any], "x"], {"type": "object", "description": "x"}),
        (
            Movie,
            {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {
                    "x": {"type": "number"},
                    "y": {"type": "number", "default": 0.0},
                    "norm": {"type": "number", "default": 0.0},
                },
                "required": ["x"],
            },
        ),
        (int, {"type": "integer"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (str, None),
        (Annotated[str, "Words."], None),
        (str | None, None),
        (None, None),
        (Any, None),
    ],
)
def test_output_schemas_are_for_all_but_text(annotation: Any, schema: Any) -> None:
    assert describe_function(_returning(annotation)).output_schema == schema


@pytest.mark.requirement("B5")
def test_a_recursive_result_says_that_it_is_an_object() -> None:
    schema = describe_function(_returning(Tree)).output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert schema["$ref"] == "#/$defs/Tree"


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    ("annotation", "way"),
    [
        (str, None),
        (int, None),
        (float, None),
        (bool, None),
        (None, None),
        (list[int], None),
        (dict[str, float | None], None),
        (dict, unstructure),
        (Any, unstructure),
        (Point, unstructure),
        (list[Point], unstructure),
        (set[int], unstructure),
    ],
)
def test_results_that_need_unstructuring(annotation: Any, way: Any) -> None:
    assert describe_function(_returning(annotation)).unstructure is way


# Refusals -----------------------------------------------------------------------------------


def _star(*values: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _unmappable(a: int, b: complex) -> None: ...
def _unresolved(a: int, b: Elsewhere) -> None: ...
def _unresolved_result(a: int) -> Elsewhere: ...


Endless = TypeAliasType("Endless", "Endless | int")  # type: ignore[misc]


def _pattern(a: Annotated[str, {"pattern": "(?=a)b"}]) -> None: ...
def _keyword(a: Annotated[str, {"minLength": "x"}]) -> None: ...


class Bad:
    def __init__(self, value: complex) -> None: ...


def _bad_result() -> dict[str, complex]: ...


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_star, "function '_star', parameter 'values': arguments are passed by name, so *args"),
        (_positional, "function '_positional', parameter 'a': arguments are passed by name, so it"),
        (
            _unmappable,
            "function '_unmappable', parameter 'b': the class complex has no JSON Schema",
        ),
        (
            _unresolved,
            "function '_unresolved', parameter 'b': the annotation 'Elsewhere' cannot be",
        ),
        (_unresolved_result, "function '_unresolved_result', return annotation: the annotation"),
        (_bad_result, "function '_bad_result', return annotation: the class complex"),
        (_pattern, "function '_pattern': the schema at #/properties/a: the pattern '(?=a)b'"),
        (_keyword, "function '_keyword': the schema is invalid at #/properties/a/minLength"),
        (print, "function 'print', parameter 'args'"),
        (iter, "function 'iter': its signature cannot be read"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        describe_function(function)
    assert str(caught.value).startswith(words)


@pytest.mark.requirement("C3")
def test_inferred_schemas_are_bounded_too() -> None:
    annotation: Any = int
    for _ in range(70):
        annotation = list[annotation]
    with pytest.raises(SchemaError, match="function 'tool': the schema is nested more than"):
        describe_function(_taking(annotation))


def _taking(annotation: Any) -> Callable[..., Any]:
    def tool(a: Any) -> None: ...

    tool.__annotations__["a"] = annotation
    return tool


@pytest.mark.requirement("C3")
def test_patterns_from_constraint_objects_are_checked() -> None:
    from types import SimpleNamespace

    with pytest.raises(
        SchemaError, match=r"function 'tool', parameter 'a': the pattern .* is not accepted"
    ):
        describe_function(_taking(Annotated[str, SimpleNamespace(pattern="(?=a)b")]))


@pytest.mark.requirement("C3")
def test_an_alias_that_stands_for_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="refers to itself in a circle"):
        describe_function(_taking(Endless))


def test_a_schema_by_hand_takes_the_place_of_the_annotations() -> None:
    def tool(a: complex, *, context: _Context) -> None:
        """Do it."""

    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    described = describe_function(tool, context_type=_Context, input_schema=schema)
    assert described.input_schema == schema
    assert described.description == "Do it."
    assert described.context_parameter == "context"
    arguments = {"a": [1, 2]}
    assert described.structure(arguments) is arguments


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    "annotation", [Point, list[Point], Point | None, Callable[[int], Point], dict[str, Point]]
)
def test_results_in_themselves_have_no_schema(annotation: Any) -> None:
    described = describe_function(_returning(annotation), result_types={Point})
    assert described.output_schema is None
    assert described.unstructure is unstructure


@pytest.mark.requirement("B4")
def test_argument_errors_are_value_errors() -> None:
    assert issubclass(ArgumentError, ValueError)


def test_importing_the_room_imports_nothing_heavy() -> None:
    import subprocess

    script = (
        "import sys, trio_mcp.schema as s\n"
        "def f(a: str, b: list[str] = []) -> str: 'Do it.'\n"
        "s.describe_function(f).structure({'a': ''})\n"
        "heavy = {'jsonschema', 'cattrs', 'docstring_parser', 'referencing', 'jsonschema_rs'}\n"
        "validate = s.compile_validator(s.describe_function(f).input_schema, inferred=True)\n"
        "assert validate({'a': ''}) is None\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
