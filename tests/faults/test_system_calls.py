"""Each system call that a transport or a store makes fails, in each way in which it can.

A request is answered exactly once, or its connection ends; and nothing is left behind.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import trio

from tests.client.support import IMPATIENT, command, holdings, left_since
from tests.support.failing import FAILURES, Failing, FailingSocket, Failure, failing_calls
from tests.support.processes import call, lines, ping
from tests.support.tools import echo, registry_of
from tests.transports.http.asgi_server_support import post
from trio_mcp import connect, http_app
from trio_mcp.errors import CannotStart, ClientError
from trio_mcp.server.lifecycle import Lifecycle
from trio_mcp.store.changes import Put
from trio_mcp.store.errors import StoreError, StoreUnavailable
from trio_mcp.store.sqlite import SQLiteStore
from trio_mcp.transports import process
from trio_mcp.transports.http.server import pipe, serve_asgi
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.transports.stdio import readers, writers
from trio_mcp.transports.stdio.readers import open_reader
from trio_mcp.transports.stdio.writers import open_writer
from trio_mcp.transports.stream import serve_connection
from trio_mcp.wire.limits import Limits

pytestmark = pytest.mark.requirement("N3")

REGISTRY: Final = registry_of(echo)
TIME_LIMIT: Final = 120  # seconds, for what must not hang
MOST_CALLS: Final = 200


def strike_each(
    name: str, failure: Failure, use: Callable[[Failing], Awaitable[None]], least: int = 1
) -> None:
    """Have each call of that name fail, one run after the other."""

    async def main(failing: Failing) -> None:
        with trio.fail_after(TIME_LIMIT):
            await use(failing)

    never = Failing(name, MOST_CALLS, failure)
    trio.run(main, never)  # what is made once and kept is made now
    before = holdings()
    for at in range(MOST_CALLS):
        failing = Failing(name, at, failure)
        trio.run(main, failing)
        assert left_since(before) == {}, f"{name} {at} failed with {failure.name}"
        if not failing.struck:
            assert at >= least
            return
    raise AssertionError("it never ran through")


# -- stdio ---------------------------------------------------------------------------------------


Ends = tuple[int, int, Callable[[], Any]]
"""What a server reads and writes, and what makes the client's stream."""


def _pipes() -> Ends:
    (in_, feed), (drain, out) = os.pipe(), os.pipe()
    return (
        in_,
        out,
        lambda: trio.StapledStream(trio.lowlevel.FdStream(feed), trio.lowlevel.FdStream(drain)),
    )


def _sockets() -> Ends:
    ours, theirs = socket.socketpair()
    fd = ours.detach()
    return fd, os.dup(fd), lambda: trio.SocketStream(trio.socket.from_stdlib_socket(theirs))


@contextmanager
def _failing_sockets(module: ModuleType, failing: Failing) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        real = module.adopt  # type: ignore[attr-defined]
        patch.setattr(module, "adopt", lambda fd: FailingSocket(real(fd), failing))
        yield


WAYS: Final = {
    "pipe read": (readers, "read", _pipes, failing_calls),
    "pipe write": (writers, "write", _pipes, failing_calls),
    "socket recv": (readers, "recv", _sockets, _failing_sockets),
    "socket send": (writers, "send", _sockets, _failing_sockets),
}


async def _converse(in_: int, out: int, connect: Callable[[], Any]) -> Counter[Any]:
    """Serve on descriptors; return how often each request was answered."""
    received = bytearray()
    client = connect()

    async def ask() -> None:
        try:
            for each in (call(0, "echo", text="x" * 3000), ping(1), call(2, "echo", text="y")):
                await client.send_all(lines(each))
            await client.send_eof()
        except trio.BrokenResourceError:  # the server has gone
            pass

    async def listen() -> None:
        try:
            async for chunk in client:
                received.extend(chunk)
        except trio.BrokenResourceError:
            pass

    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(listen)
        with closing(open_reader(in_)) as reader, closing(open_writer(out)) as writer:
            os.close(in_)
            os.close(out)
            stream = trio.StapledStream(writer, reader)
            now = writer.send_nowait
            await serve_connection(REGISTRY, stream, Limits(), Lifecycle(), send_nowait=now)
    *whole, _ = bytes(received).split(b"\n")
    return Counter(json.loads(line)["id"] for line in whole)


