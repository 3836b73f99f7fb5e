"""A process, without any protocol: bytes or messages in and out."""

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.client.support import TIME_LIMIT, holdings, left_since
from trio_mcp import Limits
from trio_mcp.errors import (
    CannotStart,
    NotConnected,
    OutputClosed,
    ResponseTooLarge,
    ServerExited,
    WriteFailed,
)
from trio_mcp.system.processes import group_of
from trio_mcp.transports.process import (
    ProcessExited,
    ProcessOptions,
    ProcessRunning,
    StdioTransport,
    open_process,
)

ECHO = "import os\nwhile data := os.read(0, 65536): os.write(1, data)"
IMPATIENT: dict[str, Any] = {"close_timeout": 0.2, "terminate_timeout": 0.2}


def python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program]


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test, no descriptor is open and no child is left."""
    before = holdings()
    yield
    left = left_since(before)
    left.pop("threads", None)  # one idle worker of Trio's may be new
    assert left == {}


@pytest.fixture(autouse=True)
async def time_limit():
    with trio.fail_after(TIME_LIMIT):
        yield


async def receive_all(transport: StdioTransport) -> bytes:
    return b"".join([chunk async for chunk in transport])


@pytest.mark.requirement("E8")
async def test_bytes_go_in_and_out() -> None:
    async with open_process(python(ECHO)) as transport:
        assert transport.returncode is None
        assert transport.pid > 0
        await transport.wait_send_all_might_not_block()
        await transport.send_all(b"one")
        assert await transport.receive_some() == b"one"
        await transport.send_all(b"two")
        assert await transport.receive_some(1) == b"t"
        await transport.aclose()
        assert await receive_all(transport) == b"wo"
        await transport.exited.wait()
        assert transport.returncode == 0
    assert transport.returncode == 0


@pytest.mark.requirement("E8")
async def test_more_than_a_pipe_holds_goes_both_ways() -> None:
    data = bytes(range(256)) * 8192  # 2 MiB
    async with open_process(python(ECHO)) as transport:

        async def send() -> None:
            await transport.send_all(data)
            await transport.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            assert await receive_all(transport) == data


@pytest.mark.requirement("E8")
async def test_what_takes_no_input_says_so() -> None:
    async with open_process(python("import os; os.close(0); os.write(1, b'x')")) as transport:
        assert await transport.receive_some() == b"x"
        with pytest.raises(trio.BrokenResourceError):
            await transport.send_all(b"hello")


@pytest.mark.requirement("E7")
async def test_the_end_of_stderr_is_kept_to_the_last_byte() -> None:
    program = "import os\nos.write(2, b'x' * 50000 + 'ä'.encode() + b'end')"
    for _ in range(5):
        async with open_process(python(program)) as transport:
            await transport.exited.wait()
            assert transport.stderr_tail.endswith("xäend")
            assert len(transport.stderr_tail.encode()) == 16 * 1024


@pytest.mark.requirement("E7")
async def test_characters_that_are_forwarded_in_pieces_stay_whole(capsys) -> None:
    program = (
        "import os\n"
        "for each in 'ä€😀'.encode():\n"
        "    os.write(2, bytes([each])); os.write(1, b'.'); os.read(0, 1)"
    )
    options = ProcessOptions(stderr="forward")
    async with open_process(python(program), options) as transport:
        while await transport.receive_some():
            await wait_all_tasks_blocked()  # the byte on stderr has been read
            await transport.send_all(b".")
        await transport.exited.wait()
    assert capsys.readouterr().err == "ä€😀"


class Refusing(io.StringIO):
    """A stderr that takes nothing."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


@pytest.mark.requirement("E7")
@pytest.mark.parametrize(
    "stderr",
    [
        None,
        Refusing(BrokenPipeError()),
        Refusing(BlockingIOError()),
        Refusing(ValueError("I/O operation on closed file")),
    ],
    ids=["none", "broken", "full", "closed"],
)
async def test_a_process_whose_stderr_cannot_be_forwarded_goes_on(monkeypatch, stderr) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    program = f"import os\nos.write(2, b'x' * 200000 + b'end')\n{ECHO}"
    async with open_process(python(program), ProcessOptions(stderr="forward")) as transport:
        await transport.send_message(b"a")
        assert await transport.receive_message() == b"a"
        await wait_all_tasks_blocked()  # the end of stderr has been read
        assert transport.stderr_tail.endswith("xend")


@pytest.mark.requirement("E7")
async def test_stderr_can_be_ignored() -> None:
    program = "import os\nos.write(2, b'x')\nos.write(1, os.readlink('/proc/self/fd/2').encode())"
    options = ProcessOptions(stderr="ignore")
    async with open_process(python(program), options) as transport:
        assert await receive_all(transport) == b"/dev/null"
        await transport.exited.wait()
        assert transport.stderr_tail == ""


