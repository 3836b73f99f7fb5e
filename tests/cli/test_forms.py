"""Forms at a terminal: what is asked, and what an answer means. The person is played by a list."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import pytest
import trio

from trio_mcp.cli.forms import ask_for, fill_in
from trio_mcp.cli.schemas import Field


@attrs.define
class Notes:
    """A screen that remembers."""

    told: list[str] = attrs.field(factory=list)

    def note(self, text: str, style: str = "") -> None:
        self.told.append(text)

    quote = note


@attrs.define
class Person:
    """Answers one question after the other."""

    answers: list[str]
    screen: Notes = attrs.field(factory=Notes)
    asked: list[tuple[str, str, tuple[str, ...]]] = attrs.field(factory=list)
    turn: trio.Lock = attrs.field(factory=trio.Lock)
    paused: Any = nullcontext
    occupied: bool = False

    async def ask(self, label: str, *, default: str = "", choices: Sequence[str] = ()) -> str:
        self.asked.append((label, default, tuple(choices)))
        return self.answers.pop(0)


async def answered(schema: Any, *answers: str, required: bool = True) -> tuple[Any, Person]:
    person = Person(list(answers))
    value = await ask_for(person, "x", Field(schema, {}), required=required)  # type: ignore[arg-type]
    assert person.answers == []
    return value, person


FISH = [{"const": "f1", "title": "Tuna"}, {"const": "f2", "title": "Salmon"}]


@pytest.mark.parametrize(
    ("schema", "answers", "value"),
    [
        ({"type": "string"}, ["3"], "3"),
        ({"type": "integer", "minimum": 5}, ["x", "3", "7"], 7),
        ({"type": "number"}, ["2.5"], 2.5),
        ({"type": "boolean"}, ["maybe", "TRUE"], True),
        *(({"type": "boolean"}, [each], True) for each in ("yes", "Y", "true", "1")),
        *(({"type": "boolean"}, [each], False) for each in ("no", "N", "False", "0")),
        ({"enum": [True]}, ["no", "yes"], True),
        ({"type": ["boolean", "string"]}, ["yes"], "yes"),
        ({"type": "string", "minLength": 2}, ["", "a", "ab"], "ab"),
        ({"type": "string", "enum": ["a", "b"]}, ["c", "B"], "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]}, ["second"], "b"),
        ({"type": "string", "oneOf": FISH}, ["Shark", "salmon"], "f2"),
        ({"type": "string", "oneOf": FISH}, ["f1"], "f1"),
        ({"type": "array", "items": {"anyOf": FISH}}, ["Tuna, f2"], ["f1", "f2"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, ["a, b", "a"], ["a"]),
        ({"type": "string", "format": "email"}, ["ada", "ada@x.org"], "ada@x.org"),
        ({"type": "string", "format": "date"}, ["1st of May", "2030-05-01"], "2030-05-01"),
        ({"type": "string", "format": "of our own"}, ["anything"], "anything"),
        ({"type": "array", "items": {"type": "integer"}}, ["1, 2"], [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, ["[3]"], [3]),
        ({"type": "object"}, ['{"a": 1}'], {"a": 1}),
        ({"type": "nothing"}, ["a broken schema checks nothing"], "a broken schema checks nothing"),
    ],
)
async def test_answers_are_taken_until_one_fits(
    schema: Any, answers: list[str], value: Any
) -> None:
    found, person = await answered(schema, *answers)
    assert found == value
    assert len(person.screen.told) == len(answers) - 1


async def test_a_missed_format_is_told_in_words() -> None:
    _, person = await answered({"type": "string", "format": "email"}, "ada", "ada@x.org")
    assert person.screen.told == ["Answer 'x' must be an email address such as user@example.com."]


async def test_what_is_shown_before_the_answer() -> None:
    schema = {
        "type": "array",
        "title": "Fish",
        "description": "Those that you like.",
        "items": {"anyOf": FISH},
        "default": ["f2"],
    }
    _, person = await answered(schema, "Tuna")
    assert person.screen.told == ["Fish", "Those that you like."]
    assert person.asked == [("x (some of Tuna|Salmon): ", "Salmon", ("Tuna", "Salmon"))]
    _, person = await answered({"type": "boolean", "default": False}, "", required=False)
    assert person.asked == [("x (yes or no, optional): ", "no", ("yes", "no"))]
    _, person = await answered({"type": ["boolean", "integer"]}, "3")
    assert person.asked == [("x (integer|boolean): ", "", ("true", "false"))]


async def test_what_is_neither_yes_nor_no_is_told_in_words() -> None:
    _, person = await answered({"type": "boolean"}, "perhaps", "no")
    assert person.screen.told == ["Answer 'x' must be yes or no."]


async def test_what_is_optional_can_be_left_out() -> None:
    assert (await answered({"type": "integer"}, "", required=False))[0] is None
    assert (await answered({"type": "integer"}, "x", "", required=False))[0] is None


ADDRESS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "description": "With its number."},
        "zip": {"type": "integer"},
        "more": {"type": "object", "properties": {"floor": {"type": "integer"}}},
    },
    "required": ["street"],
}


async def test_an_object_is_asked_for_property_by_property() -> None:
    value, person = await answered(ADDRESS, "", "Main St. 1", "x", "12", "no")
    assert value == {"street": "Main St. 1", "zip": 12}
    assert [label for label, *_ in person.asked] == [
        "x.street (string): ",
        "x.street (string): ",
        "x.zip (integer, optional): ",
        "x.zip (integer, optional): ",
        "x.more (optional), yes or no: ",
    ]
    assert "With its number." in person.screen.told
    value, _ = await answered(ADDRESS, "no", required=False)
    assert value is None
    value, _ = await answered(ADDRESS, "yes", "Main St. 1", "", "y", "3", required=False)
    assert value == {"street": "Main St. 1", "more": {"floor": 3}}


async def test_an_object_of_any_kind_is_json() -> None:
    value, person = await answered({"type": "object"}, '{"a": 1}')
    assert value == {"a": 1}
    assert person.asked[0][0] == "x (object): "


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (["yes"], {"action": "accept", "content": {"sure": True}}),
        (["n"], {"action": "accept", "content": {"sure": False}}),
        (["what", "decline"], {"action": "decline"}),
        (["cancel"], {"action": "cancel"}),
    ],
    ids=str,
)
async def test_a_yes_or_no_takes_one_question(said: list[str], answer: Any) -> None:
    person = Person(said)
    params = {"message": "Sure?", "requestedSchema": {"properties": {"sure": {"type": "boolean"}}}}
    assert await fill_in(person, params) == answer  # type: ignore[arg-type]
    assert person.asked[0][0] == "yes, no, decline or cancel? "
