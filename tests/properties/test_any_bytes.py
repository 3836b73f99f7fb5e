"""Whatever bytes come, in whatever pieces: one answer each, the same answers, and life goes on."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.support.client import CLIENT_INFO, LEGACY, modern_meta
from trio_mcp import Limits, Registry, ToolError, serve_stream

registry = Registry("property", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Say it again, a little later."""
    await trio.lowlevel.checkpoint()
    return text


@registry.tool
async def fail(text: str) -> str:
    """Fail with a text."""
    raise ToolError(text)


@registry.tool
async def crash() -> str:
    """Fail unexpectedly."""
    raise LookupError("meant to happen")


@registry.tool
async def sleep(seconds: float) -> str:
    """Take some time."""
    await trio.sleep(seconds)
    return "awake"


# -- one conversation --------------------------------------------------------------------------


def converse(chunks: list[bytes], limits: Limits) -> list[Any]:
    """Serve the chunks, one after the other, and return the messages that come back."""

    async def main() -> bytes:
        ours, theirs = trio.testing.memory_stream_pair()
        received = bytearray()

        async def receive() -> None:
            async for chunk in ours:
                received.extend(chunk)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(serve_stream, registry, theirs, limits=limits))
            nursery.start_soon(receive)
            for chunk in chunks:
                await ours.send_all(chunk)
                await trio.testing.wait_all_tasks_blocked()  # so that the pieces are not joined
            await ours.send_stream.aclose()
        return bytes(received)

    output = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert output.endswith(b"\n") or not output
    return [json.loads(line) for line in output.splitlines()]


def answers(chunks: list[bytes], limits: Limits) -> Counter[str]:
    """The answers to a conversation, in no order; nor have those in a batch any."""
    return Counter(_canonical(each) for each in converse(chunks, limits))


def _canonical(answer: Any) -> str:
    if isinstance(answer, list):
        return f"[{', '.join(sorted(map(_canonical, answer)))}]"
    return json.dumps(answer, sort_keys=True)


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Cut bytes into pieces of these sizes, which repeat."""
    position = 0
    while position < len(data):
        for size in sizes:
            if piece := data[position : position + size]:
                yield piece
            position += size


# -- what may come -----------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)

PARAMS = st.one_of(
    st.builds(lambda text: {"name": "echo", "arguments": {"text": text}}, st.text(max_size=20)),
    st.builds(lambda text: {"name": "fail", "arguments": {"text": text}}, st.text(max_size=20)),
    st.just({"name": "crash"}),
    st.just({"name": "sleep", "arguments": {"seconds": 0.1}}),
    st.just({"name": "sleep", "arguments": {"seconds": 1e9}}),
    st.builds(lambda value: {"name": "echo", "arguments": value}, JSON),
    st.builds(lambda value: {"name": value}, JSON),
    JSON,
)


@st.composite
def request(draw: st.DrawFn) -> dict[str, Any]:
    """A request that is valid JSON-RPC, without its id."""
    hello = {"protocolVersion": draw(st.sampled_from(LEGACY)), "capabilities": {}}
    method, params = draw(
        st.one_of(
            st.tuples(st.just("tools/call"), PARAMS),
            st.tuples(st.sampled_from(["ping", "tools/list", "resources/list", "nonsense"]), JSON),
            st.just(("initialize", {**hello, "clientInfo": CLIENT_INFO})),
        )
    )
    if isinstance(params, dict) and draw(st.booleans()):
        params = {**params, "_meta": modern_meta()}
    return {"jsonrpc": "2.0", "method": method, "params": params}


MESSAGE = st.one_of(
    request(),
    st.builds(lambda id: {"jsonrpc": "2.0", "id": id, "result": {}}, st.integers()),
    JSON,
)

LINE = st.one_of(
    request(),
    request(),
    st.lists(MESSAGE, max_size=4),
    MESSAGE,
    st.sampled_from([b"", b" \t ", b"{", b"\xff\xfe{}", b'{"a":1,"a":2}', b"[" * 300]),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
    st.integers(50, 2500).map(lambda size: b'{"jsonrpc":"2.0","id":"big","method":"' + b"x" * size),
    st.integers(50, 2500).map(lambda size: b" " * size + b'{"id":1}'),
)

END = st.sampled_from([b"\n", b"\r\n", b" \n\n"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Lines of every kind; every request in them has an id of its own."""
    data = b""
    for number, line in enumerate(draw(st.lists(LINE, max_size=8))):
        data += as_bytes(line, number) + draw(END)
    return data + draw(
        st.sampled_from(
            [b"", b'{"jsonrpc":"2.0","id":"cut off'],
        )
    )