@pytest.mark.requirement("E8")
async def test_output_that_was_written_before_the_exit_is_all_received() -> None:
    program = "import os\nos.write(1, b'x' * 60000)"
    async with open_process(python(program)) as transport:
        await transport.exited.wait()
        received = b""
        while chunk := await transport.receive_some(1000):
            received += chunk
        assert received == b"x" * 60000
        assert await transport.receive_some() == b""


@pytest.mark.requirement("E8")
async def test_output_that_somebody_else_holds_open_ends_soon_after_the_exit() -> None:
    # setsid: the child is in no group of ours, so that nothing but the time limit ends the output
    program = (
        "import os, signal\n"
        "ready, done = os.pipe()\n"
        "if os.fork(): os.read(ready, 1); os._exit(0)\n"
        "os.setsid(); os.write(1, str(os.getpid()).encode()); os.write(done, b'x')\n"
        "signal.alarm(100); signal.pause()"
    )
    async with open_process(python(program)) as transport:
        child = await transport.receive_some()
        with trio.fail_after(60):  # the child would hold it open for longer
            assert await transport.receive_some() == b""
    with open(f"/proc/{int(child)}/stat") as stat:
        assert stat.read().rpartition(")")[2].split()[0] not in "XZ"
    os.kill(int(child), 9)


@pytest.mark.requirement("E8")
@pytest.mark.parametrize(
    ("program", "timeouts", "returncode"),
    [
        (ECHO, (TIME_LIMIT, TIME_LIMIT), 0),
        ("import signal; print(end='x', flush=True); signal.pause()", (0.2, TIME_LIMIT), -15),
        (
            "import signal; signal.signal(15, signal.SIG_IGN)\n"
            "print(end='x', flush=True)\nwhile True: signal.pause()",
            (0.2, 0.2),
            -9,
        ),
        (
            "import signal, sys; signal.signal(15, lambda *_: sys.exit(4))\n"
            "print(end='x', flush=True)\nwhile True: signal.pause()",
            (0.2, TIME_LIMIT),
            4,
        ),
    ],
)
@pytest.mark.parametrize("cancelled", [False, True])
async def test_leaving_ends_the_process_one_way_or_another(
    program, timeouts, returncode, cancelled
) -> None:
    options = ProcessOptions(close_timeout=timeouts[0], terminate_timeout=timeouts[1])
    with trio.CancelScope() as scope:
        async with open_process(python(program), options) as transport:
            if program is not ECHO:
                assert await transport.receive_some() == b"x"
            if cancelled:
                scope.cancel()
                await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught == cancelled
    assert transport.returncode == returncode


@pytest.mark.requirement("E8")
async def test_a_task_that_sends_or_receives_is_woken_by_leaving() -> None:
    woken: list[str] = []

    async def receive(transport: StdioTransport) -> None:
        try:
            assert await transport.receive_some() == b""
        except trio.ClosedResourceError:
            pass
        woken.append("receive")

    async def send(transport: StdioTransport) -> None:
        with pytest.raises((trio.ClosedResourceError, trio.BrokenResourceError)):
            await transport.send_all(b"x" * (1 << 20))
        woken.append("send")

    options = ProcessOptions(**IMPATIENT)
    async with trio.open_nursery() as nursery:
        async with open_process(python("import signal; signal.pause()"), options) as transport:
            nursery.start_soon(receive, transport)
            nursery.start_soon(send, transport)
            await wait_all_tasks_blocked()
    assert sorted(woken) == ["receive", "send"]


@pytest.mark.requirement("E5")
@pytest.mark.parametrize("command", [[], ["/does/not/exist"], ["a\0b"]])
async def test_what_cannot_be_started_is_told(command) -> None:
    with pytest.raises(CannotStart):
        async with open_process(command):
            raise AssertionError("started")


@pytest.mark.requirement("E5")
@pytest.mark.parametrize("command", ["ls", b"ls", Path("ls"), 5, None])
async def test_a_command_is_a_list(command) -> None:
    with pytest.raises(TypeError, match="a command must be a list, such as"):
        async with open_process(command):
            raise AssertionError("started")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env": ["A"]}, "env must be a dict"),
        ({"env": {"A": 1}}, "env: A must be a string, not int"),
        ({"env": {"A": b"s3cr3t"}}, "env: A must be a string, not bytes"),
        ({"env": {1: "s3cr3t"}}, "env: 1 is not a name"),
        ({"cwd": 5}, "cwd must be "),
        ({"kill_children": "no"}, "kill_children must be "),
    ],
)
async def test_options_of_another_type_are_refused_by_name(options, words) -> None:
    with pytest.raises(TypeError, match=f"^{words}") as failure:
        ProcessOptions(**options)
    assert "s3cr3t" not in str(failure.value)


@pytest.mark.requirement("E8")
async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(LookupError, match=r"^mine$"):
        async with open_process(python(ECHO)):
            raise LookupError("mine")


