"""One server in several processes: each here is real, and nothing of them is left."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from tests.support.client import MODERN, modern_meta
from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, Server, run, running
from tests.support.tools import echo, registry_of
from tests.transports.http.support import hosting
from trio_mcp import Handlers, Registry, Remote, connect, serve_http
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.registry import catalogue_of
from trio_mcp.registry.sealing import Sealer
from trio_mcp.transports.http.workers.channel import Channel, Report, Snapshot, add, note_servers
from trio_mcp.transports.http.workers.worker import Worker

pytestmark = [
    pytest.mark.requirement("M1"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

PROGRAM = [sys.executable, "-m", "tests.transports.http.worker_program"]
PAUSE = 0.02
"""Seconds between two looks at what only HTTP tells: who is live, and whether anybody accepts. In
between, what is waited for has the processor."""


def plain_http() -> httpx2.AsyncClient:
    """A client that reads no certificates, which takes longer than all that it does here."""
    return httpx2.AsyncClient(trust_env=False, timeout=TIME_LIMIT, verify=False)


class Workers:
    """A program with workers, as seen from outside."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.root = server.stderr.partition(b" at ")[2].partition(b"/mcp")[0].decode()
        self.url = f"{self.root}/mcp"

    async def call(self, name: str, **arguments: object) -> int:
        """Call a tool over a connection of its own."""
        params = {"name": name, "arguments": arguments, "_meta": modern_meta()}
        headers = {"accept": "application/json, text/event-stream", "mcp-name": name}
        headers |= {"mcp-protocol-version": MODERN[0], "mcp-method": "tools/call"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with plain_http() as http:
            response = await http.post(self.url, json=message, headers=headers)
        return int(response.json()["result"]["content"][0]["text"])

    async def page(self, name: str) -> str:
        async with plain_http() as http:
            return (await http.get(f"{self.root}/{name}")).text

    def pids(self) -> set[int]:
        found = set()
        for each in Path("/proc").glob("[0-9]*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                parent = each.read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.server.process.pid:
                    found.add(int(each.parent.name))
        return found

    async def live(self, number: int) -> None:
        """Wait until so many take requests, and no other one is left."""
        while f'"workers_live":{number}' not in await self.page("health"):
            await trio.sleep(PAUSE)
        while len(self.pids()) != number:
            await trio.sleep(PAUSE)

    async def replace(self) -> None:
        """Have them replaced, and wait until that is done."""
        before, told = self.pids(), b"The workers were replaced\n"
        times = self.server.stderr.count(told) + 1
        self.server.signal(signal.SIGHUP)
        await self.server.said(told, times)
        await ended(before)

    async def kill(self, pid: int) -> None:
        """Kill one, and wait until that has been noticed."""
        told = b"; the next one starts in "
        times = self.server.stderr.count(told) + 1
        os.kill(pid, signal.SIGKILL)
        await self.server.said(told, times)

    async def left(self, pids: set[int]) -> None:
        """Wait until nothing of them is left."""
        await ended(pids)
        assert not list(self.folder.iterdir())
        with pytest.raises(httpx2.ConnectError):
            await self.page("health")


async def ended(pids: Iterable[int]) -> None:
    """Wait until processes have ended, whether or not anybody has waited for them."""
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                await trio.lowlevel.wait_readable(descriptor)
            finally:
                os.close(descriptor)


@asynccontextmanager
async def workers(
    folder: Path, number: int = 2, time_limit: float = TIME_LIMIT, **environment: str
) -> AsyncIterator[Workers]:
    """Run the program during the block."""
    (temporary := folder / "temporary").mkdir()
    env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), **environment}
    command = [*PROGRAM, "0", str(number)]
    async with running(command, time_limit=time_limit, env=env, cwd=ROOT) as server:
        await server.said(b"workers\n")
        yield Workers(server, temporary)


