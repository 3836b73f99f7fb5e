"""Stdin and stdout that are not pipes: files, devices, terminals, sockets."""

import os
import pty
import socket
import tty
from pathlib import Path

import pytest
import trio

from tests.support.client import RawClient
from tests.support.processes import (
    EXAMPLES,
    call,
    lines,
    parse,
    ping,
    python,
    run,
    running,
    text_of,
    workshop,
)

CALCULATOR = python(EXAMPLES / "calculator.py")


@pytest.mark.long
@pytest.mark.requirement("A14")
async def test_requests_from_a_file_and_responses_to_a_file(tmp_path: Path) -> None:
    requests, responses = tmp_path / "requests.jsonl", tmp_path / "responses.jsonl"
    requests.write_bytes(lines(*(call(n, "echo", text=f"{n}") for n in range(2000))))
    script = '"$@" < requests.jsonl > responses.jsonl'
    done = await run(["/bin/sh", "-c", script, "sh", *workshop(eof_grace=60)], cwd=tmp_path)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    answers = {each["id"]: text_of(each) for each in parse(responses.read_bytes())}
    assert answers == {n: f"{n}" for n in range(2000)}


@pytest.mark.requirement("A14", "B8")
async def test_a_full_device_is_a_client_that_went_away() -> None:
    with Path("/dev/full").open("wb") as full:
        done = await run(workshop(), lines(ping(1)), capture_stdout=False, stdout=full)
    assert done.returncode == 0
    assert b"flushed 0 responses, dropped 1 responses" in done.stderr


@pytest.mark.requirement("A14", "A13")
async def test_a_person_at_a_terminal() -> None:
    ours, child = pty.openpty()
    tty.setraw(child)
    with os.fdopen(ours, "r+b", buffering=0) as window, os.fdopen(child) as terminal:
        async with running(CALCULATOR, stdin=terminal, stdout=terminal) as server:
            terminal.close()
            window.write(lines(call(1, "add", a=1, b=2)))
            line = await trio.to_thread.run_sync(window.readline, abandon_on_cancel=True)
            assert text_of(*parse(line)) == "3.0"
            window.close()
            assert await server.exit() == 0


@pytest.mark.requirement("A14", "A5")
async def test_one_socket_for_both_directions() -> None:
    ours, child = socket.socketpair()
    with child:
        async with running(workshop(), stdin=child, stdout=child) as server:
            child.close()
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            client = RawClient(stream)
            await client.initialize()
            assert len(text_of(await client.call("big", letter="x", size=1_000_000))) == 1_000_000
            await stream.send_eof()
            assert await client.receive() is None
            assert await server.exit() == 0
            await stream.aclose()
