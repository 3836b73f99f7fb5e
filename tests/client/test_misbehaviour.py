"""Server processes at their worst: each failure has its type, in time, with the last words."""

import math
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.client.programs.torture import LAST_WORDS
from tests.client.support import (
    IMPATIENT,
    TIME_LIMIT,
    alive,
    command,
    holdings,
    left_since,
    members,
    process,
    processes,
    served,
    tortured,
)
from trio_mcp import Limits, McpError, Registry, connect
from trio_mcp.client.state import Connected, Disconnected
from trio_mcp.errors import (
    CallTimeout,
    CannotStart,
    ClientError,
    OutputClosed,
    ProtocolError,
    ServerExited,
    WriteFailed,
)
from trio_mcp.transports.process import ProcessOptions, StdioTransport, open_process


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test, no descriptor is open and no child is left."""
    before = holdings()
    yield
    left = left_since(before)
    left.pop("threads", None)  # one idle worker of Trio's may be new
    assert left == {}


@asynccontextmanager
async def started(switch: str) -> AsyncIterator[StdioTransport]:
    """A torture server that has begun, however slow the machine is: it has said its last words."""
    async with open_process(command(switch), ProcessOptions(**IMPATIENT)) as server:
        while LAST_WORDS not in server.stderr_tail:
            await trio.sleep(0.01)
        yield server


@pytest.mark.requirement("E1")
async def test_a_healthy_server_is_reached() -> None:
    async with process() as client:
        assert await client.call_tool("echo", {"text": "hello"}, returns=str) == "hello"


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("switch", ["modern", "legacy", "dual"])
async def test_no_time_is_waited_for_a_healthy_server(switch, autojump_clock) -> None:
    began = trio.current_time()
    async with tortured(switch) as (client, _):
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert trio.current_time() == began


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    "broken", ["missing", "forbidden", "directory", "no-program", "cwd", "nul"]
)
async def test_what_cannot_be_started_is_told_at_once(broken, tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_text("not a program")
    options = ProcessOptions()
    target = [str(file)]
    match broken:
        case "missing":
            target = [str(tmp_path / "missing")]
        case "directory":
            target = [str(tmp_path)]
        case "no-program":
            file.chmod(0o700)
        case "cwd":
            target = [sys.executable]
            options = ProcessOptions(cwd=tmp_path / "missing")
        case "nul":
            target = ["a\0b"]
    with pytest.raises(CannotStart, match="cannot be started") as caught:
        async with connect(target, process_options=options):
            raise AssertionError("connected")
    assert isinstance(caught.value, ClientError)
    assert isinstance(caught.value.__cause__, OSError | ValueError)


@pytest.mark.requirement("E5")
async def test_there_must_be_a_command() -> None:
    with pytest.raises(CannotStart, match="no command"):
        async with connect([]):
            raise AssertionError("connected")


@pytest.mark.requirement("E5")
async def test_an_error_in_the_block_is_not_mistaken_for_ours() -> None:
    error = CannotStart("another one")
    with pytest.raises(CannotStart) as caught:
        async with process():
            raise error
    assert caught.value is error


@pytest.mark.requirement("E5")
async def test_a_server_that_exits_at_once_is_told_with_its_last_words() -> None:
    with pytest.raises(ServerExited, match=f"status 7; its last words:\n{LAST_WORDS}") as caught:
        async with process("at-once:7"):
            raise AssertionError("connected")
    assert caught.value.returncode == 7
    assert caught.value.signal is None
    assert caught.value.stderr == f"{LAST_WORDS}\n"


async def test_a_server_that_ends_without_a_word_may_be_a_file_that_does_not_serve() -> None:
    with pytest.raises(ServerExited, match=r"status 0: does its command serve, as `trio-mcp serve"):
        async with connect([sys.executable, "-c", "from trio_mcp import Registry"]):
            raise AssertionError("connected")
    assert (
        str(ServerExited(0, "Goodbye"))
        == "the server exited with status 0; its last words:\nGoodbye"
    )


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM"), (40, "40")]
)
async def test_a_server_that_is_killed_is_told_with_the_signal(number, name) -> None:
    with pytest.raises(ServerExited, match=f"exited with signal {name}") as caught:
        async with process(f"killed:{int(number)}"):
            raise AssertionError("connected")
    assert caught.value.signal == number
    assert caught.value.returncode == -number
    assert LAST_WORDS in caught.value.stderr


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    ("switch", "kind", "limit"),
    [
        ("closes-stdout", OutputClosed, TIME_LIMIT),
        ("closes-stdin", WriteFailed, TIME_LIMIT),
        ("deaf", CallTimeout, 0.2),
        ("mute", CallTimeout, 0.2),
        ("floods-stdout", CallTimeout, 1.0),  # what was there before is read at once
        ("floods-line", CallTimeout, 0.2),
        ("garbage", CallTimeout, 1.0),
        ("orphan", ServerExited, TIME_LIMIT),
    ],
)
async def test_a_server_that_cannot_be_met(switch, kind, limit) -> None:
    with trio.fail_after(2 * TIME_LIMIT), pytest.raises(kind, match=LAST_WORDS) as caught:
        async with started(switch) as server, connect(server, connect_timeout=limit):
            raise AssertionError("connected")
    assert type(caught.value) is kind
    if switch in ("floods-stdout", "garbage"):
        assert "lines that are not messages" in str(caught.value)


@pytest.mark.requirement("E5")
async def test_a_write_to_a_server_that_takes_no_input_fails() -> None:
    async with process() as client:
        assert (await client.call_tool("close_stdin")).text == "closed"
        with pytest.raises(WriteFailed, match=LAST_WORDS):
            await client.call_tool("echo", {"text": "x"})
        with pytest.raises(WriteFailed):
            await client.ping()


@pytest.mark.requirement("E5")
async def test_a_server_that_stops_reading_runs_into_the_time_limit() -> None:
    async with process() as client:
        assert (await client.call_tool("stop_reading")).text == "stopped"
        for _ in range(3):  # the first fills the pipe, the others do not even get there
            with pytest.raises(CallTimeout, match=LAST_WORDS):
                await client.call_tool("echo", {"text": "x" * (5 << 20)}, timeout=0.1)


@pytest.mark.requirement("E5", "E6")
@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("exit", {"status": 5}, ServerExited),
        ("exit", {"status": 0}, ServerExited),
        ("die", {"signal": 11}, ServerExited),
        ("close_stdout", {}, OutputClosed),
    ],
)
async def test_every_waiter_is_woken_when_the_server_goes(tool, arguments, kind) -> None:
    async with process() as client:
        states = client.states()
        woken = 0

        async def call(name: str, arguments: dict) -> None:
            nonlocal woken
            with pytest.raises(kind):
                await client.call_tool(name, arguments, timeout=1000)
            woken += 1

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call, "forget", {})
            nursery.start_soon(call, tool, arguments)
        assert woken == 21
        seen = [state async for state in states]
        assert [type(each) for each in seen] == [Connected, Disconnected]
        assert type(seen[1].error) is kind
        if kind is ServerExited:
            expected = -11 if tool == "die" else arguments["status"]
            assert seen[1].error.returncode == expected
        assert client.state == seen[1]
        with pytest.raises(kind):
            await client.ping()


@pytest.mark.requirement("E7")
async def test_noise_on_stdout_is_reported_and_skipped(caplog) -> None:
    async with process("banner") as client:
        assert client.stray_output == [
            b"Welcome to torture 1.0!",
            b"{not json}",
            b"\xff\xfe",
            b"42",
        ]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        assert (
            await client.call_tool("flood_stdout", {"bytes": 1 << 18}, timeout=TIME_LIMIT)
        ).text == "flooded"
        assert len(client.stray_output) == 100
    assert caplog.text.count("a line that is not a message") == 100
    assert "Welcome" not in caplog.text


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("stderr", ["capture", "forward", "ignore"])
async def test_stderr_is_captured_forwarded_or_ignored(stderr, capsys) -> None:
    options = ProcessOptions(**IMPATIENT, stderr=stderr)
    async with process("floods-stderr", process_options=options) as client:
        assert (
            await client.call_tool("flood_stderr", {"bytes": 2 << 20}, timeout=TIME_LIMIT)
        ).text == "flooded"
        if stderr == "ignore":
            assert client.stderr() == ""
        else:
            while not client.stderr().endswith("everywhere\n"):
                await trio.lowlevel.checkpoint()
            assert 0 < len(client.stderr()) <= 16 * 1024
    forwarded = capsys.readouterr().err
    if stderr == "forward":
        assert LAST_WORDS in forwarded
        assert len(forwarded) > 6 << 20
    else:
        assert forwarded == ""


@pytest.mark.requirement("E2")
@pytest.mark.parametrize(
    ("switch", "era"),
    [
        ("modern", "modern"),
        ("legacy", "legacy"),
        ("legacy-silent", "legacy"),
        ("slow:1.2", "modern"),
    ],
)
async def test_eras_of_processes(switch, era) -> None:
    async with process(switch) as client:
        assert client.era == era
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.requirement("E5")
async def test_a_server_of_no_common_revision() -> None:
    with pytest.raises(ProtocolError, match="2031-01-01"):
        async with process("other-versions:2031-01-01"):
            raise AssertionError("connected")


@pytest.mark.requirement("E8")
@pytest.mark.parametrize(
    ("switch", "timeouts", "status"),
    [
        ("dual", (TIME_LIMIT, TIME_LIMIT), 0),
        ("stays", (0.2, TIME_LIMIT), -signal.SIGTERM),
        ("stubborn", (0.2, 0.4), -signal.SIGKILL),
    ],
)
async def test_a_server_is_told_more_and_more_firmly_to_go(switch, timeouts, status) -> None:
    options = ProcessOptions(close_timeout=timeouts[0], terminate_timeout=timeouts[1])
    with trio.fail_after(2 * TIME_LIMIT):
        async with open_process(command(switch), options) as server, connect(server) as client:
            surroundings = (await client.call_tool("surroundings")).structured_content
            assert surroundings["leads"] == [True, True]
    assert server.returncode == status


@pytest.mark.requirement("E8")
@pytest.mark.parametrize("switch", ["family", "orphan"])
async def test_grandchildren_go_too(switch) -> None:
    words = ""
    try:
        async with process(switch) as client:
            while "child" not in client.stderr():
                await trio.lowlevel.checkpoint()
            words = client.stderr()
            assert alive(int(words.split()[1]))
    except ServerExited as error:
        words = error.stderr
    child = int(words.split()[1])
    with trio.fail_after(TIME_LIMIT):
        while alive(child):  # it has been killed; the kernel may take a moment
            await trio.lowlevel.checkpoint()


@pytest.mark.requirement("E8")
async def test_a_server_that_died_long_ago_is_not_signalled(monkeypatch) -> None:
    signalled: list = []
    async with process() as client:
        with pytest.raises(ServerExited):
            await client.call_tool("exit", {"status": 1})
        monkeypatch.setattr("os.killpg", lambda *each: signalled.append(each))
    assert signalled == []  # its id may be somebody else's by now


@pytest.mark.requirement("E8")
async def test_a_process_gets_what_is_safe_and_what_is_given(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("MY_SECRET", "swordfish")
    monkeypatch.setenv("LANG", "C.UTF-8")
    options = ProcessOptions(env={"GIVEN": "yes", "TZ": "UTC"}, cwd=tmp_path, **IMPATIENT)
    with trio.fail_after(TIME_LIMIT):
        async with connect(
            command("dual", "one", "two 'three'"), process_options=options
        ) as client:
            given = (await client.call_tool("surroundings")).structured_content
    assert given["arguments"] == ["dual", "one", "two 'three'"]
    environment = given["environment"]
    assert "MY_SECRET" not in environment
    assert environment["LANG"] == "C.UTF-8"
    assert environment["GIVEN"] == "yes"
    assert environment["TZ"] == "UTC"
    assert "PATH" in environment
    assert Path(given["directory"]).resolve() == tmp_path.resolve()
    assert given["descriptors"] == [0, 1, 2]


@pytest.mark.requirement("E5")
async def test_a_late_answer_of_a_process_is_ignored() -> None:
    async with process() as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("forget", timeout=0.05)
        results = [await client.call_tool("echo", {"text": f"{n}"}, returns=str) for n in range(9)]
        assert results == [str(n) for n in range(9)]


async def test_the_session_of_a_process_is_found() -> None:
    """The check for leftovers can fail: it finds what is there."""
    async with process("family") as client:
        while "child" not in client.stderr():
            await trio.lowlevel.checkpoint()
        child = int(client.stderr().split()[1])
        _, parent, session = processes()[child]
        assert sorted(members(session)) == sorted([parent, child])


@pytest.mark.requirement("E5")
async def test_an_answer_that_is_too_long_fails_its_request_at_once() -> None:
    registry = Registry("wordy")

    @registry.tool
    async def talk(length: int) -> str:
        return "x" * length

    async with served(registry, limits=Limits(max_message_bytes=10_000)) as client:
        with pytest.raises(McpError, match="answer cannot be read: Request too large"):
            await client.call_tool("talk", {"length": 20_000}, timeout=math.inf)
        assert (await client.call_tool("talk", {"length": 1})).text == "x"
