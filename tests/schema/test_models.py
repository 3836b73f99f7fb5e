"""Pydantic's types as arguments and results: its own rules hold, and its errors speak like ours."""

import datetime
import decimal
import enum
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
import pytest
import trio
from attrs import frozen
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, computed_field
from typing_extensions import TypedDict

from tests.support.tools import registry_of
from trio_mcp import Context, Handlers, McpError, Registry, SchemaError, TextContent, connect
from trio_mcp.registry.forms import form_of
from trio_mcp.schema import describe_function, schema_of
from trio_mcp.wire.revisions import NEWEST

pytestmark = pytest.mark.requirement("L2")

T = TypeVar("T")


class Item(BaseModel):
    """Something to buy."""

    name: Annotated[str, Field(min_length=2, description="What it is called.")]
    price: decimal.Decimal = decimal.Decimal(1)

    @pydantic.field_validator("name")
    @classmethod
    def _not_sold_out(cls, name: str) -> str:
        if name == "gold":
            raise ValueError("gold is sold out")
        return name.strip()


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    items: list[Item]
    day: datetime.date = Field(alias="onDay")
    copies: int = Field(1, ge=1, validation_alias=AliasChoices("copies", "qty"))

    @computed_field  # type: ignore[prop-decorator]  # as pydantic's own documentation has it
    @property
    def total(self) -> int:
        return self.copies * len(self.items)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: datetime.date
    number: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Page(BaseModel, Generic[T]):
    items: list[T]


class Names(pydantic.RootModel[list[str]]):
    pass


@pydantic.dataclasses.dataclass
class Point:
    x: float = Field(ge=0)


class Node(BaseModel):
    next: "Node | None" = None


class Choice(BaseModel):
    left: "Choice | Other | int"


class Other(BaseModel):
    left: "Choice | Other | int"


@frozen
class Basket:
    """A class of ours with models in it."""

    orders: list[Item]
    first: Item | None = None


class Plain(TypedDict):
    item: Item


def structured(annotation: Any, value: Any) -> Any:
    """What a function gets whose only parameter is annotated so."""

    def use(it: Any) -> None: ...

    use.__annotations__["it"] = annotation
    registry = Registry("test")
    registry.add_tool(use)
    keywords = registry.tools["use"].bind({"it": value})
    return (keywords if isinstance(keywords, dict) else keywords.check())["it"]


ORDER = {"items": [{"name": "tea"}], "onDay": "2030-01-31"}


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Order, ORDER, Order(items=[Item(name="tea")], day=datetime.date(2030, 1, 31))),
        # By its name, by another alias, and with text for a number: as the model has it.
        (
            Order,
            {"items": [], "day": "2030-01-31", "qty": "2"},
            Order(items=[], day=datetime.date(2030, 1, 31), copies=2),
        ),
        (
            Strict,
            {"day": "2030-01-31", "number": 1},
            Strict(day=datetime.date(2030, 1, 31), number=1),
        ),
        (list[Item], [{"name": " ab "}], [Item(name="ab")]),
        (dict[str, Item] | None, {"a": {"name": "ab"}}, {"a": Item(name="ab")}),
        (Item | None, None, None),
        (Item | int, 3, 3),
        (Pet, {"kind": "dog"}, Dog(kind="dog")),
        (list[Pet], [{"kind": "cat"}], [Cat(kind="cat")]),
        (Page[Item], {"items": [{"name": "ab"}]}, Page[Item](items=[Item(name="ab")])),
        (Names, ["a"], Names(["a"])),
        (Point, {"x": 1}, Point(1.0)),
        (Basket, {"orders": [{"name": "ab"}]}, Basket([Item(name="ab")])),
        (Basket | Item, {"orders": [], "first": None}, Basket([])),
        (Plain, {"item": {"name": "ab"}}, {"item": Item(name="ab")}),
        (Node, {"next": {"next": None}}, Node(next=Node())),
        (Annotated[str, AfterValidator(str.upper)], "a", "A"),
        (list[Annotated[str, AfterValidator(str.upper)]], ["a"], ["A"]),
        (Annotated[str, pydantic.StringConstraints(to_lower=True)], "A", "a"),
        (pydantic.AnyUrl, "https://a.example/", pydantic.AnyUrl("https://a.example/")),
        (pydantic.SecretStr, "x", pydantic.SecretStr("x")),
    ],
)
def test_arguments(annotation: Any, value: Any, expected: Any) -> None:
    found = structured(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (
            Order,
            {"items": [{}, {"name": "x"}], "onDay": "tomorrow"},
            "Missing required argument 'it.items[0].name'. "
            "Argument 'it.items[1].name' must have at least 2 characters, "
            "but a string came ('x'). "
            "Argument 'it.onDay' must be a valid date or datetime, input is too short, "
            "but a string came ('tomorrow').",
        ),
        (Order, {**ORDER, "colour": "red"}, "Unexpected argument 'it.colour'."),
        (
            list[Item],
            [{"name": "gold"}],
            "Argument 'it[0].name' is not acceptable: gold is sold out.",
        ),
        (Basket, {"orders": [{}]}, "Missing required argument 'it.orders[0].name'."),
        (str | Item, {"price": 1}, "Missing required argument 'it.name'."),
        (
            Strict,
            {"day": "2030-01-31", "number": "1"},
            "must be a valid integer, but a string came",
        ),
        (Pet, {"kind": "cow"}, "does not match any of the expected tags: 'cat', 'dog'"),
        (Point, {"x": -1}, "'it.x' must be greater than or equal to 0, but a number came (-1)."),
        (Item, "x" * 1_000_000, f"but a string came ('{'x' * 56}..."),
        (Item, {"name": "x" * 1_000_000, "price": "y" * 1_000_000}, "must be a valid decimal"),
        (Item, {"x" * 1_000_000: 1}, "Missing required argument 'it.name'."),
        (list[Item], [{}] * 100_000, "Missing required argument 'it[0].name'."),
    ],
)
async def test_refusals(annotation: Any, value: Any, said: str) -> None:
    """By the call of a tool, so that what takes long is done in a thread."""

    def use(it: Any) -> None: ...

    use.__annotations__["it"] = annotation
    registry = Registry("test")
    registry.add_tool(use)
    with pytest.raises(McpError) as refused:
        await registry.call("use", {"it": value})
    assert said in str(refused.value)
    assert len(str(refused.value)) < 600
    assert "pydantic" not in str(refused.value)


