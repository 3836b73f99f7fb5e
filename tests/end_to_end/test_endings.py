"""How a server process ends: by itself, always, and with everybody answered.

That it takes no more than 5 s is shown by a clock that jumps, in `tests/server/test_end_of_input.py`:
on a busy machine a process may need longer for what takes it a moment on an idle one.
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.processes import (
    PROGRAMS,
    call,
    ping,
    python,
    running,
    text_of,
    workshop,
)
from trio_mcp import Client, McpError, connect
from trio_mcp.system.capabilities import POLLS

EXIT_STUCK = 70
SIGNALS = [signal.SIGTERM, signal.SIGINT]

CANCELLED = {"code": -32603, "message": "Request cancelled"}


def errors_by_id(messages: list[Any]) -> dict[Any, Any]:
    return {each["id"]: each["error"] for each in messages}


async def open_for_writing(fifo: Path) -> int:
    """Open a FIFO, which succeeds when somebody reads it."""
    return await trio.to_thread.run_sync(os.open, fifo, os.O_WRONLY, abandon_on_cancel=True)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


# -- end of input ------------------------------------------------------------------------------


@pytest.mark.requirement("B8")
async def test_with_stdout_open_all_calls_are_answered() -> None:
    async with running(workshop()) as server:
        await server.client.send(*(call(n, "forever") for n in range(20)), ping(99))
        await server.said(b"forever runs", times=20)
        assert await server.client.receive() == {"jsonrpc": "2.0", "id": 99, "result": {}}
        await server.client.send_eof()
        messages = await server.client.receive_all()
        assert await server.exit() == 0
    assert errors_by_id(messages) == dict.fromkeys(range(20), CANCELLED)
    assert b"Client disconnected (EOF), flushed 20 responses, dropped 0 responses" in server.stderr


@pytest.mark.requirement("B8")
async def test_with_stdout_closed_the_process_is_gone() -> None:
    async with running(workshop()) as server:
        await server.client.send(*(call(n, "forever") for n in range(20)))
        await server.said(b"forever runs", times=20)
        await server.hang_up()
        assert await server.exit() == 0
    assert b"Client disconnected (" in server.stderr
    assert b"flushed 0 responses" in server.stderr


@pytest.mark.requirement("B8")
async def test_a_call_that_finishes_within_the_grace_is_answered(fifo: Path) -> None:
    async with running(workshop(eof_grace=60)) as server:
        await server.client.send(call(1, "read", path=str(fifo)))
        fd = await open_for_writing(fifo)
        await server.client.send_eof()
        await server.said(b"draining")
        os.write(fd, b"just in time")
        os.close(fd)
        (answer,) = await server.client.receive_all()
        assert text_of(answer) == "just in time"
        assert await server.exit() == 0


@pytest.mark.requirement("B3", "B8")
@pytest.mark.parametrize("tool", ["stuck_in_python", "stuck_in_c"])
async def test_a_stuck_worker_thread_holds_up_nobody(tool: str) -> None:
    async with running(workshop(eof_grace=0)) as server:
        await server.client.send(call(1, tool))
        await server.said(b"stuck")
        await server.client.send(call(2, "echo", text="still here"))
        assert text_of(await server.client.receive()) == "still here"
        await server.client.send_eof()
        (answer,) = await server.client.receive_all()
        assert answer["error"] == CANCELLED
        assert await server.exit() == 0


@pytest.mark.requirement("B3", "B1")
async def test_a_stuck_worker_thread_is_answered_at_its_time_limit() -> None:
    async with running(workshop(tool_timeout=0.1)) as server:
        answer = await server.client.call("stuck_in_python")
        assert answer["result"]["isError"] is True
        assert text_of(answer) == "Tool stuck_in_python timed out after 0.1 s"
        assert await server.finish() == 0


@pytest.mark.requirement("B3", "B8")
async def test_a_tool_that_ignores_cancellation_does_not_keep_the_process() -> None:
    async with running(workshop(eof_grace=0, cancel_timeout=0.1)) as server:
        await server.client.send(*(call(id, "stubborn") for id in (1, 3, 4)), call(2, "forever"))
        await server.said(b"stubborn runs")
        await server.said(b"forever runs")
        await server.client.send_eof()
        messages = await server.client.receive_all()
        assert await server.exit() == EXIT_STUCK
    assert errors_by_id(messages) == dict.fromkeys((1, 2, 3, 4), CANCELLED)
    assert b"Tool stubborn (3 calls) ignores its cancellation" in server.stderr


@pytest.mark.long
@pytest.mark.requirement("B3", "B8")
async def test_with_stdout_open_but_unread_the_process_is_gone() -> None:
    """What cannot be flushed is dropped, also when a tool ignores its cancellation."""

    async def one(tool: str, status: int) -> None:
        async with running(workshop()) as server:
            await server.client.send(call(1, tool), call(2, "big", letter="x", size=1_000_000))
            await server.said(f"{tool} runs".encode())
            await server.said(b"Tool big: ok")
            await server.client.send_eof()
            assert await server.exit() == status
            if status == 0:
                assert b"flushed 0 responses, dropped 2 responses" in server.stderr

    async with trio.open_nursery() as nursery:  # at the same time, since they mostly wait
        nursery.start_soon(one, "forever", 0)
        nursery.start_soon(one, "stubborn", EXIT_STUCK)


def lists(size: int) -> bytes:
    """As many requests as fit, whose answers need no waiting."""
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    return line * (size // len(line))


@pytest.mark.requirement("B8")
async def test_answers_that_nothing_reads_do_not_keep_the_process() -> None:
    async with running(workshop()) as server:
        await server.client.send_bytes(lists(20_000))
        await server.client.send_eof()
        assert await server.exit() == 0
    assert re.search(rb"Client disconnected \(EOF\), .* dropped [1-9]", server.stderr)


@pytest.mark.requirement("B8")
@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes cannot be made larger")
@pytest.mark.skipif(not POLLS, reason="a hang-up cannot be asked for")
async def test_the_end_of_input_counts_although_more_is_in_it_than_is_read() -> None:
    async with running(workshop()) as server:
        await server.said(b"running")
        server.signal(signal.SIGSTOP)  # so that all of it is in the pipe when that is closed
        assert server.process.stdin is not None
        fcntl.fcntl(server.process.stdin.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)
        await server.client.send_bytes(lists(1 << 20))
        await server.client.send_eof()
        server.signal(signal.SIGCONT)
        assert await server.exit() == 0
    assert b"end of input, which is not read to its end" in server.stderr


@pytest.mark.requirement("B8")
async def test_a_server_whose_parent_is_killed_goes_away_by_itself() -> None:
    command = python(PROGRAMS / "parent.py", *workshop())
    async with running(command, stdin=subprocess.DEVNULL) as parent:
        assert parent.process.stdout is not None
        pid = int(await parent.process.stdout.receive_some())
        await parent.said(b"running")
        parent.process.kill()
        assert await parent.exit() == -signal.SIGKILL  # stderr ends when the server has gone, too
        await parent.said(b"stopped")
        assert not Path(f"/proc/{pid}/exe").exists()  # a zombie at most, until init reaps it


# -- signals -----------------------------------------------------------------------------------


@pytest.mark.requirement("B9")
async def test_a_signal_lets_running_calls_finish(fifo: Path) -> None:
    async with running(workshop(shutdown_grace=60)) as server:
        await server.client.send(call(1, "read", path=str(fifo)))
        fd = await open_for_writing(fifo)
        server.signal(signal.SIGTERM)
        await server.said(b"draining")
        os.write(fd, b"finished")
        os.close(fd)
        (answer,) = await server.client.receive_all()
        assert text_of(answer) == "finished"
        assert await server.exit() == 0
    assert b"Client disconnected (stopped), flushed 1 responses" in server.stderr


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("number", SIGNALS)
async def test_a_signal_ends_an_idle_server(number: int) -> None:
    async with running(workshop()) as server:
        await server.said(b"running")
        server.signal(number)
        assert await server.exit() == 0
        assert await server.client.receive() is None
    assert b"stopped" in server.stderr


@pytest.mark.requirement("B9")
async def test_after_the_grace_calls_are_cancelled_and_answered() -> None:
    async with running(workshop(shutdown_grace=0.05)) as server:
        await server.client.send(call(1, "forever"))
        await server.said(b"forever runs")
        server.signal(signal.SIGTERM)
        (answer,) = await server.client.receive_all()
        assert answer["error"] == CANCELLED
        assert await server.exit() == 0


@pytest.mark.requirement("B9")
async def test_a_second_signal_ends_the_process_at_once() -> None:
    async with running(workshop(shutdown_grace=1000)) as server:
        await server.client.send(call(1, "forever"))
        await server.said(b"forever runs")
        server.signal(signal.SIGTERM)
        await server.said(b"draining")
        server.signal(signal.SIGTERM)
        assert await server.exit() == -signal.SIGTERM
    assert b"Traceback" not in server.stderr


@pytest.mark.requirement("B9")
async def test_a_second_signal_ends_a_process_with_a_tool_that_ignores_cancellation() -> None:
    async with running(workshop(shutdown_grace=1000, cancel_timeout=1000)) as server:
        await server.client.send(call(1, "stubborn"))
        await server.said(b"stubborn runs")
        server.signal(signal.SIGTERM)
        await server.said(b"draining")
        server.signal(signal.SIGTERM)
        assert await server.exit() == -signal.SIGTERM


@pytest.mark.requirement("B9")
async def test_signals_end_a_process_whose_event_loop_is_blocked() -> None:
    async with running(workshop()) as server:
        await server.client.send(call(1, "block"))
        await server.said(b"blocked")
        while server.process.poll() is None:  # signals that come too close together merge
            server.signal(signal.SIGTERM)
            await trio.lowlevel.checkpoint()
        assert await server.exit() == -signal.SIGTERM


@pytest.mark.requirement("B9")
async def test_an_ignored_signal_stays_ignored() -> None:
    command = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *workshop()]
    async with running(command) as server:
        await server.said(b"running")
        server.signal(signal.SIGINT)
        assert (await server.client.request("ping"))["result"] == {}
        assert await server.finish() == 0


STUCK = """
import logging, sys, trio
from contextlib import asynccontextmanager
from functools import partial
from trio_mcp import Limits, Registry, serve, serve_http

