"""Much at once: nothing is mixed up, nothing is lost, and memory stays bounded."""

from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.processes import (
    EXAMPLES,
    Server,
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

MIB = 1024 * 1024
STALLED = 0.5  # seconds without room in a pipe, after which its reader counts as waiting

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from Linux's /proc"
)


@pytest.mark.long
@pytest.mark.requirement("A5", "B2")
async def test_large_results_of_concurrent_calls_never_interleave() -> None:
    letters = "abcdefghij"
    calls = [call(n, "big", letter=letters[n % 10], size=100_000 + n) for n in range(200)]
    done = await run(workshop(eof_grace=60), lines(*calls))
    answers = parse(done.stdout)
    assert len(answers) == 200
    for answer in answers:
        n = answer["id"]
        assert text_of(answer) == letters[n % 10] * (100_000 + n)
    assert {each["id"] for each in answers} == set(range(200))


@pytest.mark.long
@pytest.mark.requirement("A3", "B2")
async def test_thousands_of_requests_in_one_write() -> None:
    total = 5000
    requests = [ping(n) if n % 2 else call(n, "add", a=n, b=1) for n in range(total)]
    answers = {}
    async with running(python(EXAMPLES / "calculator.py")) as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.client.send_bytes, lines(*requests))
            for _ in range(total):
                answer = await server.client.receive()
                assert answer["id"] not in answers
                answers[answer["id"]] = answer["result"]
    for n, result in answers.items():
        assert result == {} if n % 2 else result["content"][0]["text"] == str(float(n + 1))


class Flood:
    """Many calls with large results, sent to a server whose output nobody reads."""

    def __init__(self, server: Server, calls: int, size: int) -> None:
        self.server = server
        self.calls = calls
        self.size = size

    async def send_until_stalled(self) -> bytes:
        """Send as long as the server reads; return what it did not take."""
        stdin = self.server.process.stdin
        assert isinstance(stdin, trio.lowlevel.FdStream)
        rest = lines(*(call(n, "big", letter="x", size=self.size) for n in range(self.calls)))
        while rest:
            with trio.move_on_after(STALLED) as patience:
                await stdin.wait_send_all_might_not_block()
            if patience.cancelled_caught:
                return rest
            await stdin.send_all(rest[:1024])
            rest = rest[1024:]
        raise AssertionError("the server took everything although nobody reads its answers")

    async def read_all(self, rest: bytes) -> list[Any]:
        """Send the rest, and read all answers."""
        ids = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.server.client.send_bytes, rest)
            for _ in range(self.calls):
                answer = await self.server.client.receive()
                assert text_of(answer) == "x" * self.size
                ids.append(answer["id"])
        return ids


@pytest.mark.long
@needs_proc
@pytest.mark.requirement("B2", "A5")
async def test_a_client_that_stops_reading_does_not_make_the_server_grow() -> None:
    limits = {"max_outgoing_bytes": MIB, "max_concurrent_calls": 32, "max_waiting_bytes": MIB}
    async with running(workshop(**limits)) as server:
        await server.client.call("big", letter="x", size=1)
        server.client.judging = False  # the schema takes longer than the server
        flood = Flood(server, calls=4000, size=20_000)  # 80 MB of answers
        before = server.memory()
        rest = await flood.send_until_stalled()
        ids = await flood.read_all(rest)
        assert sorted(ids) == list(range(flood.calls))
        assert server.memory("VmHWM") - before < 24 * MIB  # of 80
        assert await server.finish() == 0


@pytest.mark.long
@needs_proc
@pytest.mark.requirement("A7")
async def test_an_endless_line_does_not_make_the_server_grow() -> None:
    async with running(workshop()) as server:
        await server.client.request("ping")
        before = server.memory()
        await server.client.send_bytes(b'{"jsonrpc":"2.0","id":"long","method":"' + b"x" * MIB)
        for _ in range(63):
            await server.client.send_bytes(b"x" * MIB)
        answer = await server.client.receive()
        assert answer["id"] == "long"
        assert answer["error"]["message"] == "Request too large"
        await server.client.send_bytes(b"\n")
        assert (await server.client.request("ping"))["result"] == {}
        assert server.memory("VmHWM") - before < 32 * MIB
        assert await server.finish() == 0
    assert b"Request exceeded size limit: 64MB" in server.stderr


@pytest.mark.long
@pytest.mark.requirement("A1")
async def test_reading_the_answers_may_stop_at_any_time() -> None:
    """As `server < requests | head -1` does: the reader goes away, the server ends quietly."""
    request = lines(*(ping(n) for n in range(20_000)))
    script = '"$@" | head -1'
    done = await run(["/bin/sh", "-c", script, "sh", *workshop()], request)
    assert parse(done.stdout) == [{"jsonrpc": "2.0", "id": 0, "result": {}}]
    assert b"Traceback" not in done.stderr
    assert b"Client disconnected (output closed)" in done.stderr