def as_bytes(line: Any, number: int) -> bytes:
    """Write a line; requests get ids that nobody else has."""
    if isinstance(line, bytes):
        return line
    for place, each in enumerate(line if isinstance(line, list) else [line]):
        if isinstance(each, dict) and each.get("jsonrpc") == "2.0" and "method" in each:
            each["id"] = f"{number}.{place}"
    return json.dumps(line).encode()


# -- what must hold ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.requirement("A3", "A4", "A6", "A7", "A15")
@given(
    data=streams(),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    limit=st.sampled_from([100, 2000]),
)
def test_the_pieces_in_which_bytes_come_do_not_matter(
    data: bytes, sizes: list[int], limit: int
) -> None:
    limits = Limits(max_message_bytes=limit, max_concurrent_calls=4)
    assert answers(list(pieces(data, sizes)), limits) == answers([data], limits)


@pytest.mark.requirement("A6", "A7")
@given(data=st.binary(max_size=300) | streams(), limit=st.sampled_from([100, 2000]))
def test_after_any_bytes_the_next_request_is_served(data: bytes, limit: int) -> None:
    last = b'\n{"jsonrpc":"2.0","id":"last","method":"ping"}\n'
    messages = converse([data + last], Limits(max_message_bytes=limit))
    flat = [
        each
        for message in messages
        for each in (message if isinstance(message, list) else [message])
    ]
    assert [each for each in flat if each["id"] == "last"] == [
        {"jsonrpc": "2.0", "id": "last", "result": {}}
    ]
    assert all(("result" in each) != ("error" in each) for each in flat)


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["echo", "fail", "crash", "sleep", "missing", "ping"]),
        st.sampled_from([0.0, 0.1, 0.3, 2.0, 1e6]),  # seconds, for those that sleep
        st.booleans(),  # whether it is cancelled
    ),
    max_size=12,
)


@pytest.mark.requirement("B1", "B2", "B7", "B8")
@given(
    calls=CALLS,
    slots=st.integers(1, 4),
    grace=st.sampled_from([0.0, 0.5, 3.0]),
    timeout=st.sampled_from([0.2, 1.0, math.inf]),
    at_once=st.booleans(),
)
def test_every_request_is_answered_exactly_once(
    calls: list[tuple[str, float, bool]], slots: int, grace: float, timeout: float, at_once: bool
) -> None:
    lines, cancelled = [], set()
    for id, (name, seconds, cancel) in enumerate(calls):
        arguments = {"sleep": {"seconds": seconds}, "crash": {}}.get(name, {"text": "x"})
        asked = {"jsonrpc": "2.0", "id": id, "method": "tools/call"}
        asked["params"] = {"name": name, "arguments": arguments}
        lines.append({"jsonrpc": "2.0", "id": id, "method": "ping"} if name == "ping" else asked)
        if cancel:
            method, params = "notifications/cancelled", {"requestId": id}
            lines.append({"jsonrpc": "2.0", "method": method, "params": params})
            cancelled.add(id)
    chunks = [json.dumps(line).encode() + b"\n" for line in lines]
    limits = Limits(max_concurrent_calls=slots, eof_grace=grace, tool_timeout=timeout)
    messages = converse([b"".join(chunks)] if at_once else chunks, limits)
    counted = Counter(each["id"] for each in messages)
    assert set(counted.values()) <= {1}
    assert set(range(len(calls))) - cancelled <= set(counted) <= set(range(len(calls)))
