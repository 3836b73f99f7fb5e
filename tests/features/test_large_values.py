"""Values that take long to check, hostile schemas among them: the event loop goes on (B4, E4)."""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
import trio
from attrs import Factory, define

from tests.support.client import LEGACY, MODERN
from tests.support.client import serving as serving_raw
from trio_mcp import (
    Context,
    Handlers,
    McpError,
    Registry,
    TextResourceContents,
    ToolError,
    connect,
)
from trio_mcp.client.tools import RemoteTool
from trio_mcp.errors import InvalidArguments
from trio_mcp.registry import prompts, resources, sealing
from trio_mcp.schema import Validator
from trio_mcp.threads import is_large

pytestmark = pytest.mark.requirement("B4", "B2")

MANY = 20_000
TOO_DEEP = "nested too deeply to be checked"


@define
class Apple:
    apple: int


@define
class Pear:
    pear: int
    made_in: int = Factory(threading.get_ident)


async def count(rows: list[Apple | Pear]) -> int:
    """Count rows, which must have been made outside the event loop if they are many."""
    here = threading.get_ident()
    assert len(rows) < MANY or all(each.made_in != here for each in rows if isinstance(each, Pear))
    return len(rows)


async def grow(many: int) -> dict[str, list[Apple]]:
    """Return many rows."""
    return {"rows": [Apple(number) for number in range(many)]}


async def wrong(many: int) -> dict[str, list[Apple]]:
    """Return many rows, and one that is none."""
    return {"rows": [*(Apple(number) for number in range(many)), "x"]}  # type: ignore[list-item]


async def anything(value: Any) -> str:
    """Take whatever comes."""
    return type(value).__name__


def orchard() -> Registry:
    registry = Registry("orchard")
    for function in (count, grow, wrong, anything):
        registry.add_tool(function)
    return registry


