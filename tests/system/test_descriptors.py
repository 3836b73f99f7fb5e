"""Pipes that are read in threads, and a server for which all of them are."""

import os
import subprocess
import sys

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.processes import ENVIRONMENT, call, running, text_of, workshop
from trio_mcp.system.descriptors import allows, duplicate
from trio_mcp.transports.stdio.readers import ThreadReader

IN_THREADS = ENVIRONMENT | {"TRIO_MCP_WITHOUT": "polling,reopening,walking"}
PARENT = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
server.stdin.flush()
server.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.requirement("L9")
async def test_what_comes_for_a_cancelled_read_is_kept_for_the_next() -> None:
    out, in_ = os.pipe()
    reader = ThreadReader(os.dup(out), by_position=False)
    try:
        with trio.move_on_after(0.05) as scope:
            await reader.receive_some()
        assert scope.cancelled_caught
        os.write(in_, b"hello")
        with trio.fail_after(60):
            assert await reader.receive_some(2) == b"he"
            assert await reader.receive_some() == b"llo"
    finally:
        os.close(in_)
        reader.close()
        os.close(out)


async def test_closing_wakes_the_task_whose_thread_waits() -> None:
    out, in_ = os.pipe()
    reader = ThreadReader(os.dup(out), by_position=False)

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await reader.receive_some()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked(0.05)
        reader.close()
    os.close(in_)  # for the thread
    os.close(out)


def test_copies_are_none_of_the_standard_three() -> None:
    out, in_ = os.pipe()
    copy = duplicate(out)
    try:
        assert copy > 2
        assert not os.get_inheritable(copy)
        assert allows(copy, os.O_RDONLY)
    finally:
        for each in (out, in_, copy):
            os.close(each)


@pytest.mark.requirement("L9")
async def test_a_server_that_reads_in_threads_answers_and_ends() -> None:
    async with running(workshop(), env=IN_THREADS) as server:
        await server.client.send(call(1, "echo", text="hello"))
        assert text_of(await server.client.receive()) == "hello"
        assert await server.finish() == 0


@pytest.mark.requirement("L9")
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGTERM")
async def test_a_signal_ends_a_server_whose_thread_sits_in_a_read() -> None:
    async with running(workshop(), env=IN_THREADS) as server:
        await server.client.send(call(1, "echo", text="hello"))
        await server.client.receive()
        server.process.terminate()
        assert await server.exit() == 0  # although its input has not ended


@pytest.mark.requirement("L9")
async def test_a_server_whose_thread_sits_in_a_read_does_not_survive_its_parent() -> None:
    command = [sys.executable, "-c", PARENT, *workshop()]
    async with running(command, env=IN_THREADS, stderr=subprocess.PIPE) as parent:
        assert parent.process.stdout is not None
        with trio.fail_after(120):
            while not await parent.process.stdout.receive_some():
                pass
            parent.process.kill()
            await parent.exit()  # which waits for the end of stderr: the server has it as well