kind, how = sys.argv[1:]

async def ignore():
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()

@asynccontextmanager
async def lifespan(registry):
    try:
        yield
    finally:
        print("the lifespan closes", file=sys.stderr, flush=True)
        if kind == "lifespan":
            await ignore()
        print("the lifespan is closed", file=sys.stderr, flush=True)

registry = Registry("stuck", lifespan=lifespan)

@registry.tool
async def stubborn() -> str:
    print("stubborn runs", file=sys.stderr, flush=True)
    if kind == "tool":
        await ignore()
    return "done"

logging.basicConfig(level=logging.INFO, format="%(message)s")
limits = Limits(eof_grace=0, shutdown_grace=0, cancel_timeout=0.1, flush_timeout=1,
                lifespan_timeout=0.1)
if how == "stdio":
    trio.run(partial(serve, registry, limits=limits))
else:
    trio.run(partial(serve_http, registry, port=0, limits=limits, own_process=True))
"""


def stuck(kind: str, how: str) -> list[str]:
    return [sys.executable, "-c", STUCK, kind, how]


@pytest.mark.requirement("B9", "B8")
@pytest.mark.parametrize("end", ["eof", "signal"])
async def test_before_a_process_is_left_everything_else_is_done(end: str) -> None:
    async with running(stuck("tool", "stdio")) as server:
        await server.client.send(call(1, "stubborn"))
        await server.said(b"stubborn runs")
        if end == "eof":
            await server.client.send_eof()
        else:
            server.signal(signal.SIGTERM)
        (answer,) = await server.client.receive_all()
        assert answer["error"] == CANCELLED
        assert await server.exit() == EXIT_STUCK
    how = b"EOF" if end == "eof" else b"stopped"
    assert server.stderr.splitlines()[-4:] == [
        b"Client disconnected (%b), flushed 1 responses, dropped 0 responses" % how,
        b"the lifespan closes",
        b"the lifespan is closed",
        b"Tool stubborn ignores its cancellation; the process exits",
    ]


@pytest.mark.requirement("B9")
async def test_a_lifespan_that_ignores_its_cancellation_does_not_keep_the_process() -> None:
    async with running(stuck("lifespan", "stdio")) as server:
        answer = await server.client.call("stubborn")
        assert text_of(answer) == "done"
        assert await server.finish() == EXIT_STUCK
    last = b"The lifespan of stuck ignores its cancellation; the process exits"
    assert server.stderr.splitlines()[-1] == last


@pytest.mark.requirement("B9", "F5")
@pytest.mark.parametrize(
    ("kind", "era"),
    [
        *(("tool", "modern"), ("lifespan", "legacy")),
        pytest.param("tool", "legacy", marks=pytest.mark.long),
        pytest.param("lifespan", "modern", marks=pytest.mark.long),
    ],
)
async def test_before_a_process_is_left_over_http(kind: str, era: Any) -> None:
    async with running(stuck(kind, "http")) as server:
        await server.said(b"Serving stuck at ")
        url = server.stderr.partition(b" at ")[2].split()[0].decode()
        async with connect(url, era=era) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(expect, client, "done" if kind == "lifespan" else "cancelled")
                await server.said(b"stubborn runs")
                if kind == "tool":
                    server.signal(signal.SIGTERM)
            if kind == "lifespan":
                server.signal(signal.SIGTERM)
            assert await server.exit() == EXIT_STUCK
    what = {"tool": b"Tool stubborn", "lifespan": b"The lifespan of stuck"}[kind]
    *before, last = server.stderr.splitlines()
    assert last == what + b" ignores its cancellation; the process exits"
    closed = b"the lifespan is closed" if kind == "tool" else b"the lifespan closes"
    assert closed in before


async def expect(client: Client, outcome: str) -> None:
    """Call the tool, and see to it that there is an answer."""
    try:
        said = (await client.call_tool("stubborn")).text
    except McpError as error:
        said = error.message
    assert outcome in said


ANNOUNCED = """
import logging, os, signal, sys, trio
from functools import partial
from trio_mcp import Registry, serve_http

