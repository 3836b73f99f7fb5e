"""A lifespan that fails says so, and what only passes through it keeps its name (B13)."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from trio_mcp import Registry, connect
from trio_mcp.errors import LifespanError
from trio_mcp.registry import catalogue_of

pytestmark = pytest.mark.requirement("B13")


async def wilt() -> None:
    raise LookupError("no water")


def failing(when: str) -> Registry:
    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[None]:
        if when == "opening":
            await wilt()
        yield
        await wilt()

    return Registry("plants", lifespan=lifespan)


@pytest.mark.parametrize("when", ["opening", "closing"])
@pytest.mark.parametrize("way", ["opened", "running"])
async def test_it_says_when_it_fails(when: str, way: str) -> None:
    reached = []
    with pytest.raises(LifespanError) as caught:
        registry = failing(when)
        opened = registry.running if way == "running" else catalogue_of(registry).opened
        async with opened():
            reached.append(when)
    assert str(caught.value) == "the lifespan of plants failed: LookupError: no water"
    assert type(caught.value.__cause__) is LookupError
    assert reached == ([] if when == "opening" else ["closing"])


def test_something_that_is_no_lifespan() -> None:
    registry = Registry("plants", lifespan=lambda registry: None)  # type: ignore[arg-type, return-value]

    async def main() -> None:
        with pytest.raises(LifespanError, match="TypeError"):
            async with catalogue_of(registry).opened():
                pass

    trio.run(main)


async def test_it_reaches_who_connects() -> None:
    with pytest.raises(LifespanError, match="no water"):
        async with connect(failing("opening")):
            pass


@pytest.mark.parametrize("nursery", [False, True])
async def test_what_only_passes_through_keeps_its_name(nursery: bool) -> None:
    closed = []

    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[str]:
        try:
            if nursery:
                async with trio.open_nursery():
                    yield registry.name
            else:
                yield registry.name
        finally:
            closed.append(registry.name)

    registry = Registry("plants", lifespan=lifespan)
    with pytest.raises((OSError, ExceptionGroup)) as caught:
        async with catalogue_of(registry).opened() as opened:
            assert opened.state == "plants"
            raise OSError(errno.EPIPE, "pipe")
    assert type(caught.value) is (ExceptionGroup if nursery else BrokenPipeError)
    with trio.move_on_after(0):
        async with catalogue_of(registry).opened():
            await trio.sleep_forever()
    assert closed == ["plants", "plants"]


async def test_a_failure_in_a_task_of_the_lifespan() -> None:
    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wilt)
            yield

    with pytest.raises(LifespanError) as caught:
        async with catalogue_of(Registry("plants", lifespan=lifespan)).opened():
            await trio.sleep_forever()
    assert isinstance(caught.value.__cause__, ExceptionGroup)


async def test_a_registry_without_a_lifespan_stays_without() -> None:
    async with catalogue_of(Registry("plants")).opened() as opened:
        assert opened.state is None
