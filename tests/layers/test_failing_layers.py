"""A layer that fails: its call is answered, the log names the layer, and the connection goes on."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import trio

from tests.support.client import serving
from tests.support.tools import INTERNAL, failure_of
from trio_mcp import Context, Registry
from trio_mcp.extending import ServerExtension
from trio_mcp.layers import log_bridge
from trio_mcp.middleware import McpCall
from trio_mcp.server.server import Server
from trio_mcp.transports import stream


async def add(a: int, b: int) -> int:
    return a + b


async def broken(call: McpCall, call_next: Any) -> Any:
    raise ValueError("s3cret")


async def fail() -> None:
    raise ValueError("s3cret")


async def through(given: McpCall, call_next: Any) -> Any:
    return await call_next(given)


class Broken(ServerExtension):
    """Fails around calls."""

    identifier = "com.example/broken"
    wraps = ("tools/call",)

    async def around(self, request: Any, proceed: Any) -> Any:
        raise ValueError("s3cret")


class Passing(Broken):
    """Does nothing around calls."""

    async def around(self, request: Any, proceed: Any) -> Any:
        return await proceed()


async def failure(registry: Registry, caplog: pytest.LogCaptureFixture, name: str = "add") -> str:
    """Call a tool that fails without detail, twice; return what the log says of it."""
    async with serving(registry) as (client, _):
        for _ in range(2):
            answer = await client.call(name, a=1, b=2)
            assert failure_of(answer) == f"Tool {name} failed: {INTERNAL}"
    record, again = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == again.getMessage()
    assert record.exc_info is not None
    assert "s3cret" in str(record.exc_info[1])
    return record.getMessage()


def registry_with(tool: Any = add, **options: Any) -> Registry:
    registry = Registry("test", **options)
    registry.add_tool(tool, name="add")
    return registry


async def test_an_extension_around_calls(caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_with(extensions=[Broken()])
    assert await failure(registry, caplog) == "Tool add failed in its layer extending"


async def test_middleware(caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_with(middleware=[through, broken])
    assert await failure(registry, caplog) == "Tool add failed in its layer middleware"


async def test_middleware_of_a_mounted_registry(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry("outer", middleware=[through])
    registry.mount(registry_with(middleware=[broken]))
    assert await failure(registry, caplog) == "Tool add failed in its layer middleware"


async def test_a_log_bridge(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def serving_badly(*_: Any) -> Iterator[None]:
        yield
        raise ValueError("s3cret")

    registry = registry_with()
    registry.log_handler()
    monkeypatch.setattr(log_bridge, "serving", serving_badly)
    assert await failure(registry, caplog) == "Tool add failed in its layer log_bridge"


async def test_the_conversion_of_a_result(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def badly(value: object) -> bool:
        raise ValueError("s3cret")

    monkeypatch.setattr(sys.modules["trio_mcp.layers.converting"], "is_large", badly)

    async def add(a: int, b: int) -> list[int]:
        return [a, b]

    assert await failure(registry_with(add), caplog) == "Tool add failed in its layer converting"


class FailsFirst:
    def begin(self) -> float:
        raise ValueError("s3cret")

    def end(self, request: Any, began: float) -> None:
        raise AssertionError


class FailsLast:
    def begin(self) -> float:
        return 1.5

    def end(self, request: Any, began: float) -> None:
        assert began == 1.5
        raise ValueError("s3cret")


@pytest.mark.parametrize("observer", [FailsFirst(), FailsLast()])
async def test_what_observes_calls_outside_of_everything(
    observer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "Server", partial(Server, observer=observer))
    registry = registry_with()
    assert await failure(registry, caplog) == "Tool add failed in its layer observing"


# -- the author's function --------------------------------------------------------------------


def in_thread(a: int, b: int) -> int:
    raise ValueError("s3cret")


async def in_nursery(a: int, b: int) -> int:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
    return 1


async def with_context(a: int, b: int, context: Context) -> int:
    await context.progress(1)
    raise ValueError("s3cret")


class Callable_:
    """An object that is called as a function is."""

    async def __call__(self, a: int, b: int) -> int:
        raise ValueError("s3cret")

    async def method(self, a: int, b: int) -> int:
        raise ValueError("s3cret")


async def other(a: int, b: int, c: int) -> int:
    raise ValueError("s3cret")


@pytest.mark.parametrize(
    "tool",
    [in_thread, in_nursery, with_context, Callable_(), Callable_().method, partial(other, c=3)],
    ids=["thread", "nursery", "context", "object", "method", "partial"],
)
@pytest.mark.parametrize("mounted", [False, True])
async def test_no_layer_is_named_where_the_function_has_failed(
    tool: Any, mounted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry("inner", middleware=[through], extensions=[Passing()])
    registry.add_tool(tool, name="add")
    if mounted:
        outer = Registry("outer", middleware=[through], extensions=[Passing()])
        outer.mount(registry_with(tool, middleware=[through]))
        registry = outer
    assert await failure(registry, caplog) == "Tool add failed"
