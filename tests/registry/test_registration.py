"""Registering tools: what is inferred, what can be overridden, what is refused (C1, C3)."""

import functools
from contextlib import asynccontextmanager
from enum import Enum
from typing import Annotated, Literal

import pytest
import trio

from tests.support.client import serving
from tests.support.tools import echo, registry_of, text_of
from trio_mcp import Context, Registry
from trio_mcp.registry import catalogue_of
from trio_mcp.schema import SchemaError
from trio_mcp.schema.parameters import Parameter, String
from trio_mcp.wire.payloads import ToolAnnotations


@pytest.fixture
def registry():
    return Registry("test")


@pytest.mark.requirement("C1")
def test_everything_is_inferred(registry):
    @registry.tool
    async def paint(
        what: str,
        colour: Literal["red", "blue"] = "red",
        coats: Annotated[int, "How often."] = 1,
        *,
        context: Context,
    ) -> dict[str, int]:
        """Paint something.

        Args:
            what: The thing.
            colour: Of the paint.
        """
        return {}

    shown = registry.tools["paint"].description
    assert shown.name == "paint"
    assert shown.description == "Paint something."
    properties = shown.input_schema["properties"]
    assert list(properties) == ["what", "colour", "coats"]
    assert properties["what"] == {"type": "string", "description": "The thing."}
    assert properties["colour"]["enum"] == ["red", "blue"]
    assert properties["coats"]["description"] == "How often."
    assert properties["coats"]["default"] == 1
    assert shown.input_schema["required"] == ["what"]
    assert shown.output_schema["type"] == "object"
    assert registry.tools["paint"].context_parameter == "context"


@pytest.mark.requirement("C1")
async def test_everything_can_be_overridden(registry):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}}

    @registry.tool(
        name="other.name-1",
        description="",
        input_schema=schema,
        output_schema={"type": "object", "required": ["n"]},
        annotations=ToolAnnotations(title="T"),
        timeout=3,
    )
    async def paint(n):
        """Not this."""
        return {"n": n}

    tool = registry.tools["other.name-1"]
    assert "paint" not in registry.tools
    assert tool.description.description == ""
    assert tool.description.input_schema == schema
    assert tool.description.output_schema == {"type": "object", "required": ["n"]}
    assert tool.timeout == 3
    assert await registry.call("other.name-1", {"n": 3}) == {"n": 3}
    with pytest.raises(Exception, match="n"):
        await registry.call("other.name-1", {"n": 2})


@pytest.mark.requirement("C1", "C2")
async def test_explicit_parameters(registry):
    @registry.tool(parameters=[Parameter("text", String(), description="What to say.")])
    async def say(text):
        return text

    shown = registry.tools["say"].description.input_schema
    assert shown["properties"] == {"text": {"type": "string", "description": "What to say."}}
    assert await registry.call("say", {"text": "x"}) == "x"


@pytest.mark.requirement("C1")
def test_the_decorator_returns_the_function_itself(registry):
    async def first() -> None: ...

    async def second() -> None: ...

    assert registry.tool(first) is first
    assert registry.tool(name="x")(second) is second


@pytest.mark.requirement("C1", "B3")
async def test_callables_of_every_kind(registry):
    class Speaker:
        async def method(self, text: str) -> str:
            return f"method {text}"

        async def __call__(self, text: str) -> str:
            return f"object {text}"

        @staticmethod
        def plain(text: str) -> str:
            return f"plain {text}"

    async def two(first: str, text: str) -> str:
        return f"{first} {text}"

    speaker = Speaker()
    registry.add_tool(speaker.method)
    registry.add_tool(speaker, name="object")
    registry.add_tool(Speaker.plain)
    registry.add_tool(functools.partial(two, "partial"), name="partial")
    registry.add_tool(lambda: "lambda", name="lambda")
    async with serving(registry) as (client, _):
        for name in ("method", "object", "plain", "partial"):
            assert text_of(await client.call(name, text="x")) == f"{name} x"
        assert text_of(await client.call("lambda")) == "lambda"


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("name", [" ", "a b", "a/b", "é", "x" * 129, "a\n"])
def test_a_name_that_is_not_valid(registry, name):
    with pytest.raises(SchemaError) as caught:
        registry.add_tool(echo, name=name)
    assert repr(name) in str(caught.value)
    assert registry.tools == {}


@pytest.mark.requirement("C3")
def test_a_name_from_an_enumeration_is_the_text_that_it_stands_for(registry):
    class Tools(str, Enum):  # noqa: UP042  # its format is not its value
        ECHO = "echo_text"

    assert f"{registry.add_tool(echo, name=Tools.ECHO).name}" == "echo_text"


@pytest.mark.requirement("C3")
def test_what_has_no_name_needs_one(registry):
    for function in (lambda: "x", functools.partial(echo)):
        with pytest.raises(SchemaError, match="name="):
            registry.add_tool(function)