def test_schemas_share_definitions_and_keep_names_apart() -> None:
    def make(name: str, kind: type) -> type[BaseModel]:
        return pydantic.create_model(name, value=(kind, ...))

    first, second = make("Value", int), make("Value", str)

    @frozen
    class Value:
        value: float

    async def use(a: first, b: first, c: second, d: second, e: Value, f: Value) -> Order: ...  # type: ignore[valid-type]

    described = describe_function(use)
    references = [each["$ref"] for each in described.input_schema["properties"].values()]
    assert len(set(references)) == 3
    kinds = [
        each["properties"]["value"]["type"] for each in described.input_schema["$defs"].values()
    ]
    assert kinds == ["integer", "string", "number"]
    assert "title" not in json.dumps(described.input_schema)
    # What comes out is what is serialized: with what is computed, and without validation's aliases.
    assert described.output_schema is not None
    assert {"items", "onDay", "copies", "total"} == set(described.output_schema["properties"])


async def test_results() -> None:
    registry = Registry("test")

    @registry.tool
    async def order() -> Order:
        return Order.model_validate(ORDER)

    @registry.tool
    async def mixed() -> dict[str, Any]:
        return {"items": [Item(name="ab")], "secret": pydantic.SecretStr("x"), "at": Point(1)}

    @registry.tool
    async def several() -> list[Item]:
        return [Item(name="ab")]

    @registry.tool
    async def pet() -> Cat | Dog:
        return Cat(kind="cat")

    @registry.tool
    async def broken() -> Item:
        return Item.model_construct(name=3)

    for era in ("legacy", "modern"):
        async with connect(registry, era=era) as client:
            result = await client.call_tool("order")
            wire = {"items": [{"name": "tea", "price": "1"}], "onDay": "2030-01-31"}
            assert result.structured_content == {**wire, "copies": 1, "total": 1}
            assert json.loads(result.text) == result.structured_content
            assert (await client.call_tool("mixed")).structured_content == {
                "items": [{"name": "ab", "price": "1"}],
                "secret": "**********",
                "at": {"x": 1.0},
            }
            assert await client.call_tool("several", returns=list[Item]) == [Item(name="ab")]
            assert await client.call_tool("pet", returns=Pet) == Cat(kind="cat")
            assert client.tools["pet"].output_schema is not None
            with pytest.raises(Exception, match="must be a string, but a number came"):
                await client.call_tool("broken")


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (pydantic.create_model("Holder", lock=(Any, ...)), None),
        (
            pydantic.create_model(
                "Locked", __config__=ConfigDict(arbitrary_types_allowed=True), lock=(trio.Lock, ...)
            ),
            "Pydantic has no JSON Schema for Locked: Cannot generate a JsonSchema for",
        ),
        (Annotated[Basket, AfterValidator(id)], "Pydantic has no JSON Schema for .*Basket"),
    ],
)
def test_models_without_a_schema(annotation: Any, words: str | None) -> None:
    def use(it: Any) -> None: ...

    use.__annotations__["it"] = annotation
    registry = Registry("test")
    if words is None:
        registry.add_tool(use)
        assert structured(annotation, {"lock": [1]}).lock == [1]
        return
    with pytest.raises(SchemaError, match=f"^Tool 'use': function 'use', parameter 'it': {words}"):
        registry.add_tool(use)
    use.__annotations__ = {"it": int, "return": annotation}
    with pytest.raises(SchemaError, match=r"^Tool 'use': function 'use', return annotation: "):
        registry.add_tool(use)