@pytest.mark.long
@pytest.mark.requirement("F17")
async def test_any_worker_takes_what_is_posted_for_a_stream_of_events(tmp_path: Path) -> None:
    """Each message has a connection of its own, so nobody knows which worker gets it."""
    async with workers(tmp_path) as ours:
        async with await trio.open_tcp_stream("127.0.0.1", int(ours.root.rpartition(":")[2])) as it:
            await it.send_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b""

            async def data() -> str:
                nonlocal received
                while (found := re.search(rb"data: (.*)\n\n", received)) is None:
                    received += await it.receive_some()
                received = received[found.end() :]
                return found[1].decode()

            endpoint = f"{ours.root}{await data()}"
            for number in range(20):
                message = {"jsonrpc": "2.0", "id": number, "method": "ping"}
                async with plain_http() as http:
                    assert (await http.post(endpoint, json=message)).status_code == 202
                assert json.loads(await data())["id"] == number


async def test_the_life_of_workers(tmp_path: Path) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with manager:
        manager.bind(str(tmp_path / "manager"))
        manager.setblocking(False)
        async with workers(tmp_path, NOTIFY_SOCKET=str(tmp_path / "manager")) as ours:
            assert manager.recv(100) == b"READY=1"
            first = ours.pids()
            calls = 0
            answered = set[int]()
            while answered != first:  # both of them serve
                answered.add(await ours.call("who"))
                calls += 1

            (victim, *_) = first
            await ours.kill(victim)
            await ours.live(2)
            assert len(ours.pids() & first) == 1

            before = calls_counted(await ours.page("metrics"))
            for _ in range(5):
                await ours.call("who")
            await ours.replace()
            await ours.live(2)
            assert not ours.pids() & first
            assert calls_counted(await ours.page("metrics")) == before + 5
            said = manager.recv(100)
            assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", said), said
            assert manager.recv(100) == b"READY=1"

            last = ours.pids()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answered_by, ours, last, tmp_path / "go on")
                await ours.server.said(b"working\n")
                ours.server.signal(signal.SIGTERM)
                while await accepts(ours):
                    await trio.sleep(PAUSE)
                (tmp_path / "go on").touch()
            assert await ours.server.exit() == 0
            await ours.left(last)
        assert manager.recv(100) == b"STOPPING=1"


def calls_counted(metrics: str) -> float:
    return sum(float(each) for each in re.findall(r'_total\{.*name="who".*\} (\S+)', metrics))


async def answered_by(ours: Workers, pids: set[int], go_on: Path) -> None:
    assert await ours.call("wait_for", file=str(go_on)) in pids


@pytest.mark.long
async def test_a_client_may_meet_other_workers(tmp_path: Path) -> None:
    async def answer(params: dict[str, Any]) -> dict[str, Any]:
        await ours.replace()  # so it is another one that gets the answer
        (field,) = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {field: True}}

    async with workers(tmp_path, 1) as ours:
        handlers = Handlers(elicitation=answer)
        async with (
            connect(ours.url, era="legacy") as legacy,
            connect(ours.url, era="modern", handlers=handlers) as modern,
        ):
            first = (await legacy.call_tool("who")).text
            assert (await modern.call_tool("agree")).text == "accept"
            assert (await legacy.call_tool("who")).text != first


@pytest.mark.long
@pytest.mark.requirement("K3", "M2")
async def test_any_worker_knows_of_a_task(tmp_path: Path) -> None:
    async with workers(tmp_path) as ours:
        ids = []
        for _ in range(6):
            tasks = TasksClient()
            async with connect(ours.url, extensions=[tasks]):
                ids.append((await tasks.start("job")).id)
        for id in ids * 3:
            tasks = TasksClient()
            async with connect(ours.url, extensions=[tasks]):
                assert int((await tasks.result(id)).text) in ours.pids()


async def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    async with workers(tmp_path) as ours:
        pids = ours.pids()
        ours.server.signal(signal.SIGKILL)
        await ours.left(pids)


@pytest.mark.long
async def test_workers_end_with_their_parent_even_if_their_loops_are_stuck(tmp_path: Path) -> None:
    async with workers(tmp_path, 1, IMPATIENT="yes") as ours:
        pids = ours.pids()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_off, ours, "block")
            await ours.server.said(b"blocking\n")
            ours.server.signal(signal.SIGKILL)
            await ended(pids)


