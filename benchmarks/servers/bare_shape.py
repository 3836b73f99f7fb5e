"""The bare shape of a connection, and nothing else: what our own server is held against.

Three tasks joined by memory channels that carry a chunk's lines at a time, a task and a cancel
scope for each call, orjson. No revisions, no schemas, no limits, no errors, no end.
"""

import sys
from typing import Any

import orjson
import trio

TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
RESULTS: dict[str, Any] = {
    "initialize": lambda params: {
        "protocolVersion": params["protocolVersion"],
        "serverInfo": {"name": "bare", "version": "1.0"},
        "capabilities": {"tools": {}},
    },
    "tools/list": lambda params: {"tools": [TOOL]},
}


async def echo(text: str) -> str:
    return text


async def read(stream: trio.abc.ReceiveStream, lines: trio.MemorySendChannel[list[bytes]]) -> None:
    rest = b""
    while chunk := await stream.receive_some(65536):
        *whole, rest = (rest + chunk).split(b"\n")
        await lines.send(whole)
    await lines.aclose()


async def dispatch(
    lines: trio.MemoryReceiveChannel[list[bytes]],
    answers: trio.MemorySendChannel[bytes],
    nursery: trio.Nursery,
) -> None:
    async for whole in lines:
        for line in whole:
            request = orjson.loads(line)
            if "id" in request:
                nursery.start_soon(call, request, answers)


async def call(request: dict[str, Any], answers: trio.MemorySendChannel[bytes]) -> None:
    params = request.get("params", {})
    with trio.move_on_after(60):
        if request["method"] == "tools/call":
            text = await echo(**params["arguments"])
            result = {"content": [{"type": "text", "text": text}]}
        else:
            result = RESULTS[request["method"]](params)
        response = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        line = orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE)
        try:
            answers.send_nowait(line)
        except trio.WouldBlock:
            await answers.send(line)


async def write(stream: trio.abc.SendStream, answers: trio.MemoryReceiveChannel[bytes]) -> None:
    async for answer in answers:
        ready = [answer]
        try:
            while True:
                ready.append(answers.receive_nowait())
        except trio.WouldBlock:
            await stream.send_all(b"".join(ready))


async def main() -> None:
    stdin, stdout = (trio.lowlevel.FdStream(each.fileno()) for each in (sys.stdin, sys.stdout))
    send_lines, lines = trio.open_memory_channel[list[bytes]](1)
    send_answers, answers = trio.open_memory_channel[bytes](256)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, stdin, send_lines)
        nursery.start_soon(write, stdout, answers)
        await dispatch(lines, send_answers, nursery)
        nursery.cancel_scope.cancel()


trio.run(main)