def test_a_model_that_is_not_complete() -> None:
    class Incomplete(BaseModel):
        other: "NotThereYet"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match=r"Incomplete names types .* or call .*rebuild\(\)"):
        schema_of(Incomplete)


def test_a_model_of_pydantic_1_is_told_what_to_do() -> None:
    old = pytest.importorskip("pydantic.v1", reason="there is none from Python 3.14 on")

    class Old(old.BaseModel):  # type: ignore[misc, name-defined]
        number: int

    for annotation in (Old, list[Old]):
        with pytest.raises(SchemaError, match="Old is a model of Pydantic 1; derive it from"):
            schema_of(annotation)


def _raise(error: BaseException) -> Callable[[Any], Any]:
    def validate(value: Any) -> Any:
        raise error

    return validate


@pytest.mark.parametrize(
    "error",
    [KeyError("inside"), RecursionError("inside"), OSError("inside"), SystemExit("inside")],
)
def test_what_a_validator_raises_by_mistake_is_not_told(error: BaseException) -> None:
    odd = Annotated[int, AfterValidator(_raise(error))]
    for annotation, value in (
        (odd, 1),
        (pydantic.create_model("Odd", number=(odd, ...)), {"number": 1}),
    ):
        with pytest.raises(ValueError, match=r"^Argument 'it' is not acceptable\.$"):
            structured(annotation, value)


@pytest.mark.long
def test_what_would_take_long() -> None:
    """Pydantic holds up everything else, and tries each member of a union: so both are bounded."""
    many = pydantic.create_model("Many", items=(list[Cat], ...))
    cat = {"kind": "cat"}
    assert len(structured(list[Cat], [cat] * 100_000)) == 100_000
    assert len(structured(many, {"items": [cat] * 10_000}).items) == 10_000
    wrong = r"^Argument 'it' is not acceptable: 10000 values in it are wrong or missing\.$"
    with pytest.raises(ValueError, match=wrong):  # too many to tell
        structured(many, {"items": [{}] * 10_000})
    with pytest.raises(ValueError, match="'it' must be less, or nested less deeply"):
        structured(many, {"items": [cat] * 100_000})
    nested: Any = "x"
    for _ in range(100):
        nested = {"left": nested}
    start = time.perf_counter()
    with pytest.raises(ValueError, match="nested less deeply"):
        structured(Choice, nested)
    assert time.perf_counter() - start < 30  # it would not end
    nested = 1
    for _ in range(10):
        nested = {"left": nested}
    assert structured(Choice, nested).left.left is not None
    with pytest.raises(ValueError, match=r"^Argument 'it(\.next)+.*must be an object"):
        structured(Node, json.loads('{"next":' * 180 + "7" + "}" * 180))


def test_a_thousand_fields() -> None:
    fields: Any = {f"field{number}": (int, number) for number in range(1000)}
    large = pydantic.create_model("Large", **fields)
    assert len(schema_of(large)["properties"]) == 1000
    assert structured(large, {"field7": 1}).field7 == 1
    larger: Any = {f"field{number}": (int | None, None) for number in range(1000)}
    with pytest.raises(SchemaError, match="more than 2000 subschemas"):
        structured(pydantic.create_model("Larger", **larger), {})


