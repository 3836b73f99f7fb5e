"""Whatever tools print, stdout carries protocol messages; afterwards all is as it was."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
import trio

from tests.support.processes import (
    PROGRAMS,
    call,
    lines,
    parse,
    python,
    run,
    running,
    text_of,
    workshop,
)
from trio_mcp.system.capabilities import POLLS

PRINTED = [
    b"from print",
    b"from os.write",
    b"from C",
    b"from a child",
    b"from a Trio child",
    b"left in the buffer",
    b"from a thread",
    b"from a shell",
]


@pytest.mark.requirement("A13")
async def test_all_that_is_printed_goes_to_stderr() -> None:
    calls = [call(n, "noise" if n % 2 else "quiet_noise") for n in range(10)]
    done = await run(workshop(eof_grace=60), lines(*calls))
    answers = parse(done.stdout)
    assert {each["id"] for each in answers} == set(range(10))
    assert {text_of(each) for each in answers} == {"quiet"}
    assert {text: done.stderr.count(text) for text in PRINTED} == dict.fromkeys(PRINTED, 5)


@pytest.mark.requirement("A13", "A14")
async def test_descriptors_are_given_back(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = await run(
        python(PROGRAMS / "restored.py", str(report)), lines(call(1, "echo", text="served"))
    )
    before, after = json.loads(report.read_text())
    assert before == after
    *messages, last = done.stdout.splitlines()
    assert [text_of(json.loads(each)) for each in messages] == ["served"]
    assert last == b"printed after serving"
    assert done.stderr == b"served\n"


@pytest.mark.requirement("A13", "A14")
# Where nothing can be polled, nothing is non-blocking either.
@pytest.mark.parametrize("blocking", [True, False] if POLLS else [True])
async def test_the_blocking_mode_of_a_shared_pipe_is_left_alone(
    blocking: bool, tmp_path: Path
) -> None:
    command = python(PROGRAMS / "restored.py", str(tmp_path / "report.json"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(blocking)
        async with running(command, stdin=theirs, stdout=theirs) as server:
            ours.sendall(lines(call(1, "echo", text="x")))
            answer = await trio.to_thread.run_sync(ours.recv, 65536, abandon_on_cancel=True)
            assert text_of(*parse(answer)) == "x"
            assert os.get_blocking(theirs.fileno()) is blocking
            ours.shutdown(socket.SHUT_WR)
            assert await server.exit() == 0
        assert os.get_blocking(theirs.fileno()) is blocking
    before, after = json.loads((tmp_path / "report.json").read_text())
    assert before == after


@pytest.mark.requirement("A13")
async def test_a_child_that_outlives_its_tool_does_not_hold_the_wire(tmp_path: Path) -> None:
    """Only the server holds the protocol's pipe, so its end is seen when the server exits."""
    program = tmp_path / "leaves_a_child.py"
    program.write_text(
        "import subprocess, trio\n"
        "from trio_mcp import Registry, serve\n"
        "registry = Registry('leaver')\n"
        "@registry.tool\n"
        "async def leave() -> int:\n"
        "    return subprocess.Popen(['sleep', '1000'], stderr=subprocess.DEVNULL,\n"
        "        stdout=subprocess.DEVNULL).pid\n"
        "trio.run(serve, registry)\n"
    )
    async with running(python(program), stderr=subprocess.DEVNULL) as server:
        left = int(text_of(await server.client.call("leave")))
        try:
            assert await server.finish() == 0
            assert await server.client.receive() is None
        finally:
            os.kill(left, 9)


@pytest.mark.requirement("G1", "B11")
async def test_the_log_names_tool_and_outcome_but_no_arguments() -> None:
    secret = "correct horse battery staple"
    calls = lines(call(1, "echo", text=secret), call(2, "fail", text=secret))
    done = await run(workshop(eof_grace=60), calls)
    assert secret in done.stdout.decode()
    assert secret not in done.stderr.decode()
    assert b"Tool echo: ok in" in done.stderr
    assert b"Tool fail: error in" in done.stderr
