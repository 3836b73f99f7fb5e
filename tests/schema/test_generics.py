"""Generic classes with their types, and without: as arguments and results."""

import dataclasses
import datetime
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import pytest
from attrs import field, frozen

from trio_mcp import Registry, connect
from trio_mcp.schema import describe_function

pytestmark = pytest.mark.requirement("C2")

T = TypeVar("T")
U = TypeVar("U")
Whole = TypeVar("Whole", bound=int)


@frozen
class Note:
    text: str


@frozen
class Page(Generic[T]):
    items: list[T]
    next: "Page[T] | None" = None
    first: Annotated[T | None, {"description": "The first."}] = None


@frozen
class Indexed(Page[U], Generic[U, T]):
    by_name: dict[str, T] = field(factory=dict)


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T | None = None


class Days(Page[datetime.date]):
    pass


@frozen
class Counted(Generic[Whole]):
    number: Whole


class Pair(TypedDict, Generic[T]):
    one: T
    other: list[T]


class Dates(Pair[datetime.date]):
    more: int


def structured(annotation: Any, value: Any) -> Any:
    def use(it: Any) -> None: ...

    use.__annotations__["it"] = annotation
    return describe_function(use).structure({"it": value})["it"]


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (
            Page[Note],
            {"items": [{"text": "a"}], "next": {"items": []}, "first": {"text": "b"}},
            Page([Note("a")], Page([]), Note("b")),
        ),
        (Page[datetime.timedelta], {"items": ["PT1M"]}, Page([datetime.timedelta(minutes=1)])),
        (Page, {"items": [1, "a"]}, Page([1, "a"])),
        (Days, {"items": ["2030-01-31"]}, Days([datetime.date(2030, 1, 31)])),
        (Counted, {"number": 1.0}, Counted(1)),
        (Box[Box[Note]], {"inside": {"inside": {"text": "a"}}}, Box(Box(Note("a")))),
        (Pair[Note], {"one": {"text": "a"}, "other": []}, {"one": Note("a"), "other": []}),
        (
            Dates,
            {"one": "2030-01-31", "other": [], "more": 1},
            {"one": datetime.date(2030, 1, 31), "other": [], "more": 1},
        ),
        (Page[Note] | Note, {"text": "a"}, Note("a")),
        (list[Page[int]], [{"items": [1.0]}], [Page([1])]),
        (
            Pair[Annotated[float, {"maximum": 9}]],
            {"one": 1, "other": [2]},
            {"one": 1.0, "other": [2.0]},
        ),
    ],
)
def test_arguments(annotation: Any, value: Any, expected: Any) -> None:
    found = structured(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


def test_types_of_a_base_and_of_the_class_itself_are_not_mixed_up() -> None:
    value = {"items": [{"text": "a"}], "by_name": {"b": 1.0}}
    found = structured(Indexed[Note, int], value)
    assert (found.items, found.by_name) == ([Note("a")], {"b": 1})
    with pytest.raises(ValueError, match=r"Argument 'it\.items\[0\]' must be a date"):
        structured(Page[datetime.date], {"items": ["x"]})


async def test_each_has_a_schema_of_its_own() -> None:
    registry = Registry("test")

    @registry.tool
    async def merge(one: Page[Note], other: Page[Note], numbers: Page[int]) -> Page[Note]:
        return Page([*one.items, *other.items], first=Note(str(len(numbers.items))))

    schema = registry.tools["merge"].description.input_schema
    definitions = schema["$defs"]
    assert set(definitions) == {"Page_Note", "Note", "Page_int"}
    assert definitions["Page_int"]["properties"]["items"]["items"] == {"type": "integer"}
    page = {"items": [{"text": "a"}]}
    async with connect(registry) as client:
        arguments = {"one": page, "other": page, "numbers": {"items": [1]}}
        merged = await client.call_tool("merge", arguments, returns=Page[Note])
    assert merged == Page([Note("a"), Note("a")], first=Note("1"))