@pytest.mark.parametrize(
    ("wide", "default", "few", "many"),
    [(200, 0, 100, 2000), (50, [], 100, 1000), (2, 0, 1000, None)],
)
def test_fields_that_are_left_out_are_work_too(
    wide: int, default: Any, few: int, many: int | None
) -> None:
    """A model of 200 fields is made of two characters, and the defaults hold up everything."""
    fields: Any = {f"field{number}": (type(default), default) for number in range(wide)}
    row = pydantic.create_model("Row", **fields)
    rows: Any = list[row]  # type: ignore[valid-type]
    small = pydantic.create_model("Small", rows=(rows, ...), others=(list[Cat], []))
    assert len(structured(small, {"rows": [{}] * few}).rows) == few
    others = [{"kind": "cat"}] * 5000  # which are small, whatever else there is
    assert len(structured(small, {"rows": [{}], "others": others}).others) == 5000
    if many is not None:
        with pytest.raises(ValueError, match="'it' must be less"):
            structured(small, {"rows": [{}] * many})


def test_nobody_imports_it_but_the_user() -> None:
    program = (
        "import sys\n"
        "from typing import Annotated\n"
        "from attrs import frozen\n"
        "from trio_mcp import Registry\n"
        "@frozen\n"
        "class Trip:\n"
        "    to: Annotated[str, {'minLength': 1}]\n"
        "registry = Registry('test')\n"
        "@registry.tool\n"
        "def book(trip: Trip | None) -> list[Trip]: ...\n"
        "registry.tools['book'].bind({'trip': {'to': 'Graz'}})\n"
        "print(sorted(each for each in sys.modules if each.startswith('pydantic')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Booking(BaseModel):
    name: Annotated[str, Field(min_length=2, title="Your name")]
    seats: int = Field(1, gt=0, alias="seatCount")
    day: datetime.date | None = None
    size: Size = Size.SMALL

    @pydantic.model_validator(mode="after")
    def _not_seven(self) -> "Booking":
        if self.seats == 7:
            raise ValueError("seven is too many")
        return self


def test_a_form() -> None:
    form = form_of(Booking, NEWEST)
    assert form.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "seatCount": {"type": "integer", "minimum": 1, "default": 1},
            "day": {"type": "string", "format": "date"},
            "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
        },
        "required": ["name"],
    }
    answer = {"name": "Ada", "day": "2030-01-31", "size": "large"}
    booked = Booking(name="Ada", day=datetime.date(2030, 1, 31), size=Size.LARGE)
    assert form.parse(answer) == booked
    for wrong, said in (
        ({"name": "Ada", "seatCount": 7}, "The form is not acceptable: seven is too many."),
        ({"name": "Ada", "day": "x"}, "Field 'day' must be a date such as 2024-05-31, but"),
        ({}, "Missing required field 'name' (string)."),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
            form.parse(wrong)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_answer_is_a_model_however_it_travels(era: Any) -> None:
    """In a modern revision, the first one comes back in the state that is sealed with the second."""
    answers = [{"name": "Ada", "seatCount": 2, "day": "2030-01-31"}, {"value": "yes"}]

    async def answer(_: Any) -> dict[str, Any]:
        return {"action": "accept", "content": answers.pop(0)}

    async def book(context: Context) -> str:
        booking = (await context.elicit("Whom for?", Booking)).value
        sure = (await context.elicit("Sure?", str)).value
        return f"{type(booking).__name__} {booking.day:%A} {booking.seats} {sure}"

    handlers = Handlers(elicitation=answer)
    async with connect(registry_of(book), era=era, handlers=handlers) as client:
        assert await client.call_tool("book", returns=str) == "Booking Thursday 2 yes"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Order, "field 'items' of Order: it is a list of something other than choices; a form may"),
        (Node, "field 'next' of Node: it is an object, and a form is flat"),
        (Page[Item], "field 'items' of Page"),
        (Names, "it is a list of something other than choices"),
    ],
)
def test_forms_are_flat(kind: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(words)):
        form_of(kind, NEWEST)


async def test_what_travels_as_text() -> None:
    """Prompts get text: what is not text to a model is read as JSON."""
    registry = Registry("test")

    @registry.prompt
    def cook(item: Item, guests: Annotated[int, AfterValidator(abs)]) -> str:
        return f"{item.name} {guests}"

    async with connect(registry) as client:
        prompt = await client.get_prompt("cook", {"item": '{"name": "tea"}', "guests": "-2"})
        assert prompt.messages[0].content == TextContent("tea 2")
        with pytest.raises(McpError, match=r"Missing required argument 'item\.name'"):
            await client.get_prompt("cook", {"item": "{}", "guests": "1"})
