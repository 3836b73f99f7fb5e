"""What stands beside a type in `Annotated`: groups, fields of pydantic, and what is not understood."""

import datetime
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import attrs
import pytest
from annotated_types import BaseMetadata, Ge, GroupedMetadata, Interval, Le, Len, Timezone, doc
from annotated_types import LowerCase as LowerCaseOf
from pydantic import AfterValidator, Field, StringConstraints

from trio_mcp import Registry
from trio_mcp.schema import SchemaError, schema_of

pytestmark = pytest.mark.requirement("C2")


class Percent(GroupedMetadata):
    """A group of somebody's own."""

    def __iter__(self) -> Iterator[Any]:
        yield Ge(0)
        yield Interval(le=100)


class Bounded:
    """Holds its constraints as pydantic's fields do."""

    description = "Few."
    metadata = (Ge(1), [Le(2)], Le(9))


class Unit(BaseMetadata):
    """Of a library that nobody here knows."""


@attrs.frozen
class Order:
    copies: Annotated[int, Field(ge=1, description="How many.")] = 1


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (
            Annotated[int, Field(ge=1, description="How many.")],
            {"type": "integer", "minimum": 1, "description": "How many."},
        ),
        (
            Annotated[str, Field(min_length=1, max_length=3, pattern="^a")],
            {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a"},
        ),
        (
            Annotated[float, Field(gt=0, lt=9, multiple_of=0.5, strict=True)],
            {
                "type": "number",
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 9,
                "multipleOf": 0.5,
            },
        ),
        (Annotated[int, Field()], {"type": "integer"}),
        (Annotated[int, Field(json_schema_extra={"x": 1})], {"type": "integer", "x": 1}),
        (
            Annotated[int | None, Field(le=5, description="d")],
            {
                "anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}],
                "description": "d",
            },
        ),
        (
            Annotated[str, StringConstraints(min_length=2, pattern="b")],
            {"type": "string", "minLength": 2, "pattern": "b"},
        ),
        (
            Annotated[int, Interval(ge=1, lt=4)],
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 4},
        ),
        (
            Annotated[list[int], Len(1, 2)],
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        ),
        (Annotated[int, Percent()], {"type": "integer", "minimum": 0, "maximum": 100}),
        (
            Annotated[int, Bounded()],
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "Few."},
        ),
        (Annotated[int, doc("Words.")], {"type": "integer", "description": "Words."}),
        (Annotated[int, Unit(), object(), 5, Ge], {"type": "integer"}),
    ],
)
def test_constraints_are_read(annotation: Any, schema: Any) -> None:
    assert schema_of(annotation) == schema


def test_constraints_of_fields_are_read() -> None:
    schema = schema_of(Order)["properties"]["copies"]
    assert schema == {"type": "integer", "minimum": 1, "description": "How many.", "default": 1}


async def test_bounds_of_pydantic_are_kept() -> None:
    registry = Registry("test")

    @registry.tool
    async def order(what: Order, copies: Annotated[int, Field(ge=1)] = 1) -> int:
        return what.copies * copies

    assert await registry.call("order", {"what": {"copies": 2}, "copies": 3}) == 6
    for arguments in ({"what": {"copies": 0}}, {"what": {}, "copies": 0}):
        with pytest.raises(Exception, match="copies' must be at least 1"):
            await registry.call("order", arguments)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (LowerCaseOf[str], r"Predicate\(str.islower\) of annotated_types"),
        (Annotated[datetime.datetime, Timezone(None)], "Timezone.* of annotated_types"),
        (Annotated[float, Field(max_digits=3)], "max_digits=3.* of pydantic"),
        (Annotated[str, Field(pattern="a", max_digits=3)], "max_digits=3 of pydantic"),
        (Annotated[str, StringConstraints(min_length=1, to_lower=True)], "to_lower=True"),
        (Annotated[int, AfterValidator(abs)], "AfterValidator.* of pydantic"),
        (Annotated[int, Field(ge=datetime.date(2030, 1, 1))], "ge=datetime.* has no JSON"),
    ],
)
def test_constraints_that_nobody_would_keep_are_refused(
    annotation: Any, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pydantic would keep them, where it is there."""
    monkeypatch.delitem(sys.modules, "pydantic")

    def use(x: Any) -> None: ...

    use.__annotations__["x"] = annotation
    with pytest.raises(SchemaError, match=f"Tool 'use': .*parameter 'x': the constraint .*{named}"):
        Registry("test").add_tool(use)