@pytest.mark.long
async def test_a_worker_whose_loop_is_stuck_ends_soon_after_it_was_asked_to(tmp_path: Path) -> None:
    """What it would have for answers, its lifespan and its telemetry is not waited for."""
    async with workers(tmp_path, 1, IMPATIENT="yes", LIFESPAN_TIMEOUT="3600") as ours:
        pids = ours.pids()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_off, ours, "block")
            await ours.server.said(b"blocking\n")
            ours.server.signal(signal.SIGTERM)
            await ours.server.said(b"The loop of a worker does not answer; it is killed\n")
            await ended(pids)


@pytest.mark.long
async def test_requests_that_kill_a_worker_do_not_end_the_others_however_many(
    tmp_path: Path,
) -> None:
    async with workers(tmp_path, 1) as ours:
        for _ in range(8):
            await cut_off(ours, "die")
        assert await ours.call("who") in ours.pids()


@pytest.mark.long
async def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    async with workers(tmp_path) as ours:
        pids = ours.pids()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(cut_off, ours, "work", seconds=60.0))
            await ours.server.said(b"working\n")
            ours.server.signal(signal.SIGTERM)
            while await accepts(ours):
                await trio.sleep(PAUSE)
            ours.server.signal(signal.SIGINT)
            assert await ours.server.exit() == -signal.SIGINT
        await ours.left(pids)


async def cut_off(ours: Workers, name: str, **arguments: object) -> None:
    with pytest.raises(httpx2.TransportError):
        await ours.call(name, **arguments)


async def accepts(ours: Workers) -> bool:
    try:
        await ours.page("health")
    except httpx2.TransportError:
        return False
    return True


async def test_a_program_whose_workers_end_at_once() -> None:
    ended = await run([*PROGRAM, "0", "2", "3"], cwd=ROOT)
    assert ended.returncode == 3
    assert ended.stderr == b"A worker exited with status 3 before it listened; the server ends\n"


@pytest.mark.long
async def test_the_command_line(tmp_path: Path) -> None:
    place = tmp_path / "shop.sock"
    line = ["serve", str(EXAMPLES / "calculator.py"), "--workers", "2", "--unix-socket", str(place)]
    async with running([sys.executable, "-m", "trio_mcp.cli", *line]) as server:
        await server.said(b"with 2 workers\n")
        transport = httpx2.AsyncHTTPTransport(uds=str(place))
        async with httpx2.AsyncClient(timeout=TIME_LIMIT, transport=transport) as http:
            while (await http.get("http://localhost/health")).json()["workers_live"] != 2:
                await trio.sleep(PAUSE)  # one of them has not heard of the other yet
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    assert not place.exists()