def rows(many: int = MANY) -> list[dict[str, int]]:
    return [{"pear": number} if number % 2 else {"apple": number} for number in range(many)]


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value, 0]
    return value


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Of each check that is made: whether it was of much, and whether it was on the event loop."""
    seen: list[tuple[bool, bool]] = []
    loop = threading.get_ident()

    def watch(check: Any) -> Any:
        def watched(self: Validator, value: Any) -> str | None:
            is_much = not self.is_plain(value) and is_large(value)
            seen.append((is_much, threading.get_ident() == loop))
            problem: str | None = check(self, value)
            return problem

        return watched

    monkeypatch.setattr(Validator, "__call__", watch(Validator.__call__))
    return seen


@contextlib.contextmanager
def loop_going_on(seen: list[tuple[bool, bool]]) -> Iterator[None]:
    """Within it something takes long to check, and nothing that does is checked on the loop."""
    yield
    assert (True, False) in seen
    assert (True, True) not in seen


# -- arguments ----------------------------------------------------------------------------------


async def test_many_arguments_are_checked_and_made_in_a_thread(checks):
    registry = orchard()
    with loop_going_on(checks):
        assert await registry.call("count", {"rows": rows()}) == MANY
        with pytest.raises(McpError) as caught:
            await registry.call("count", {"rows": [*rows(), {"plum": 1}]})
    assert caught.value.code == -32602
    assert caught.value.message.startswith(
        f"Invalid arguments for tool count: Argument 'rows[{MANY}]' fits none of its alternatives"
    )


async def test_few_arguments_are_checked_at_once(checks):
    assert await orchard().call("count", {"rows": rows(10)}) == 10
    assert checks
    assert set(checks) == {(False, True)}


@pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1], *MODERN])
async def test_a_server_says_the_same_of_many_as_of_few(revision, checks):
    async with serving_raw(orchard(), revision=revision, shake_hands=revision not in MODERN) as (
        client,
        _,
    ):
        with loop_going_on(checks):
            answer = await client.call("count", rows=rows())
            assert answer["result"]["content"][0]["text"] == str(MANY)
            few = await client.call("count", rows=[{"plum": 1}])
            many = await client.call("count", rows=[{"plum": 1}, *rows()])
    for each in (few, many):
        each["id"] = each.get("error", {}).get("data", {})["requestId"] = 0
    few, many = map(json.dumps, (few, many))
    assert many == few
    assert "Invalid arguments for tool count: Argument 'rows[0]' fits none" in many


async def test_the_server_answers_others_meanwhile():
    """A second request is answered while the first is still being checked."""
    registry, begun, go_on = orchard(), trio.Event(), threading.Event()

    @define
    class Slow:
        slow: int

        def __attrs_post_init__(self) -> None:
            if self.slow == 0:
                trio.from_thread.run_sync(begun.set)
                assert go_on.wait(10)

    @registry.tool
    async def slowly(rows: list[Slow]) -> int:
        return len(rows)

    async with connect(registry) as client, trio.open_nursery() as nursery:

        async def call() -> None:
            many = [{"slow": number} for number in range(MANY)]
            assert await client.call_tool("slowly", {"rows": many}, returns=int) == MANY

        nursery.start_soon(call)
        await begun.wait()
        assert await client.call_tool("count", {"rows": rows(1)}, returns=int) == 1
        go_on.set()


@pytest.mark.parametrize("levels", [201, 100_000])
@pytest.mark.parametrize(("tool", "name"), [("count", "rows"), ("anything", "value")])
async def test_arguments_that_are_nested_too_deeply(tool, name, levels):
    with pytest.raises(McpError, match=TOO_DEEP) as caught:
        await orchard().call(tool, {name: nested(levels)})
    assert caught.value.code == -32602


# -- results ------------------------------------------------------------------------------------


async def test_many_results_are_checked_in_a_thread(checks):
    registry = orchard()
    with loop_going_on(checks):
        async with connect(registry, tool_timeout=60) as client:
            result = await client.call_tool("grow", {"many": MANY})
            assert len(result.structured_content["rows"]) == MANY
            found = await client.call_tool("grow", {"many": MANY}, returns=dict[str, list[Apple]])
            assert found["rows"][-1] == Apple(MANY - 1)
    found = await registry.call("grow", {"many": MANY})
    assert found["rows"][-1] == Apple(MANY - 1)


async def test_many_results_that_do_not_fit():
    async with connect(orchard(), tool_timeout=60) as client:
        with pytest.raises(McpError, match=rf"Result 'rows\[{MANY}\]' must be an object") as caught:
            await client.call_tool("wrong", {"many": MANY})
    assert caught.value.code == -32603
    with pytest.raises(McpError, match=rf"Result 'rows\[{MANY}\]' must be an object"):
        await orchard().call("wrong", {"many": MANY})


async def test_results_that_are_nested_too_deeply():
    registry = Registry("deep")

    @registry.tool
    async def deep(levels: int) -> dict[str, Any]:
        return {"value": nested(levels)}

    assert await registry.call("deep", {"levels": 100})
    for levels in (201, 100_000):
        with pytest.raises(McpError) as caught:
            await registry.call("deep", {"levels": levels})
        assert caught.value.code == -32603


# -- schemas that are hostile -------------------------------------------------------------------

DOUBLING = {
    **{f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)},
    "d40": {"type": "string"},
}


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    "property",
    [
        {"pattern": "(?=(a+)+)b"},
        {"pattern": r"(a+)\1"},
        {"pattern": "((a{100}){100}){100}"},
        {"allOf": [{"pattern": rf"\p{{L}}{{1,20}}{n}"} for n in range(200)]},
        {"$ref": "#/$defs/d0"},
        {"$ref": "#/properties/value"},
        {"$ref": "https://127.0.0.1:9/schema"},
        {"type": "strin"},
        {"anyOf": [{}] * 5000},
        {"enum": [nested(300)]},
    ],
)
async def test_a_schema_that_cannot_be_checked_here_is_left_to_the_server(property, caplog):
    schema = {"type": "object", "properties": {"value": property}, "$defs": DOUBLING}
    tool = RemoteTool("odd", None, schema)
    assert await tool.check({"value": "a" * 100_000}) is None
    assert tool.problem_with({"value": 1}) is None
    assert len(caplog.records) == 1
    assert "Tool odd: arguments are not checked here: the " in caplog.text


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    ("property", "value", "words"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 100_000 + "b", "must match the pattern"),
        ({"pattern": "(a?){500}a{500}c"}, "a" * 1_000_000, "too much work"),
        ({"items": {"pattern": "((^){1,2}){40}x"}}, ["y" * 30_000] * 300, "must match"),
        ({"uniqueItems": True}, [10**30 + n for n in range(5000)], "too much work"),
        ({"items": {"allOf": [{"minimum": 0}] * 1500}}, [1] * MANY, "too much work"),
        (
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {str(n): n for n in range(100_000)},
            "holds more than is allowed",
        ),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1] * 100_000, "holds more"),
        ({"items": {"$ref": "#/properties/value"}}, nested(100_000), TOO_DEEP),
    ],
)
async def test_a_client_is_not_held_up_by_a_schema(property, value, words, checks, monkeypatch):
    if words == "too much work":
        monkeypatch.setattr("trio_mcp.schema.engine._SECONDS", (0.05, 0.2))
    tool = RemoteTool("odd", None, {"type": "object", "properties": {"value": property}})
    problem = await tool.check({"value": value})
    assert words in (problem or "")
    tool = RemoteTool("odd", None, {}, details={"outputSchema": tool.input_schema})
    problem = await tool.check_result({"structuredContent": {"value": value}})
    assert words in (problem or "")
    assert (True, True) not in checks


@pytest.mark.requirement("E4")
async def test_a_client_checks_much_in_a_thread(checks):
    async with connect(orchard()) as client:
        with loop_going_on(checks), pytest.raises(InvalidArguments, match=r"'rows\[20000\]'"):
            await client.call_tool("count", {"rows": [*rows(), 1]})


# -- forms, prompts, completion -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({str(n): n for n in range(100_000)}, "Missing required field 'name'"),
        ({"name": nested(150)}, "must be a string"),
        ({"name": "x" * 5_000_000}, "must have at most 10 characters"),
    ],
)
async def test_a_form_is_checked_without_holding_up_others(content, words, checks):
    registry = Registry("forms")

    @define
    class Person:
        name: Annotated[str, {"maxLength": 10}]

    @registry.tool
    async def ask(context: Context) -> str:
        return (await context.elicit("Who?", Person)).value.name

    async def answer(*_: Any, **__: Any) -> Any:
        return {"action": "accept", "content": content}

    handlers = Handlers(elicitation=answer)
    async with connect(registry, handlers=handlers, tool_timeout=60) as client:
        with pytest.raises((McpError, ToolError)) as caught:
            await client.call_tool("ask", returns=str)
    assert words in str(caught.value)
    assert (True, True) not in checks


async def test_a_prompt_reads_long_texts_in_a_thread(checks):
    registry = Registry("prompts")

    @registry.prompt
    async def total(numbers: list[int]) -> str:
        return str(sum(numbers))

    async with connect(registry) as client:
        with loop_going_on(checks):
            text = json.dumps([1] * MANY)
            result = await client.get_prompt("total", {"numbers": text})
            assert result.messages[0].content.text == str(MANY)
            with pytest.raises(McpError, match=r"Argument 'numbers\[0\]' must be an integer") as e:
                await client.get_prompt("total", {"numbers": json.dumps(["x"] * MANY)})
    assert e.value.code == -32602


async def test_what_was_typed_is_completed_however_long_it_is():
    registry = Registry("completion")

    @registry.prompt
    async def pick(color: Literal["red", "green"]) -> str:
        return color

    async with connect(registry) as client:
        for typed in ("a" * 1_000_000, "(a+)+$" * 100_000, "(){2000000000}"):
            found = await client.complete("color", typed, prompt="pick")
            assert found.values == []


@pytest.mark.parametrize("many", [10, MANY])
async def test_what_a_question_is_about_is_taken_in_in_a_thread(many, monkeypatch):
    """A state is sealed with the arguments, and opened with those that come with it."""
    registry, loop, on_loop = Registry("questions"), threading.get_ident(), []
    take_in = sealing.hash_binding

    def watched(binding: Any) -> Any:
        if not isinstance(binding, sealing.HashedBinding):
            on_loop.append(threading.get_ident() == loop)
        return take_in(binding)

    @registry.tool
    async def ask(numbers: list[float], context: Context) -> int:
        return len(numbers) + (await context.elicit("How many more?", int)).value

    async def answer(*_: Any, **__: Any) -> Any:
        return {"action": "accept", "content": {"value": 1}}

    monkeypatch.setattr(sealing, "hash_binding", watched)
    handlers = Handlers(elicitation=answer)
    async with connect(registry, era="modern", handlers=handlers) as client:
        numbers = [float(number) for number in range(many)]
        assert await client.call_tool("ask", {"numbers": numbers}, returns=int) == many + 1
    assert on_loop == [many < MANY] * 2


@pytest.mark.parametrize("many", [10, MANY])
@pytest.mark.parametrize(
    ("module", "maker"), [(resources, "contents_of"), (prompts, "messages_of")]
)
async def test_many_contents_and_messages_are_made_in_a_thread(module, maker, many, monkeypatch):
    registry, loop, made_on_loop = Registry("library"), threading.get_ident(), []
    make = getattr(module, maker)

    def watched(*args: Any) -> Any:
        made_on_loop.append(threading.get_ident() == loop)
        return make(*args)

    @registry.resource("shelf:books")
    async def books() -> Any:
        return [TextResourceContents("shelf:books", "x")] * many

    @registry.prompt
    async def talk() -> Any:
        return ["x"] * many

    monkeypatch.setattr(module, maker, watched)
    async with connect(registry) as client:
        if maker == "contents_of":
            assert len((await client.read_resource("shelf:books")).contents) == many
        else:
            assert len((await client.get_prompt("talk")).messages) == many
    assert made_on_loop == [many < MANY]


async def test_threads_that_all_wait_keep_no_large_result_back() -> None:
    go_on, registry = threading.Event(), Registry("test")
    registry.add_tool(grow)
    async with serving_raw(registry) as (client, _), trio.open_nursery() as nursery:
        for _ in range(int(trio.to_thread.current_default_thread_limiter().total_tokens)):
            nursery.start_soon(trio.to_thread.run_sync, go_on.wait, 600)
        await trio.testing.wait_all_tasks_blocked()
        try:
            with trio.fail_after(60):
                assert "result" in await client.call("grow", many=MANY)
        finally:
            go_on.set()
