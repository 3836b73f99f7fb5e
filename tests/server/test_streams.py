"""Bytes in, bytes out: however they are cut, the answers are the same."""

import errno
import json
import os
import random
import socket
import tracemalloc

import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.support.client import RawClient, serving
from tests.support.tools import (
    each_revision,
    echo,
    error_of,
    raw,
    registry_of,
    some_revisions,
    text_of,
    wait,
)
from trio_mcp import Limits, serve_stream

MIB = 1024 * 1024


class Chopped(trio.abc.Stream):
    """A stream that is read in pieces of given sizes and written byte by byte."""

    def __init__(self, stream: trio.abc.Stream, size: int, kind: type = bytes) -> None:
        self.stream, self.size, self.kind = stream, size, kind

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return self.kind(await self.stream.receive_some(self.size))

    async def send_all(self, data: bytes) -> None:
        for index in range(len(data)):
            await self.stream.send_all(data[index : index + 1])

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self.stream.aclose()


SCRIPT = [
    raw({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    b"\n\r\n \t \n",
    b'\t{"jsonrpc":"2.0","id":2,"method":"tools/call",'
    b'"params":{"name":"echo","arguments":{"text":"\xc3\xa9\xf0\x9f\x98\x80\\n"}}} \r\n',
    b"nonsense\n",
    b'{"a":"\xff"}\n',
    b'[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"x"}]\n',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
    b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":null}\r\n',
    b'{"jsonrpc":"2.0","id":6,"method":"ping"',
    b"}\n",
    b'{"jsonrpc":"2.0","id":7,"method":"ping"}',
]


async def run_script(limits: Limits | None = None, chop=lambda stream: stream) -> list:
    """Send the script, end the input, and return what came back, in an order of its own."""
    ours, theirs = trio.testing.memory_stream_pair()
    client = RawClient(ours)
    await client.send_bytes(b"".join(SCRIPT))
    await client.send_eof()
    await serve_stream(registry_of(echo), chop(theirs), limits=limits)
    return sorted(map(json.dumps, await client.receive_all()))


@pytest.mark.requirement("A2", "A3", "A4", "A6")
@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 65536])
async def test_chunks_of_any_size_give_the_same_answers(size, kind):
    answers = await run_script(chop=lambda stream: Chopped(stream, size, kind))
    assert answers == await run_script()
    ids = [each.get("id", "batch") for each in map(json.loads, answers) if isinstance(each, dict)]
    assert sorted(map(str, ids)) == ["", "", "1", "2", "5", "6", "7"]


@pytest.mark.requirement("A3")
async def test_many_messages_in_one_chunk():
    async with serving(registry_of(echo)) as (client, _):
        await client.send(*[{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in range(1000)])
        assert list(await client.receive_many(1000)) == list(range(1000))


@pytest.mark.requirement("A2")
async def test_a_socket_will_do():
    ours, theirs = socket.socketpair()
    one, two = (trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in (ours, theirs))
    async with serving(registry_of(echo), pair=lambda: (one, two)) as (client, _):
        for size in (0, 1, 100_000):
            assert len(text_of(await client.call("echo", text="x" * size))) == size


@pytest.mark.requirement("A5")
async def test_messages_never_interleave():
    """Answers of all sizes, from many calls at once, over a stream that takes byte by byte."""
    sizes = [random.Random(7).randrange(100) for _ in range(30)]
    ours, theirs = lockstep_stream_pair()
    chopped = Chopped(theirs, 1000)
    async with serving(registry_of(echo), pair=lambda: (ours, chopped)) as (client, _):
        async with trio.open_nursery() as nursery:
            calls = [
                client.request_of("tools/call", {"name": "echo", "arguments": {"text": "x" * size}})
                for size in sizes
            ]
            nursery.start_soon(client.send, *calls)
            answers = await client.receive_many(len(calls))
        for call, size in zip(calls, sizes, strict=True):
            assert len(text_of(answers[call["id"]])) == size


@pytest.mark.requirement("A6")
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"nonsense", -32700, "Parse error"),
        (b"{", -32700, "Parse error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}}', -32700, "Parse error"),
        (b"NaN", -32700, "Parse error"),
        (b"\xff", -32700, "invalid UTF-8"),
        (b'{"x":"\xed\xa0\x80"}', -32700, "UTF-8"),
        (b"\0", -32700, "Parse error"),
        (b"[" * 100_000, -32700, "Parse error"),
        (b"[" * 500 + b"]" * 500, -32600, "nested"),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600, 'repeated key "id"'),
    ],
)
@some_revisions
async def test_what_is_no_message_is_told_so(line, code, words, revision):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        await client.send_bytes(line + b"\n")
        answer = await client.receive()
        assert answer["id"] == ""
        assert answer["error"]["code"] == code
        assert words in answer["error"]["message"]
        assert text_of(await client.call("echo", text="x")) == "x"