@pytest.mark.parametrize(
    ("way", "failure"),
    [(way, failure) for way in WAYS for failure in FAILURES[WAYS[way][1]]],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_call_that_fails_on_stdio(way: str, failure: Failure) -> None:
    module, name, make, failing_in = WAYS[way]

    async def use(failing: Failing) -> None:
        with failing_in(module, failing):
            answered = await _converse(*make())
        assert set(answered.values()) <= {1}
        if failure.passes or not failing.struck:
            assert set(answered) == {0, 1, 2}

    strike_each(name, failure, use)


# -- HTTP ----------------------------------------------------------------------------------------

HEADERS: Final = (
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    "Connection: close",
)


@pytest.mark.parametrize(
    ("name", "failure"),
    [(name, failure) for name in ("read", "write") for failure in FAILURES[name]],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_call_that_fails_in_the_http_server(name: str, failure: Failure) -> None:
    body = json.dumps(call(7, "echo", text="x" * 3000)).encode()
    request = post(body, *HEADERS, target="/mcp").replace(b"Host: test", b"Host: localhost")

    async def ask(port: int) -> bytes:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        received = b""
        async with stream:
            try:
                await stream.send_all(request)
                async for chunk in stream:
                    received += chunk
            except trio.BrokenResourceError:
                pass
        return received

    async def use(failing: Failing) -> None:
        app = http_app(REGISTRY)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with app.running(), trio.open_nursery() as nursery:
            server = await nursery.start(serve_asgi, app, listeners)
            _, port = server.addresses[0]
            with failing_calls(pipe, failing):
                answer = await ask(port)
            assert answer.count(b'"id":7') <= 1
            if failure.passes or not failing.struck:
                assert answer.count(b'"id":7') == 1
            assert (await ask(port)).count(b'"id":7') == 1, "the next client is not served"
            nursery.cancel_scope.cancel()

    strike_each(name, failure, use)


class FailingListener(trio.abc.Listener[trio.SocketStream]):
    """A listener whose n-th `accept` fails."""

    def __init__(self, listener: trio.SocketListener, code: int, at: int) -> None:
        self.transport_listener = listener  # by which its address is found
        self.left = at
        self._code = code

    async def accept(self) -> trio.SocketStream:
        self.left -= 1
        if self.left == -1:
            raise OSError(self._code, os.strerror(self._code))
        return await self.transport_listener.accept()

    async def aclose(self) -> None:
        await self.transport_listener.aclose()


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("code", ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EIO", "EBADF"])
def test_a_connection_that_cannot_be_accepted(code: str, at: int) -> None:
    """A shortage passes, and any other failure ends the server; in between, all are answered."""
    body = json.dumps(call(7, "echo", text="x")).encode()
    request = post(body, *HEADERS, target="/mcp").replace(b"Host: test", b"Host: localhost")
    answers = 0

    async def ask(port: int) -> None:
        nonlocal answers
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(request)
            received = b"".join([chunk async for chunk in stream])
        answers += received.count(b'"id":7')

    async def use() -> None:
        app = http_app(REGISTRY)
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        failing = FailingListener(listener, getattr(errno, code), at)
        async with app.running(), trio.open_nursery() as nursery:
            server = await nursery.start(serve_asgi, app, [failing])
            _, port = server.addresses[0]
            for _ in range(3):
                await ask(port)
            nursery.cancel_scope.cancel()

    before = holdings()
    if code in ("EIO", "EBADF"):
        with pytest.raises(ExceptionGroup):
            trio.run(use)
        assert answers <= max(0, at)
    else:
        trio.run(use)
        assert answers == 3
    assert left_since(before) == {}


# -- the client of a process ---------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("failure", FAILURES["write"], ids=lambda failure: failure.name)
def test_a_call_that_fails_in_the_client_of_a_process(failure: Failure) -> None:
    options = ProcessOptions(**IMPATIENT)

    async def use(failing: Failing) -> None:
        with failing_calls(process, failing):
            try:
                async with connect(command(), process_options=options) as client:
                    assert await client.call_tool("echo", {"text": "x"}, returns=str) == "x"
            except ClientError:
                assert failing.struck
                assert not failure.passes

    strike_each("write", failure, use)


@pytest.mark.parametrize("code", ["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "E2BIG", "EACCES", "EIO"])
def test_a_process_that_cannot_be_started(code: str) -> None:
    def fail(*_: object, **__: object) -> None:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number))

    async def use() -> None:
        with pytest.raises(CannotStart, match=re.escape(os.strerror(getattr(errno, code)))):
            async with connect(command()):
                raise AssertionError("it is not there")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", fail)
        trio.run(use)  # what is made once and kept is made now
        before = holdings()
        trio.run(use)
    assert left_since(before) == {}


# -- a store in SQLite ---------------------------------------------------------------------------


class _Striking:
    """Has the n-th statement or commit of a database fail."""

    def __init__(self, at: int, code: int) -> None:
        self.left = at
        self.code = code

    def strike(self) -> None:
        self.left -= 1
        if self.left == -1:
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorcode = self.code
            raise error


@pytest.mark.parametrize(
    "code",
    [
        "SQLITE_IOERR",
        *(
            pytest.param(code, marks=pytest.mark.long)
            for code in ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_CORRUPT", "SQLITE_READONLY")
        ),
    ],
)
def test_a_statement_that_fails_in_sqlite(code: str, tmp_path: Path) -> None:
    def factory(striking: _Striking) -> type[sqlite3.Connection]:
        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                striking.strike()
                return super().execute(*arguments)

            def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
                try:
                    if kind is None:
                        striking.strike()
                except sqlite3.Error as failed:
                    super().__exit__(type(failed), failed, None)
                    raise
                return super().__exit__(kind, error, traceback)

        return Connection

    async def use(path: Path, striking: _Striking) -> None:
        written: dict[str, type[Exception] | None] = {}
        real = sqlite3.connect
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite3, "connect", partial(real, factory=factory(striking)))
            try:
                async with SQLiteStore(path, timeout=0.01).open() as store:
                    for key in ("a:1", "a:2", "a:3"):
                        try:
                            await store.commit(Put(key, key.encode(), ttl=1e6))
                            written[key] = None
                        except StoreError as error:
                            written[key] = type(error)
            except StoreError:
                assert not written, "it failed when it was closed"
        async with SQLiteStore(path).open() as store:
            for key, refused in written.items():
                entry = await store.get(key)
                if refused is None:
                    assert entry is not None, f"{key} is lost"
                elif refused is not StoreUnavailable:  # which says that nobody knows
                    assert entry is None, f"{key} was refused, and is there"

    before = None
    for at in range(MOST_CALLS):
        striking = _Striking(at, getattr(sqlite3, code))
        trio.run(use, tmp_path / f"{at}.db", striking)
        if before is None:
            before = holdings()
        assert left_since(before) == {}, f"statement {at}"
        if striking.left >= 0:
            assert at > 20
            return
    raise AssertionError("it never ran through")
