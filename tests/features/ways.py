"""The ways to a server: a stream in memory, a TCP socket, a process; or a client in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.client.support import served
from tests.features import library
from tests.support.client import LEGACY, MODERN, RawClient, serving
from tests.support.processes import TIME_LIMIT, python, running
from trio_mcp import Client, Limits, Registry, connect, serve_stream

LIBRARY = Path(library.__file__)
LOOPBACK = "127.0.0.1"
NOT_FOUND = {"2026-07-28": -32602}
"""The code that says so; legacy revisions have -32002."""

# Nothing that travels differs from way to way. So each way is gone once, and each revision heard
# on the one that costs least.
each_way = pytest.mark.parametrize(
    ("way", "revision"),
    [
        *(("memory", each) for each in (LEGACY[0], LEGACY[-1], *MODERN)),
        ("tcp", LEGACY[-1]),
        ("stdio", MODERN[0]),
    ],
)
each_client = pytest.mark.parametrize(
    ("way", "era"),
    [
        *((way, era) for way in ("in-process", "memory") for era in ("modern", "legacy")),
        ("tcp", "legacy"),
        ("stdio", "modern"),
    ],
)
each_quick_client = pytest.mark.parametrize(
    ("way", "era"),
    [(way, era) for way in ("in-process", "memory") for era in ("modern", "legacy")],
)


def patience() -> AbstractContextManager[object]:
    """What hangs fails; on a mock clock, which jumps there, after everything else."""
    mocked = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    return trio.fail_after(1e6 if mocked else TIME_LIMIT)


def command(directory: Path | None = None) -> list[str]:
    """The command that runs the library."""
    return python(LIBRARY, *([] if directory is None else [str(directory)]))


@asynccontextmanager
async def on_tcp(registry: Registry) -> AsyncIterator[trio.SocketStream]:
    """A connection to a registry that is served on a socket."""
    listeners = await trio.open_tcp_listeners(0, host=LOOPBACK)

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry, stream, limits=Limits(eof_grace=0))

    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        port = listeners[0].socket.getsockname()[1]
        stream = await trio.open_tcp_stream(LOOPBACK, port)
        try:
            yield stream
        except BaseException as error:  # raised again below, outside of any exception group
            failure = error
        await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def connection_by(
    way: str, registry: Registry, command: list[str]
) -> AsyncIterator[RawClient]:
    """A raw client that has sent nothing so far; a process has to exit in good order."""
    if way == "memory":
        async with serving(registry, shake_hands=False) as (client, _):
            yield client
    elif way == "tcp":
        with patience():
            async with on_tcp(registry) as stream:
                yield RawClient(stream)
    else:
        async with running(command) as server:
            yield server.client
            assert await server.finish() == 0


@asynccontextmanager
async def reaching(
    way: str, revision: str, directory: Path | None = None
) -> AsyncIterator[RawClient]:
    """A raw client of the library, hands shaken."""
    async with connection_by(way, library.make(directory), command(directory)) as client:
        client.revision = revision
        await client.initialize()
        yield client


@asynccontextmanager
async def client_of(
    registry: Registry, way: str, era: Any, **options: Any
) -> AsyncIterator[Client]:
    """A client of a registry; a process serves the library, whatever the registry is."""
    with patience():
        if way == "in-process":
            async with connect(registry, era=era, **options) as client:
                yield client
        elif way == "memory":
            async with served(registry, era=era, **options) as client:
                yield client
        elif way == "tcp":
            async with on_tcp(registry) as stream:
                async with connect(stream, era=era, **options) as client:
                    yield client
        else:
            async with connect(command(), era=era, **options) as client:
                yield client


def not_found(revision: str, uri: str) -> dict[str, Any]:
    """The error for a URI where there is nothing."""
    return {
        "code": NOT_FOUND.get(revision, -32002),
        "message": f"Resource not found: {uri[:500]}",
        "data": {"uri": uri[:500]},
    }
