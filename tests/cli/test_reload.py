"""`trio-mcp serve --reload`: a server that changes under a client that stays."""

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from tests.cli.support import COMMAND, CommandLine, faulty
from tests.support.processes import TIME_LIMIT, Server, call, lines, parse, run, running, text_of
from trio_mcp import connect
from trio_mcp.background import background_nursery
from trio_mcp.cli.reload import watching as watching_module
from trio_mcp.cli.reload.client_state import ClientState
from trio_mcp.cli.reload.command import RestartingRelay
from trio_mcp.cli.reload.watching import PacedChanges, watching
from trio_mcp.errors import CannotReach
from trio_mcp.wire.jsonrpc import encode

SOURCE = """
import os, trio
from trio_mcp import Registry
registry = Registry("changing")
@registry.tool
def version() -> str:
    return "{version}"
@registry.tool
async def wait() -> str:
    while not os.path.exists("go"):
        await trio.sleep(0.01)
    return "{version}"
@registry.tool
def pid() -> str:
    return str(os.getpid())
"""


def write(path: Path, text: str) -> None:
    """Replace a file at one stroke, as editors do; and always within the same second."""
    other = path.with_suffix(".new")
    other.write_text(text)
    os.utime(other, (1_800_000_000, 1_800_000_000))
    os.replace(other, path)


def command(path: Path, *options: str) -> list[str]:
    return [*COMMAND, "serve", str(path), "--reload", "--log-level", "info", *options]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    write(path, SOURCE.format(version="one"))
    return path


async def tell(server: Server, message: dict[str, Any]) -> None:
    await server.client.send_bytes(lines({"jsonrpc": "2.0", **message}))


async def hears(server: Server) -> Any:
    return await server.client.receive()


async def test_the_client_stays_while_the_server_changes(source: Path) -> None:
    async with running(command(source), cwd=source.parent) as server:
        server.client.judging = False
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        hello["clientInfo"] = {"name": "host", "version": "1"}  # type: ignore[assignment]
        await tell(server, {"id": 1, "method": "initialize", "params": hello})
        assert (await hears(server))["result"]["protocolVersion"] == "2025-06-18"
        await tell(server, {"method": "notifications/initialized"})

        await tell(server, call("slow", "wait"))
        write(source, SOURCE.format(version="two"))
        await server.said(b"The source has changed")
        (source.parent / "go").touch()
        answer = await hears(server)
        assert (answer["id"], text_of(answer)) == ("slow", "one"), "the old server finishes it"
        assert await hears(server) == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
        }
        await tell(server, call(3, "version"))
        assert text_of(await hears(server)) == "two"

        write(source, "broken(\n")
        await server.said(b"it starts again when its source changes")
        assert b"SyntaxError" in server.stderr
        await tell(server, call(4, "version"))
        assert "exited with status 1" in (await hears(server))["error"]["message"]

        write(source, SOURCE.format(version="three"))
        assert (await hears(server))["method"] == "notifications/tools/list_changed"
        await tell(server, call(5, "pid"))
        child = int(text_of(await hears(server)))
        assert child != server.process.pid
        server.signal(15)
        assert await server.exit() == 143
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


@pytest.mark.long
async def test_what_is_said_before_the_server_is_there_is_not_lost(source: Path) -> None:
    done = await run(command(source), lines(*[call(number, "version") for number in range(50)]))
    assert done.returncode == 0
    assert sorted(answer["id"] for answer in parse(done.stdout)) == list(range(50))


@pytest.mark.long
async def test_over_http(source: Path) -> None:
    async with running(command(source, "--http", "127.0.0.1:0")) as server:
        await server.said(b" at http://")
        assert await version_of(server, 1) == "one"
        write(source, SOURCE.format(version="two"))
        await server.said(b" at http://", 2)
        assert await version_of(server, 2) == "two"
        server.signal(signal.SIGTERM)  # killed, it could not end its server
        assert await server.exit() == 143
        url = server.stderr.decode().split(" at http://")[2].split()[0]
        with pytest.raises(CannotReach):
            async with connect(f"http://{url}"):
                raise AssertionError("the server has ended as well")


