"""Which layers stand around a function, in which order; what a feature that is absent costs."""

from typing import Any

import trio

from tests.registry.elsewhere import Elsewhere
from trio_mcp import Registry, connect
from trio_mcp.layers import stack
from trio_mcp.layers.call import Call, Handler, Layer
from trio_mcp.middleware import McpCall
from trio_mcp.registry import catalogue_of


async def through(given: McpCall, call_next: Any) -> Any:
    return await call_next(given)


async def add(a: int, b: int) -> int:
    return a + b


def plain(a: int) -> int:
    return a


def entry(registry: Registry, name: str) -> Any:
    return catalogue_of(registry).table("tools")[name]


def layers(registry: Registry, name: str = "add") -> tuple[str, ...]:
    found: tuple[str, ...] = entry(registry, name).layers
    return found


def registry_of(*functions: Any, **options: Any) -> Registry:
    registry = Registry("test", **options)
    for function in functions:
        registry.add_tool(function)
    return registry


def test_what_is_not_used_is_not_there() -> None:
    registry = registry_of(add, plain)
    assert layers(registry) == ("converting", "function")
    assert layers(registry, "plain") == ("converting", "thread")


def test_middleware_is_a_layer_for_each() -> None:
    registry = registry_of(add, middleware=[through, through])
    assert layers(registry) == ("converting", "middleware", "middleware", "function")


def test_only_an_async_function_has_a_layer_for_its_slots() -> None:
    registry = Registry("test", middleware=[through])
    registry.add_tool(add, max_concurrent=2)
    registry.add_tool(plain, max_concurrent=2)
    assert layers(registry) == ("converting", "middleware", "concurrency", "function")
    assert layers(registry, "plain") == ("converting", "middleware", "thread")


def test_a_mount_adds_the_borders_and_keeps_what_is_inside() -> None:
    inner = registry_of(add, middleware=[through])
    outer = Registry("outer")
    outer.mount(inner)
    bare = registry_of(add)
    other = Registry("other")
    other.mount(bare)
    assert layers(outer) == ("forwarding", "converting", "mounting", "middleware", "function")
    assert layers(other) == ("forwarding", "converting", "function")  # nothing gets a context


def test_mounts_within_mounts_have_the_middleware_of_each() -> None:
    inner = registry_of(add, middleware=[through])
    middle = Registry("middle", middleware=[through])
    middle.mount(inner)
    outer = Registry("outer", middleware=[through])
    outer.mount(middle)
    found = layers(outer)
    assert found[:2] == ("forwarding", "converting")
    assert [each for each in found if each in ("middleware", "mounting", "function")] == [
        "middleware", "mounting", "middleware", "mounting", "middleware", "function",
    ]  # fmt: skip


def test_an_entry_shows_its_layers() -> None:
    registry = registry_of(add, middleware=[through])
    assert repr(entry(registry, "add")) == "<Tool add: converting > middleware > function>"


def noting(notes: list[str], name: str) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Any:
            notes.append(name)
            try:
                return await inner(call)
            finally:
                notes.append(f"{name} is left")

        return run

    return layer


async def test_the_first_layer_is_outermost() -> None:
    notes: list[str] = []

    async def innermost(call: Call) -> str:
        notes.append("function")
        await trio.lowlevel.checkpoint()
        return "done"

    run = stack([(name, noting(notes, name)) for name in ("outer", "inner")], innermost)
    assert await run(Call(None, None, "add", {})) == "done"
    assert notes == ["outer", "inner", "function", "inner is left", "outer is left"]


def test_without_layers_the_function_itself_is_run() -> None:
    async def innermost(call: Call) -> None: ...

    assert stack([], innermost) is innermost


async def test_what_is_forwarded_is_prepared_for_the_caller() -> None:
    elsewhere = Elsewhere()
    registry = Registry("test", middleware=[through])
    registry.mount(elsewhere)
    async with connect(registry):
        assert layers(registry, "echo") == (
            "forwarding", "converting", "middleware", "mounting", "function",
        )  # fmt: skip