async def test_a_transport_needs_pipes() -> None:
    process = await trio.lowlevel.open_process(python(""), stdin=None)
    with pytest.raises(ValueError, match="pipes"):
        StdioTransport(process, group_of(process.pid), ProcessOptions())
    await process.wait()


@pytest.mark.requirement("E6")
async def test_a_process_has_states_without_any_protocol():
    async with open_process([sys.executable, "-c", "input(); raise SystemExit(3)"]) as transport:
        states = transport.states()
        assert await anext(states) == ProcessRunning(transport.pid)
        await transport.send_all(b"\n")
        assert [each async for each in states] == [ProcessExited(3)]
        assert [each async for each in transport.states()] == [ProcessExited(3)]


# -- messages -------------------------------------------------------------------------------------

LINES = "import os\nos.write(1, b'one\\n\\ntw'); os.read(0, 1); os.write(1, b'o\\nlast')"
messages = pytest.mark.requirement("E6")


@messages
async def test_messages_are_whole_however_they_are_cut() -> None:
    async with open_process(python(LINES)) as process:
        assert await process.receive_message() == b"one"
        await process.send_message(b"")
        assert await process.receive_message() == b"two"
        assert await process.receive_message() == b"last", "though its line has no end"
        await process.exited.wait()
        with pytest.raises(ServerExited) as caught:
            await process.receive_message()
        assert caught.value.returncode == 0


@messages
async def test_messages_of_many_tasks_do_not_mix() -> None:
    sent = [bytes([65 + number]) * 300_000 for number in range(8)]
    async with open_process(python(ECHO)) as process, trio.open_nursery() as nursery:
        for each in sent:
            nursery.start_soon(process.send_message, each)
        assert sorted([await process.receive_message() for _ in sent]) == sent


@messages
async def test_a_message_that_is_too_long_is_skipped() -> None:
    async with open_process(python(ECHO), limits=Limits(max_message_bytes=100)) as process:
        for size in (101, 100_000):
            await process.send_message(b"x" * size)
            await process.send_message(b"y" * 100)
            with pytest.raises(ResponseTooLarge, match="more than 100 bytes"):
                await process.receive_message()
            assert await process.receive_message() == b"y" * 100


@messages
async def test_a_message_is_one_line() -> None:
    async with open_process(python(ECHO)) as process:
        with pytest.raises(ValueError, match="one line"):
            await process.send_message(b"one\ntwo")
        await process.send_message(b"one")
        assert await process.receive_message() == b"one"


@messages
@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    ("program", "error", "returncode", "words"),
    [
        ("import sys; sys.exit('no key')", ServerExited, 1, "no key"),
        ("import os; os.kill(os.getpid(), 9)", ServerExited, -9, ""),
        ("import os, signal; os.close(0); os.close(1); signal.pause()", None, None, ""),
    ],
)
async def test_how_a_process_ended_is_told_to_who_sends_and_who_receives(
    program, error, returncode, words
) -> None:
    async with open_process(python(program), ProcessOptions(**IMPATIENT)) as process:
        if error is not None:
            await process.exited.wait()
        with pytest.raises(error or OutputClosed) as received:
            await process.receive_message()
        with pytest.raises(error or WriteFailed) as sent:
            for _ in range(2):
                await process.send_message(b"x" * (1 << 20))
        for each in (received, sent):
            assert getattr(each.value, "returncode", None) == returncode
            assert words in each.value.stderr


@messages
@pytest.mark.requirement("E5")
async def test_after_the_block_there_are_no_messages() -> None:
    async with open_process(python(ECHO)) as process:
        pass
    with pytest.raises(NotConnected):
        await process.send_message(b"late")
    with pytest.raises(NotConnected):
        await process.receive_message()


@messages
async def test_after_part_of_a_message_there_is_no_other_one() -> None:
    options = ProcessOptions(**IMPATIENT)
    async with open_process(python("import signal; signal.pause()"), options) as process:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.send_message, b"x" * (1 << 20))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        with pytest.raises(WriteFailed):
            await process.send_message(b"the rest of it, for all that the process can know")


@messages
async def test_a_second_task_that_receives_does_not_disturb_the_first() -> None:
    """Not even at the end, which the first has to notice although a child holds the pipe open."""
    program = "import os\nif os.read(0, 1) and not os.fork(): os.read(0, 1)"  # ends with its stdin
    options = ProcessOptions(kill_children=False, **IMPATIENT)
    ended: list[int] = []

    async def receive(process: StdioTransport) -> None:
        with pytest.raises(ServerExited) as caught:
            await process.receive_message()
        ended.append(caught.value.returncode)

    async with open_process(python(program), options) as process, trio.open_nursery() as nursery:
        nursery.start_soon(receive, process)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await process.receive_message()
        await process.send_message(b"")
    assert ended == [0]


@messages
async def test_no_message_is_lost_by_cancellation() -> None:
    async with open_process(python(ECHO)) as process:
        for number in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.receive_message)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            await process.send_message(b"%d" % number)
            assert await process.receive_message() == b"%d" % number