@pytest.mark.long
async def test_over_http_a_broken_server_is_answered_for(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "socket"
    transport = httpx2.AsyncHTTPTransport(uds=str(place))
    async with (
        running(command(source, "--unix-socket", str(place))) as server,
        httpx2.AsyncClient(
            timeout=TIME_LIMIT, transport=transport, base_url="http://localhost"
        ) as http,
    ):
        await server.said(b" path /mcp")
        assert (await http.get("/health")).status_code == 200
        write(source, "broken(\n")
        await server.said(b"it starts again when its source changes")
        refused = await answered(http)
        assert refused.status_code == 503
        assert refused.text == "The server has exited with status 1; its stderr says why.\n"
        write(source, SOURCE.format(version="two"))
        await server.said(b" path /mcp", 2)
        assert (await http.get("/health")).status_code == 200


async def answered(http: httpx2.AsyncClient) -> httpx2.Response:
    """Ask until there is an answer."""
    while True:
        try:
            return await http.get("/health")
        except httpx2.TransportError:
            await trio.sleep(0.01)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is not its child")
async def test_over_http_the_server_ends_with_a_parent_that_is_killed(source: Path) -> None:
    async with running(command(source, "--http", "127.0.0.1:0")) as server:
        await server.said(b" at http://")
        url = server.stderr.decode().split(" at http://")[1].split()[0]
        async with connect(f"http://{url}") as client:
            child = os.pidfd_open(int(await client.call_tool("pid", returns=str)))
        try:
            server.signal(signal.SIGKILL)
            await trio.lowlevel.wait_readable(child)
        finally:
            os.close(child)


async def test_changes_without_an_end_restart_a_server_less_and_less(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """As when a server writes a module whenever it starts, which takes it a moment."""
    sending, changes = trio.open_memory_channel[str](1)
    paced, times = PacedChanges(changes), []
    while not times or times[-1] < times[0] + 20:
        await trio.sleep(0.4)
        sending.send_nowait("made.py")
        assert await paced.receive() == "made.py"
        times.append(trio.current_time())
    assert len(times) < 12
    await trio.sleep(5)
    before = trio.current_time()
    sending.send_nowait("server.py")
    assert await paced.receive() == "server.py"
    assert trio.current_time() == before, "when that is over, there is no delay any more"


async def test_a_change_that_waits_for_its_turn_is_not_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sending, changes = trio.open_memory_channel[str](10)
    paced = PacedChanges(changes)
    for number in range(5):
        sending.send_nowait(f"{number}.py")
    for _ in range(4):
        await paced.receive()
    with trio.move_on_after(0.1) as given_up:
        await paced.receive()
    assert given_up.cancelled_caught
    assert await paced.receive() == "4.py"


async def test_a_file_that_is_written_with_the_same_content_has_not_changed(tmp_path: Path) -> None:
    async with watching(tmp_path) as changes:
        write(tmp_path / "made.py", "same")
        assert await changes.receive() == "made.py"
        write(tmp_path / "made.py", "same")
        write(tmp_path / "other.py", "other")
        assert await changes.receive() == "other.py"
        write(tmp_path / "made.py", "not the same")
        assert await changes.receive() == "made.py"


DIES = [sys.executable, "-I", "-S", "-c", "input(); raise SystemExit(3)"]
"""A server that cannot bear to be spoken to."""


async def test_what_a_server_has_not_answered_at_its_exit_is_answered_then() -> None:
    client, ours = trio.testing.memory_stream_pair()
    to_relay, changes = trio.open_memory_channel[None](1)
    relay = RestartingRelay(ours, partial(trio.run_process, DIES, check=False), changes, timeout=60)
    with to_relay, trio.fail_after(60):
        async with background_nursery(relay.run):
            await client.send_all(lines(call(1, "version")))
            (answer,) = parse(await client.receive_some())
    assert answer["id"] == 1
    assert "exited with status 3" in answer["error"]["message"]


async def nobody_reads() -> None:
    """What a pipe does that is closed at its other end."""
    raise trio.BrokenResourceError


@pytest.mark.parametrize("server", [faulty("none"), DIES], ids=["answers", "dies"])
async def test_a_client_that_reads_no_more_has_gone(server: list[str]) -> None:
    """Even if it could still say something: no answer reaches it, the server's or ours."""
    client, ours = trio.testing.memory_stream_pair()
    ours.send_stream.send_all_hook = nobody_reads
    to_relay, changes = trio.open_memory_channel[None](1)
    with to_relay, trio.fail_after(60):
        await client.send_all(lines(call(1, "version")))
        run = partial(trio.run_process, server, check=False)
        await RestartingRelay(ours, run, changes, timeout=60).run()


async def version_of(server: Server, start: int) -> str:
    url = server.stderr.decode().split(" at http://")[start].split()[0]
    async with connect(f"http://{url}") as client:
        return await client.call_tool("version", returns=str)


async def test_what_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, running = watching_module.watch, []

    def noted(*args: Any, **options: Any) -> Iterator[Any]:
        running.append(args)
        yield from watch(*args, **options)
        running.remove(args)

    monkeypatch.setattr(watching_module, "watch", noted)
    ignored = (".git/d.py", "node_modules/f.py", "env/lib/site-packages/e.py", "b.txt")
    for name in ("a.py", "deep/c.py", *ignored):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    async with watching(tmp_path) as changes:
        for name in ("a.py", "deep/c.py"):
            for each in ignored:
                (tmp_path / each).write_text(name)
            write(tmp_path / name, "changed")
            await changes.receive()
        assert running
    assert not running


def test_a_system_that_cannot_watch(
    source: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(watching_module, "watch", watch)
    outcome = cli("serve", str(source), "--reload", "--http", "0")
    assert outcome.status == 1
    assert outcome.error == f"{source.parent} cannot be watched: OS file watch limit reached."


def test_what_a_new_server_has_to_hear() -> None:
    state = ClientState()
    assert list(state.handshake()) == []
    hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "logging/setLevel", "params": {"level": "info"}},
        {"id": 3, "method": "logging/setLevel", "params": {"level": "error"}},
        {"id": 4, "method": "resources/subscribe", "params": {"uri": "a:1"}},
        {"id": 5, "method": "resources/subscribe", "params": {"uri": "a:2"}},
        {"id": 6, "method": "resources/unsubscribe", "params": {"uri": "a:1"}},
        {"id": 7, "method": "tools/list", "params": {"_meta": {"x": 1}}},
    ):
        state.heard(encode({"jsonrpc": "2.0", **message}))
    said = parse(b"".join(state.handshake()))
    assert [each["method"] for each in said] == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
    ]
    assert said[0]["params"] == hello
    assert said[2]["params"] == {"level": "error"}
    assert said[3]["params"] == {"uri": "a:2"}
    answer = encode({"jsonrpc": "2.0", "id": said[0]["id"], "result": {}})
    assert state.said(answer) is None, "the client has not asked that"
    state.heard(
        encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    )
    left = parse(b"".join(state.unanswered("restarted")))
    assert [each["id"] for each in left] == [1, 2, 3, 4, 5, 6]
    assert {each["error"]["code"] for each in left} == {-32603}


@pytest.mark.long
@pytest.mark.requirement("S1")
async def test_it_ends_with_its_parent_though_its_input_is_open(source: Path) -> None:
    shell = 'exec 3<&0; "$@" <&3 & wait'
    async with running(["/bin/sh", "-c", shell, "sh", *command(source)]) as server:
        await tell(server, call(1, "pid"))
        assert text_of(await hears(server)).isdecimal()
        server.process.kill()
        assert await hears(server) is None