@pytest.mark.requirement("C3")
def test_a_name_that_is_taken(registry):
    registry.add_tool(echo)
    with pytest.raises(SchemaError, match="'echo' is registered already"):
        registry.add_tool(echo)
    registry.add_tool(echo, name="Echo")
    registry.remove_tool("echo")
    registry.add_tool(echo)
    assert list(registry.tools) == ["Echo", "echo"]


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    "options",
    [
        {"input_schema": {"type": "string"}},
        {"input_schema": {}},
        {"input_schema": {"type": "objekt"}},
        {"input_schema": {"type": "object", "properties": 5}},
        {"input_schema": {"type": "object", "required": "text"}},
        {"output_schema": {"type": "objekt"}},
        {"output_schema": {"type": "object", "minProperties": "x"}},
        {"output_schema": {"half a pair: \ud800": {}}},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
    ],
    ids=str,
)
def test_options_that_are_wrong(registry, options):
    with pytest.raises(SchemaError, match="'echo'"):
        registry.add_tool(echo, **options)
    assert registry.tools == {}
    assert catalogue_of(registry).changes.versions["tools"] == 0


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": 5}, "Tool name 5 is not valid"),
        ({"title": 5}, "Tool 'echo': title must be a text, not 5"),
        ({"description": ["x"]}, r"Tool 'echo': description must be a text, not \['x'\]"),
        ({"name": ""}, "Tool name '' is not valid"),
        ({"timeout": "3"}, "Tool 'echo': timeout must be more than 0 seconds, not '3'"),
        ({"timeout": True}, "timeout must be more than 0 seconds, not True"),
    ],
)
def test_options_of_another_type(registry, options, words):
    with pytest.raises(SchemaError, match=words):
        registry.add_tool(echo, **options)
    assert registry.tools == {}


@pytest.mark.requirement("C3")
def test_options_that_there_are_not(registry):
    def add(**options):
        registry.tool(**options)(echo)

    adders = [
        add,
        lambda **options: registry.add_prompt(echo, **options),
        lambda **options: registry.add_resource("a:b", echo, **options),
    ]
    for adder in adders:
        with pytest.raises(TypeError, match="unexpected keyword argument 'titel'"):
            adder(titel="x")


@pytest.mark.requirement("C3", "F1")
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "of 'a': its type must be string"),
        ({"a": {"type": "string", "x-mcp-header": "a b"}}, "of 'a' must be a token"),
        ({"a": {"type": "string", "x-mcp-header": 5}}, "of 'a' must be a string, not a number"),
        (
            {
                "a": {"type": "string", "x-mcp-header": "Same"},
                "b": {"type": "string", "x-mcp-header": "same"},
            },
            "of 'b': another parameter has the name 'same' already",
        ),
    ],
)
def test_marks_that_make_clients_leave_a_tool_out(registry, properties, words):
    async def use(**values: object) -> None: ...

    schema = {"type": "object", "properties": properties}
    with pytest.raises(SchemaError, match=f"Tool 'use': x-mcp-header {words}.*leave the tool out"):
        registry.add_tool(use, input_schema=schema)

    async def annotated(a: Annotated[float, {"x-mcp-header": "A"}]) -> None: ...

    with pytest.raises(SchemaError, match="x-mcp-header of 'a': its type must be"):
        registry.add_tool(annotated)
    assert registry.tools == {}


@pytest.mark.requirement("C3")
def test_an_annotation_that_cannot_be_mapped(registry):
    async def use(lock: trio.Lock) -> None: ...

    async def spread(*values: int) -> None: ...

    for function, words in ((use, "'use'.*lock"), (spread, "'spread'.*values")):
        with pytest.raises(SchemaError, match=words):
            registry.add_tool(function)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"version": ""},
        {"tool_timeout": 0},
        {"tool_timeout": -1.0},
        {"page_size": 0},
        {"cache_ttl": -1},
    ],
    ids=str,
)
def test_a_registry_that_is_wrong(options):
    with pytest.raises(ValueError, match=r"must be|needs"):
        Registry(**{"name": "test", **options})


async def test_a_tool_that_is_removed_while_it_runs(autojump_clock):
    async def brief() -> str:
        await trio.sleep(1)
        registry.remove_tool("brief")
        await trio.sleep(1)
        return "done"

    registry = registry_of(brief)
    async with serving(registry) as (client, _):
        assert text_of(await client.call("brief")) == "done"
    with pytest.raises(KeyError):
        registry.remove_tool("brief")


def test_the_tools_of_a_registry_are_for_reading(registry):
    with pytest.raises(TypeError):
        registry.tools["x"] = None
    assert not registry.tools
    registry.add_tool(echo)
    assert registry.tools
    assert registry.name == "test"


@pytest.mark.requirement("B13")
async def test_a_registry_runs_once_at_a_time(autojump_clock):
    opened = 0

    @asynccontextmanager
    async def lifespan(registry):
        nonlocal opened
        opened += 1
        await trio.sleep(1)
        yield

    registry = registry_of(echo, lifespan=lifespan)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            async with registry.running():
                await trio.sleep(5)

        nursery.start_soon(run)
        await trio.sleep(0.5)
        with pytest.raises(RuntimeError, match="running already"):
            async with registry.running():
                pass
    assert opened == 1


def test_what_a_registry_shows_its_author() -> None:
    """Plumbing is the catalogue's: an editor completes what authors use, and nothing else."""
    public = [name for name in dir(Registry("test")) if not name.startswith("_")]
    assert len(public) <= 32, public


def test_entries_show_the_layers_of_their_calls(registry):
    registry.add_tool(echo)
    assert repr(registry.tools["echo"]) == "<Tool echo: converting > function>"