@pytest.mark.parametrize(
    ("options", "program", "why"),
    [
        ({"workers": 0, "own_process": True}, "server.py", "1 or more, not 0"),
        ({"workers": 2}, "server.py", "own_process=True"),
        ({"workers": 2, "own_process": True, "listeners": []}, "server.py", "give host and port"),
        ({"workers": 2, "own_process": True}, "", "the interactive interpreter cannot be"),
        ({"workers": 2, "own_process": True}, "-c", "python -c cannot be"),
    ],
)
async def test_where_there_can_be_no_workers(
    options: dict[str, object], program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    with pytest.raises(ValueError, match=why):
        await serve_http(Registry("shop"), **options)  # type: ignore[arg-type]


def test_keys_of_the_program_stay_and_others_are_shared() -> None:
    key, shared = Sealer.generate_key(), Sealer.generate_key()
    sealed = {}
    for keys in (None, [key]):
        registry = Registry("shop", state_keys=keys)
        catalogue_of(registry).share_state_keys([shared])
        sealed[keys is None] = catalogue_of(registry).sealer.seal({}, "tools/call")
    Sealer([shared]).open(sealed[True], "tools/call")
    Sealer([key]).open(sealed[False], "tools/call")


def test_what_an_ended_worker_has_counted_stays() -> None:
    def told(calls: float, open_: float) -> Snapshot:
        samples = {"calls_total": {"{}": calls}}
        return {"calls": ["counter", "", samples], "open": ["gauge", "", {"open": {"{}": open_}}]}

    total: Snapshot = {}
    add(total, told(3, 1), ended=True)
    add(total, told(4, 2))
    add(total, told(5, 4))
    assert total == told(12, 6)


def test_of_a_server_elsewhere_the_worst_state_counts() -> None:
    total: dict[str, str] = {}
    for state in ("connected", "disconnected", "connecting"):
        note_servers(total, {"calc": state, "text": "connected"})
    assert total == {"calc": "disconnected", "text": "connected"}


SETTINGS = {"sockets": [], "store": "", "keys": [], "folder": None, "since": 0.0}


def nothing() -> Report:
    return {"metrics": {}, "servers": {}}


@pytest.mark.requirement("F1")
async def test_health_is_that_of_all_workers() -> None:
    """A probe may reach any of them: also one that is replaced by another, or has just begun."""
    registry = registry_of(echo)
    registry.mount(Remote("http://127.0.0.1:9/mcp", name="lost"), prefix="lost")
    ours, parents = map(Channel, socket.socketpair())
    since = time.monotonic() - 1000
    worker = Worker(ours, ours.messages(), {"settings": {**SETTINGS, "since": since}, "live": 3})
    with trio.fail_after(TIME_LIMIT):
        async with (
            aclosing(parents.messages()) as told,
            hosting(registry) as host,
            worker.serving(host.app.stop, host.app.report),
        ):
            host.app.workers = worker
            health = {}

            async def asked() -> None:
                health.update((await host.ask("GET", "/health")).json())

            async def answered(**message: Any) -> None:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(asked)
                    assert await anext(told) == {"sum": True}
                    parents.tell(**message, total={"metrics": {}, "servers": {"lost": "connected"}})
                    await parents.flush()

            await answered()
            assert health["uptime_seconds"] >= 1000
            assert (health["status"], health["workers_live"]) == ("healthy", 3)
            assert health["servers"] == {"lost": "connected"}
            host.app.stop()
            await answered()
            assert health["status"] == "healthy", "it is this worker alone that stops"
            await answered(ending=True)
            await answered()
            assert health["status"] == "stopping"
    await ours.aclose()
    await parents.aclose()


async def test_a_worker_may_be_stopped_with_the_first_that_it_is_told() -> None:
    """As when another one has taken its place while it was started."""
    ours, parents = map(Channel, socket.socketpair())
    worker = Worker(ours, ours.messages(), {"settings": SETTINGS, "stop": True})
    stopped = trio.Event()
    with trio.fail_after(TIME_LIMIT):
        async with worker.serving(stopped.set, nothing):
            await stopped.wait()
    await ours.aclose()
    await parents.aclose()


@pytest.mark.long
async def test_nothing_is_lost_but_what_a_killed_worker_was_doing(tmp_path: Path) -> None:
    outcomes = Counter[str]()
    kills = 0

    async def client(until: trio.Event) -> None:
        while not until.is_set():
            try:
                await ours.call("work", seconds=0.002)
            except httpx2.TransportError as error:
                outcomes[type(error).__name__] += 1
            else:
                outcomes["answered"] += 1

    async def calling() -> AsyncIterator[None]:
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(client, over)
            yield
            over.set()

    async with workers(tmp_path, 3, time_limit=10 * TIME_LIMIT) as ours:
        async with asynccontextmanager(calling)():
            for _ in range(3):
                await ours.replace()
        assert outcomes.keys() == {"answered"}
        outcomes.clear()
        async with asynccontextmanager(calling)():
            for _ in range(3):
                await ours.kill(min(ours.pids()))
                kills += 1
                await ours.live(3)
        assert outcomes.pop("answered") > 0
        assert outcomes.total() <= 8 * kills
        pids = ours.pids()
        ours.server.signal(signal.SIGTERM)
        assert await ours.server.exit() == 0
        await ours.left(pids)