class Impatient(logging.Handler):
    def emit(self, record):
        if "Serving" in record.getMessage():
            os.kill(os.getpid(), signal.SIGTERM)

logging.basicConfig(level=logging.INFO, handlers=[Impatient()])
if sys.argv[1] == "library":
    trio.run(partial(serve_http, Registry("quick"), port=0, own_process=True))
else:
    from trio_mcp.cli.serve import run_registry
    from trio_mcp.cli.http_options import HttpServerOptions
    from trio_mcp import Limits
    run_registry(Registry("quick"), HttpServerOptions(http="127.0.0.1:0"), Limits())
"""


@pytest.mark.requirement("B9", "F5")
@pytest.mark.parametrize("how", ["library", "command line"])
async def test_a_signal_as_soon_as_it_is_said_that_it_serves(how: str) -> None:
    async with running([sys.executable, "-c", ANNOUNCED, how]) as server:
        assert await server.exit() == 0


@pytest.mark.long
@pytest.mark.requirement("B9")
async def test_signal_handlers_are_given_back() -> None:
    script = (
        "import signal, trio\n"
        "from trio_mcp import Registry, serve\n"
        "before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]\n"
        "trio.run(serve, Registry('empty'))\n"
        "assert before == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]\n"
    )
    async with running([sys.executable, "-c", script]) as server:
        assert await server.finish() == 0
    assert server.stderr == b""
