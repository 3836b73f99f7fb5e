"""Texts that can only be meant as JSON are read as such; all others are left alone."""

from typing import Any, Literal

import pytest

from trio_mcp import McpError, Registry, connect
from trio_mcp.errors import InvalidArguments
from trio_mcp.middleware import McpRequest
from trio_mcp.schema import compile_validator
from trio_mcp.schema.lenient import read_texts

pytestmark = pytest.mark.requirement("Q4")

LIST = {"type": "array", "items": {"type": "integer"}}
NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
    "required": ["value"],
}
NESTED_LISTS: dict[str, Any] = {"type": "array"}
for _ in range(15):
    NESTED_LISTS = {"type": "array", "items": NESTED_LISTS}


def deep(value: Any) -> Any:
    """Put a value into a list in a list, and so on."""
    for _ in range(15):
        value = [value]
    return value


def read(schema: Any, value: Any, defs: Any = None) -> Any:
    """Read an argument by its schema; `None` if that does not help."""
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "$defs": defs or {},
    }
    found = read_texts(whole, {"x": value}, compile_validator(whole))
    return None if found is None else found[0]["x"]


@pytest.mark.parametrize(
    ("schema", "given", "meant"),
    [
        ({"type": "array"}, '["x"]', ["x"]),
        ({"type": "object"}, '{"a":1}', {"a": 1}),
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "true", True),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [LIST, {"type": "null"}]}, "[1, 2]", [1, 2]),
        ({"anyOf": [LIST, {"type": "object"}]}, "[1, 2]", [1, 2]),
        (LIST, ["1", 2], [1, 2]),
        (LIST, '["1", 2]', [1, 2]),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, {"a": "true"}, {"a": 1}),
        ({"$ref": "#/$defs/Node"}, '{"value": "1", "next": {"value": 2}}', None),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": False}, "false", False),
        ({"type": "integer"}, " 3\n", 3),
    ],
)
def test_what_can_only_be_meant_as_json_is_read(schema: Any, given: Any, meant: Any) -> None:
    if "$ref" in schema:
        meant = {"value": 1, "next": {"value": 2}}
    assert read(schema, given, {"Node": NODE}) == meant


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"type": "string"}, "3"),
        ({"type": ["string", "integer"]}, "[1]"),
        ({}, "3"),
        ({"anyOf": [LIST, {"type": "string"}]}, "[1]"),
        ({"enum": ["1", 2]}, "2"),
        ({"type": "integer"}, "three"),
        ({"type": "integer"}, "3.5"),
        ({"type": "integer"}, '"3"'),
        ({"type": "integer"}, ""),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "Infinity"),
        ({"type": "number"}, "1e999"),
        ({"type": "object"}, '{"a": 1, "a": 2}'),
        ({"type": "array"}, "[" * 22 + "]" * 22),
        (NESTED_LISTS, deep("[" * 19 + "]" * 19)),
        (LIST, '["x"]'),
        (LIST, "[1"),
        (LIST, "[" * 100_000),
        (LIST, f"[{'1,' * 600_000}1]"),
        ({"type": "boolean"}, "True"),
    ],
)
def test_all_other_texts_are_what_they_are(schema: Any, given: Any) -> None:
    assert read(schema, given) is None


@pytest.mark.parametrize("reference", ["#/$defs/A", "#/$defs/Nowhere", "elsewhere.json"])
def test_a_schema_that_leads_nowhere_is_taken_to_admit_texts(reference: str) -> None:
    loop = {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}
    whole: dict[str, Any] = {"properties": {"x": {"$ref": reference}}, "$defs": loop}
    assert read_texts(whole, {"x": "3"}, lambda _: None) is None


# -- tools -----------------------------------------------------------------------------------------


def registry_of(**options: Any) -> Registry:
    registry = Registry("test", **options)

    @registry.tool
    async def total(
        numbers: list[int], scale: float = 1.0, mode: Literal["plain", "big"] = "plain"
    ) -> str:
        return f"{sum(numbers) * scale:g} {mode}"

    @registry.tool
    async def say(text: str, times: int | None = None) -> str:
        return text * (times or 1)

    return registry


async def test_a_tool_gets_what_was_meant(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "trio_mcp")
    result = await registry_of().call("total", {"numbers": "[1, 2]", "scale": "0.5"})
    assert result == "1.5 plain"
    (said,) = [record for record in caplog.records if "read as JSON" in record.getMessage()]
    assert said.levelname == "DEBUG"
    assert "numbers" in said.getMessage()
    assert "[1, 2]" not in said.getMessage()


async def test_a_text_stays_one_where_the_tool_wants_a_text() -> None:
    result = await registry_of().call("say", {"text": "[1, 2]", "times": "2"})
    assert result == "[1, 2][1, 2]"


async def test_what_does_not_fit_either_way_is_refused_as_it_came() -> None:
    with pytest.raises(McpError, match="numbers") as refused:
        await registry_of().call("total", {"numbers": "many"})
    assert "many" in str(refused.value)


async def test_it_can_be_switched_off() -> None:
    with pytest.raises(McpError, match="numbers"):
        await registry_of(lenient_arguments=False).call("total", {"numbers": "[1, 2]"})


async def test_the_client_sends_what_was_meant() -> None:
    sent: list[dict[str, Any]] = []

    async def note(request: McpRequest, call_next: Any) -> dict[str, Any]:
        sent.append(request.params.get("arguments", {}))
        return dict(await call_next(request))

    async with connect(registry_of(lenient_arguments=False), middleware=[note]) as client:
        result = await client.call_tool("total", {"numbers": "[1, 2]"})
        assert result.success
        with pytest.raises(InvalidArguments, match="numbers"):
            await client.call_tool("total", {"numbers": "many"})
    assert sent[-1]["numbers"] == [1, 2]