@pytest.mark.requirement("A6")
async def test_malformed_messages_of_a_batch_are_logged_with_their_sizes(caplog):
    good, bad = {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"id": 2, "method": "secret"}
    async with serving(registry_of(echo), revision="2025-03-26") as (client, _):
        await client.send([good, bad, 2**64])
        assert len(await client.receive()) == 3
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == [
        'Malformed message of 26 bytes: Invalid request: "jsonrpc" must be "2.0"',
        "Malformed message of 20 bytes: Invalid request: a message must be a JSON object, "
        "not a number",
    ]
    assert not any("secret" in each for each in caplog.messages)


class Failing(Chopped):
    """A stream that cannot be read any more after so many bytes."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self.size -= 1
        if self.size:
            return await self.stream.receive_some(max_bytes)
        raise trio.BrokenResourceError from OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.requirement("A6", "B8")
async def test_a_read_error_is_logged_and_ends_the_connection(caplog):
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(raw({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
    caplog.set_level("INFO")
    await serve_stream(registry_of(echo), Failing(theirs, 2))
    assert json.loads(await ours.receive_some()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    errors = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.message for each in errors] == [
        f"Client: read error: {OSError(5, 'Input/output error')!r}"
    ]
    assert "Client: end of input" not in caplog.messages
    assert caplog.messages[-1].startswith("Client disconnected (EOF)")


@pytest.mark.requirement("A6")
async def test_the_end_of_the_input_is_logged_when_it_is_noticed(caplog, autojump_clock):
    caplog.set_level("INFO")
    async with serving(registry_of(wait), Limits(eof_grace=100)) as (client, _):
        id = await client.start("wait", seconds=50)
        await client.send_eof()
        await wait_all_tasks_blocked()
        assert caplog.messages == ["Client: end of input"]
        assert trio.current_time() == 0
        assert (await client.receive())["id"] == id


# -- lines that are too long ------------------------------------------------------------------


def long_line(size: int, head: bytes = b'{"jsonrpc":"2.0","id":"big","method":"x","p":"') -> bytes:
    return head + b"x" * (size - len(head) - 2) + b'"}'


@pytest.mark.requirement("A7")
@each_revision
async def test_a_line_that_is_too_long(revision, caplog):
    registry, limits = registry_of(echo), Limits(max_message_bytes=2 * MIB)
    async with serving(registry, limits, revision=revision) as (client, _):
        await client.send_bytes(long_line(3 * MIB) + b"\n")
        answer = await client.receive()
        assert answer["id"] == "big"
        assert error_of(answer) == (-32600, "Request too large")
        assert text_of(await client.call("echo", text="x")) == "x"
        assert "Request exceeded size limit: 3MB" in caplog.messages


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "head",
    [
        b'{"params":{"id":"inner","x":"',
        b'{"p":"' + b"x" * 2000 + b'","id":"late","q":"',
        b'{"id":null,"p":"',
        b'["id","',
        b"nonsense",
    ],
)
async def test_a_line_that_is_too_long_and_shows_no_id(head):
    async with serving(registry_of(echo), Limits(max_message_bytes=10 * MIB)) as (client, _):
        await client.send_bytes(long_line(10 * MIB + 1, head) + b"\n")
        answer = await client.receive()
        assert answer["id"] == ""
        assert error_of(answer) == (-32700, "Request exceeds 10MB limit")
        assert "result" in await client.request("ping")


@pytest.mark.requirement("A7")
async def test_the_limit_is_ten_mebibytes_by_default(caplog):
    async with serving(registry_of(echo)) as (client, _):
        await client.send_bytes(long_line(10 * MIB) + b"\n")
        assert error_of(await client.receive()) == (-32601, "Method not found: x")
        assert caplog.messages == []
        await client.send_bytes(long_line(11 * MIB) + b"\n")
        assert error_of(await client.receive()) == (-32600, "Request too large")
        assert "result" in await client.request("ping")
        assert caplog.messages == ["Request exceeded size limit: 11MB"]


@pytest.mark.requirement("A7")
async def test_a_line_that_is_too_long_is_answered_before_it_ends():
    async with serving(registry_of(echo), Limits(max_message_bytes=1000)) as (client, _):
        await client.send_bytes(long_line(5000)[:2000])
        assert (await client.receive())["id"] == "big"
        await client.send_bytes(b"x" * 3000)
        await client.send_eof()
        assert await client.receive() is None  # and it is answered once


@pytest.mark.requirement("A7")
async def test_a_line_that_is_too_long_is_not_kept():
    """32 MiB pass through a server that takes lines of 1 MiB."""
    limits = Limits(max_message_bytes=MIB)
    async with serving(registry_of(echo), limits, pair=lockstep_stream_pair) as (client, _):
        piece = b"x" * 65536
        await client.send_bytes(b'{"id":1,"p":"')
        tracemalloc.start()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.receive)
                for _ in range(512):
                    await client.send_bytes(piece)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 3 * MIB
        await client.send_bytes(b'"}\n')
        assert "result" in await client.request("ping")
