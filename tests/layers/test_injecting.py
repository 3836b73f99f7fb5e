"""Parameters that come from functions: when they are called and closed, and what is refused."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Annotated, Any, Protocol

import pytest
import trio

from trio_mcp import (
    Context,
    Depends,
    Handlers,
    McpError,
    Registry,
    ResourceNotFound,
    SchemaError,
    ToolError,
    connect,
)
from trio_mcp.middleware import McpCall
from trio_mcp.testing import override

pytestmark = pytest.mark.requirement("Q3")

log: list[str] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    log.clear()


class Closable(Protocol):
    pass


async def number() -> int:
    log.append("number")
    return 1


def thread() -> str:
    return threading.current_thread().name


async def opened() -> AsyncIterator[str]:
    log.append("open async")
    try:
        yield "async"
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    finally:
        log.append("close async")


def opened_plainly() -> Iterator[str]:
    log.append("open plain")
    try:
        yield threading.current_thread().name
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    finally:
        log.append("close plain")


class Settings:
    """Reads what a deployment has set."""

    def __init__(
        self, context: Context, one: Annotated[int, Depends(number)], region: str = "eu"
    ) -> None:
        self.words = f"{context.tool} {one} {region}"
        self.is_aside = threading.current_thread() is not threading.main_thread()


class Picky:
    def __init__(self, token: str) -> None:
        self.token = token


class Awaitable:
    """Whose objects are functions that are awaited, or yield; the class itself is neither."""

    async def __call__(self) -> int:
        return 1


class Generator:
    def __call__(self) -> Iterator[int]:
        yield 1


def registry_of(*functions: Any, **options: Any) -> Registry:
    registry = Registry("test", **options)
    for function in functions:
        registry.add_tool(function)
    return registry


# -- what it gets ---------------------------------------------------------------------------


async def test_a_class_is_called_like_a_function() -> None:
    async def use(
        settings: Annotated[Settings, Depends(Settings)],
        again: Settings = Depends(Settings),  # noqa: B008  # as FastAPI's users write it
        one: Annotated[Any, Depends(Awaitable)] = None,
        other: Annotated[Any, Depends(Generator)] = None,
    ) -> str:
        assert settings is again
        assert settings.is_aside
        return f"{settings.words} {type(one).__name__} {type(other).__name__}"

    async with connect(registry_of(use)) as client:
        assert (await client.call_tool("use")).text == "use 1 eu Awaitable Generator"
        assert client.tools["use"].input_schema["properties"] == {}


async def test_another_class_can_take_the_place_of_one() -> None:
    class Fake(Settings):
        def __init__(self) -> None:
            self.words = "fake"

    async def use(settings: Annotated[Settings, Depends(Settings)]) -> str:
        return settings.words

    registry = registry_of(use)
    with override(registry, Settings, Fake):
        async with connect(registry) as client:
            assert (await client.call_tool("use")).text == "fake"


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (number, 1),
        (partial(number), 1),
        (lambda: 2, 2),
        (opened, "async"),
        (asynccontextmanager(opened), "async"),
        (partial(asynccontextmanager(opened)), "async"),
    ],
)
async def test_a_parameter_is_filled_by_any_kind_of_function(
    function: Callable[..., Any], value: object
) -> None:
    registry = Registry("test")

    @registry.tool
    async def show(given: Annotated[Any, Depends(function)]) -> dict[str, Any]:
        return {"given": given}

    assert await registry.call("show") == {"given": value}


@pytest.mark.parametrize(
    "function", [thread, opened_plainly, contextmanager(opened_plainly), partial(thread)]
)
async def test_plain_functions_run_in_worker_threads(function: Callable[..., Any]) -> None:
    registry = Registry("test")

    @registry.tool
    async def show(given: str = Depends(function)) -> str:
        return given

    assert await registry.call("show") != thread()


async def test_it_is_in_no_schema_and_no_caller_can_fill_it() -> None:
    registry = Registry("test")

    @registry.tool
    async def closed(a: int, b: Annotated[int, Depends(number)]) -> int:
        return a + b

    @registry.tool
    async def open_ended(b: Annotated[int, Depends(number)], **rest: int) -> int:
        return b + sum(rest.values())

    assert list(registry.tools["closed"].description.input_schema["properties"]) == ["a"]
    async with connect(registry, list_tools=False) as client:
        assert (await client.call_tool("closed", {"a": 2})).text == "3"
        assert "'b'" in ((await client.call_tool("closed", {"a": 2, "b": 9})).error or "")
        result = await client.call_tool("open_ended", {"b": 9, "c": 3})
    assert result.text == "4"


async def test_what_others_need_is_called_before_them_and_once_in_a_call() -> None:
    async def twice(one: Annotated[int, Depends(number)]) -> int:
        log.append("twice")
        return one * 2

    async def thrice(context: Context, one: int = Depends(number), more: int = 1) -> str:
        log.append("thrice")
        return f"{context.tool} {one * 2 + more}"

    registry = Registry("test")

    @registry.tool
    async def add(
        a: Annotated[int, Depends(twice)],
        b: Annotated[str, Depends(thrice)],
        c: int = Depends(twice),
    ) -> str:
        return f"{a} {b} {c}"

    assert await registry.call("add") == "2 add 3 2"
    assert log == ["number", "twice", "thrice"]
    await registry.call("add")
    assert log.count("number") == 2


async def test_prompts_resources_templates_and_completions_have_them() -> None:
    registry = Registry("test")
    One = Annotated[int, Depends(number)]

    @registry.prompt
    async def ask(what: str, one: One) -> str:
        return f"{what} {one}"

    @registry.resource("a://b")
    def read(one: One) -> str:
        return f"read {one}"

    @registry.resource("c://{d}")
    async def template(d: str, one: One) -> str:
        return f"{d} {one}"

    @registry.completion(prompt="ask", argument="what")
    async def complete(value: str, one: One) -> list[str]:
        return [f"{value} {one}"]

    assert [each.name for each in registry.prompts["ask"].description.arguments or ()] == ["what"]
    async with connect(registry) as client:
        assert (await client.get_prompt("ask", {"what": "why"})).messages[0].content.text == "why 1"
        assert (await client.read_resource("a://b")).text == "read 1"
        assert (await client.read_resource("c://x")).text == "x 1"
        found = await client.complete("what", "w", prompt="ask")
    assert found.values == ["w 1"]


async def test_middleware_does_not_see_what_is_filled_in_within() -> None:
    async def watch(call: McpCall, call_next: Any) -> Any:
        log.append(str(call.arguments))
        return await call_next(call)

    async def add(a: int, b: Annotated[int, Depends(number)]) -> int:
        return a + b

    registry = registry_of(add, middleware=[watch])
    assert await registry.call("add", {"a": 1}) == 2
    assert log == ["{'a': 1}", "number"]


# -- when it ends ---------------------------------------------------------------------------


async def both(
    a: Annotated[str, Depends(opened)], b: Annotated[str, Depends(opened_plainly)]
) -> str:
    log.append("run")
    return a


async def test_what_is_opened_last_is_closed_first_once_the_function_has_returned() -> None:
    await registry_of(both).call("both")
    assert log == ["open async", "open plain", "run", "close plain", "close async"]


async def test_it_is_left_with_the_exception_of_the_function() -> None:
    async def fail(
        a: Annotated[str, Depends(opened)], b: Annotated[str, Depends(opened_plainly)]
    ) -> str:
        raise ToolError("no")

    async with connect(registry_of(fail)) as client:
        assert (await client.call_tool("fail")).error == "no"
    assert log[2:] == ["ToolError", "close plain", "ToolError", "close async"]


async def test_it_is_left_when_the_caller_cancels() -> None:
    runs, closed = trio.Event(), threading.Event()

    def plain() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.set()

    async def hang(a: Annotated[str, Depends(opened)], b: Annotated[int, Depends(plain)]) -> str:
        runs.set()
        await trio.sleep_forever()
        raise AssertionError

    async with connect(registry_of(hang)) as client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "hang", timeout=60))
        await runs.wait()
        nursery.cancel_scope.cancel()
    assert log == ["open async", "Cancelled", "close async"]
    assert await trio.to_thread.run_sync(closed.wait, 10)


async def test_what_hangs_is_bounded_by_the_time_limit_of_the_call(autojump_clock: object) -> None:
    async def hang() -> int:
        await trio.sleep_forever()
        raise AssertionError

    async def hang_at_the_end() -> AsyncIterator[int]:
        yield 1
        await trio.sleep_forever()

    async def begin(a: Annotated[str, Depends(opened)], b: Annotated[int, Depends(hang)]) -> str:
        raise AssertionError

    async def end(b: Annotated[int, Depends(hang_at_the_end)]) -> str:
        return "done"

    async with connect(registry_of(begin, end, tool_timeout=3), tool_timeout=60) as client:
        for name in ("begin", "end"):
            assert (await client.call_tool(name)).error == f"Tool {name} timed out after 3 s"
    assert log == ["open async", "Cancelled", "close async"]


async def test_a_thread_that_opens_something_for_a_cancelled_call_closes_it() -> None:
    opens, may_open, closed = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[int]:
        opens.set()
        may_open.wait()
        yield 1
        closed.set()

    async def run(a: Annotated[int, Depends(slow)]) -> int:
        raise AssertionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(registry_of(run).call, "run")
        await trio.to_thread.run_sync(opens.wait)
        nursery.cancel_scope.cancel()
    may_open.set()
    assert await trio.to_thread.run_sync(closed.wait, 10)


async def test_what_swallows_an_error_does_not_make_a_result_of_it() -> None:
    async def swallow() -> AsyncIterator[int]:
        try:
            yield 1
        except ToolError:
            pass

    async def instead() -> AsyncIterator[int]:
        try:
            yield 1
        except ToolError:
            raise McpError(-32000, "rolled back") from None

    async def fail(a: Annotated[int, Depends(swallow)]) -> int:
        raise ToolError("no")

    async def refuse(a: Annotated[int, Depends(swallow)]) -> int:
        raise ToolError("refused")

    async def fail_before(a: Annotated[int, Depends(refuse)]) -> int:
        raise AssertionError

    async def other(a: Annotated[int, Depends(instead)]) -> int:
        raise ToolError("no")

    async with connect(registry_of(fail, fail_before, other)) as client:
        assert (await client.call_tool("fail")).error == "no"
        assert (await client.call_tool("fail_before")).error == "refused"
        with pytest.raises(McpError, match="rolled back"):
            await client.call_tool("other")


async def test_what_it_raises_is_reported_as_of_the_handler_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse() -> int:
        raise ToolError("log in first")

    async def crash() -> int:
        raise ValueError("the password")

    async def missing() -> int:
        raise ResourceNotFound

    async def refused(a: Annotated[int, Depends(refuse)]) -> int:
        raise AssertionError

    async def crashed(a: Annotated[int, Depends(crash)]) -> int:
        raise AssertionError

    registry = registry_of(refused, crashed)

    @registry.resource("a://b")
    async def read(a: Annotated[int, Depends(missing)]) -> str:
        raise AssertionError

    async with connect(registry) as client:
        assert (await client.call_tool("refused")).error == "log in first"
        error = (await client.call_tool("crashed")).error
        with pytest.raises(ResourceNotFound, match="a://b"):
            await client.read_resource("a://b")
    assert error == "Tool crashed failed: internal error (see the server's log)"
    assert "Tool crashed failed in its layer injecting" in caplog.text
    assert "the password" in caplog.text


async def test_it_may_ask_the_caller(autojump_clock: object) -> None:
    async def name(context: Context) -> str:
        answer = await context.elicit("Who?", str)
        return answer.value or ""

    async def greet(who: Annotated[str, Depends(name)]) -> str:
        return f"Hello {who}"

    async def answer(*_: Any) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": "Ada"}}

    registry = registry_of(greet)
    for era in ("modern", "legacy"):
        async with connect(registry, handlers=Handlers(elicitation=answer), era=era) as client:
            assert (await client.call_tool("greet")).text == "Hello Ada"


async def test_a_mounted_registry_has_its_own() -> None:
    async def state(context: Context) -> Any:
        return context.lifespan

    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[str]:
        yield "inner state"

    async def show(given: Annotated[Any, Depends(state)]) -> str:
        return str(given)

    outer = Registry("outer")
    outer.mount(registry_of(show, lifespan=lifespan), "inner")
    assert await outer.call("inner_show") == "inner state"


# -- in tests -------------------------------------------------------------------------------


async def test_another_function_takes_its_place_in_a_block() -> None:
    async def show(a: Annotated[str, Depends(opened)]) -> str:
        return a

    async def fake(one: Annotated[int, Depends(number)]) -> str:
        return f"fake {one}"

    inner = registry_of(show)
    outer = registry_of(show)
    outer.mount(inner, "inner")
    with override(outer, opened, fake):
        with override(outer, number, lambda: 7):
            assert await outer.call("show") == "fake 7"
        assert await outer.call("show") == "fake 1"
        assert await outer.call("inner_show") == "fake 1"
    assert await outer.call("show") == await outer.call("inner_show") == "async"
    with override(inner, opened, fake):
        assert [await outer.call(name) for name in outer.tools] == ["async", "fake 1"]


async def test_it_is_refused_what_cannot_take_its_place() -> None:
    registry = registry_of(both)

    async def needs(what: int) -> str:
        raise AssertionError

    async def original(a: Annotated[str, Depends(opened)]) -> str:
        raise AssertionError

    for replacement, why in ((needs, "'what': nothing fills it"), (original, "in a circle")):
        with pytest.raises(SchemaError, match=why), override(registry, opened, replacement):
            raise AssertionError
    with (
        pytest.raises(ValueError, match="nothing in 'test' depends on number"),
        override(registry, number, thread),
    ):
        raise AssertionError
    assert await registry.call("both") == "async"


# -- what is refused ------------------------------------------------------------------------


def refusal(annotation: Any, default: Any = ...) -> str:
    async def tool(given):  # type: ignore[no-untyped-def]
        raise AssertionError

    tool.__annotations__["given"] = annotation
    if default is not ...:
        tool.__defaults__ = (default,)
    with pytest.raises(SchemaError) as caught:
        registry_of(tool)
    return str(caught.value)


def test_what_cannot_fill_a_parameter_is_refused_at_registration() -> None:
    async def needs(what: int) -> int:
        raise AssertionError

    async def positional(context: Context, /) -> int:
        raise AssertionError

    expected = (
        "Tool 'tool': function 'tool', dependency 'given': function 'needs', parameter 'what': "
        "nothing fills it, as the function is a dependency; give it a default, or annotate it "
        "with a Context or with Annotated[…, Depends(…)]"
    )
    assert refusal(Annotated[int, Depends(needs)]) == expected
    assert "cannot be positional-only" in refusal(Annotated[int, Depends(positional)])
    assert "5 cannot be called" in refusal(int, Depends(5))  # type: ignore[arg-type]
    said = refusal(Annotated[Picky, Depends(Picky)])
    assert "function 'Picky', parameter 'token': nothing fills it" in said
    for abstract in (Iterator, Closable):
        said = refusal(int, Depends(abstract))
        assert f"the class {abstract.__qualname__} is abstract; depend on a function" in said
    assert "put Depends(…) outermost" in refusal(Annotated[int, Depends(number)] | None)
    assert "put Depends(…) outermost" in refusal(list[Annotated[int, Depends(number)]])
    assert "has 2 of them" in refusal(Annotated[int, Depends(number), Depends(thread)])


async def first(value: "Annotated[int, Depends(second)]") -> int:
    raise AssertionError


async def second(value: Annotated[int, Depends(first)]) -> int:
    raise AssertionError


def test_what_needs_itself_is_refused() -> None:
    message = refusal(Annotated[int, Depends(first)])
    assert message.endswith("dependencies need each other in a circle: first → second → first")


def test_a_chain_has_a_bound() -> None:
    function: Any = number
    for _ in range(60):

        async def deeper(value: int = Depends(function)) -> int:
            raise AssertionError

        function = deeper
    assert "more than 50 levels deep" in refusal(int, Depends(function))


def test_marks_of_other_libraries_do_not_leave_a_parameter_to_callers() -> None:
    for name in ("Depends", "_Depends", "Security", "Resolve"):
        mark = type(name, (), {"__init__": lambda self, function: None})(number)
        for said in (refusal(Annotated[str, mark]), refusal(str, mark)):
            assert f"parameter 'given': this {name} is of another library, or has no func" in said
            assert "write Depends(function), with the Depends of trio_mcp" in said
    for said in (refusal(Annotated[str, Depends]), refusal(str, Depends)):
        assert "this Depends is of another library, or has no function" in said


def test_a_schema_by_hand_cannot_have_it() -> None:
    async def tool(given: Annotated[int, Depends(number)], **rest: Any) -> int:
        raise AssertionError

    schema = {"type": "object", "properties": {"given": {}}}
    with pytest.raises(SchemaError, match="'given', but it is for a dependency"):
        Registry("test").add_tool(tool, input_schema=schema)


def test_the_layer_is_there_only_where_it_is_needed() -> None:
    registry = registry_of(both, middleware=[])
    registry.add_tool(number)
    assert registry.tools["both"].layers == ("converting", "injecting", "function")
    assert registry.tools["number"].layers == ("converting", "function")
