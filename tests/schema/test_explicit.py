"""An input schema that was written by hand, held against the function (C1, C3)."""

from typing import Any

import pytest

from tests.support.client import serving
from tests.support.tools import each_revision, error_of, failure_of, text_of
from trio_mcp import Context, McpError, Registry
from trio_mcp.schema import SchemaError
from trio_mcp.schema.parameters import Integer, Parameter


def cook(dish: str, guests: int = 1) -> str:
    """Cook a dish."""
    return f"{dish} for {guests}"


def open_ended(dish: str, **more: Any) -> str:
    """Cook a dish with more."""
    return f"{dish} {more}"


def with_context(dish: str, context: Context, **more: Any) -> str:
    """Cook a dish, and know for whom."""
    return f"{dish} {more} {type(context).__name__}"


def schema(*names: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names}, **more}


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (cook, schema("dish", "plates"), "has the property 'plates', but the function does not"),
        (cook, schema("guests"), "parameter 'dish' is needed, but the input schema does not have"),
        (cook, schema(additionalProperties=False), "parameter 'dish' is needed"),
        (with_context, schema("dish", "context"), "property 'context', but it is for the context"),
        (cook, {"type": "string"}, 'must have "type": "object"'),
        (cook, schema("dish", required="dish"), "invalid at #/required"),
    ],
)
def test_a_schema_that_is_not_the_functions(function: Any, given: Any, words: str) -> None:
    registry = Registry("test")
    with pytest.raises(SchemaError, match=f"Tool '{function.__name__}': .*{words}"):
        registry.add_tool(function, input_schema=given)
    assert not registry.tools


@pytest.mark.requirement("C3")
def test_a_schema_or_parameters_but_not_both() -> None:
    with pytest.raises(SchemaError, match="Tool 'cook': parameters= and input_schema= exclude"):
        Registry("test").add_tool(
            cook, input_schema=schema("dish"), parameters=[Parameter("dish", Integer())]
        )


@pytest.mark.requirement("B4")
@pytest.mark.parametrize(
    ("function", "given", "arguments", "said"),
    [
        (cook, schema("dish"), {"dish": "soup", "guests": 2}, "soup for 2"),
        (open_ended, schema("dish"), {"dish": "soup", "salt": 1}, "soup {'salt': 1}"),
        (with_context, schema("dish"), {"dish": "soup", "salt": 1}, "soup {'salt': 1} Context"),
        (cook, schema(allOf=[schema("dish", required=["dish"])]), {"dish": "soup"}, "soup for 1"),
    ],
)
async def test_what_the_function_takes_is_passed_on(
    function: Any, given: Any, arguments: Any, said: str
) -> None:
    registry = Registry("test")
    registry.add_tool(function, input_schema=given)
    async with serving(registry) as (client, _):
        assert text_of(await client.call(function.__name__, **arguments)) == said


@pytest.mark.requirement("B4")
@each_revision
@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (cook, {}, "Missing required argument 'dish'."),
        (
            cook,
            {"dish": "soup", "plates": 1, "salt": 2},
            "Unexpected arguments 'plates' and 'salt'; it takes 'dish', 'guests'.",
        ),
        (
            with_context,
            {"dish": "soup", "context": 1},
            "Argument 'context' is not allowed.",
        ),
    ],
)
async def test_what_the_schema_allows_and_the_function_does_not_take(
    revision: str, function: Any, arguments: Any, said: str
) -> None:
    registry = Registry("test")
    registry.add_tool(function, input_schema=schema("dish"))
    name = function.__name__
    told = f"Invalid arguments for tool {name}: {said}"
    async with serving(registry, revision=revision) as (client, _):
        answer = await client.call(name, **arguments)
        if revision >= "2025-11-25":
            assert failure_of(answer) == told
        else:
            assert error_of(answer) == (-32602, told)
    with pytest.raises(McpError) as refused:
        await registry.call(name, arguments)
    assert (refused.value.code, refused.value.message) == (-32602, told)
