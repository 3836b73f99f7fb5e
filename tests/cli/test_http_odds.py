"""`doctor` and `bench` over HTTP, with a server that does as it likes."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.cli.support import requests
from trio_mcp.cli.bench.load import calls_of, load_http
from trio_mcp.cli.doctor.checks import check_unexpected
from trio_mcp.cli.doctor.examination import Times, examine_url
from trio_mcp.cli.doctor.report import Report
from trio_mcp.cli.failures import Failure
from trio_mcp.cli.probing.base import Noise, Timeouts
from trio_mcp.cli.probing.http import open_http_probe
from trio_mcp.client.http.options import HttpOptions

Reply = tuple[int, str, bytes, str]
Answer = Callable[[dict[str, Any]], Reply]
CALL: dict[str, Any] = {"name": "a", "arguments": {}}
JSON, EVENTS = "application/json", "text/event-stream"


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """A server that answers each POST with a status, a media type, a body and more headers."""

    async def connection(stream: trio.SocketStream) -> None:
        async with aclosing(requests(stream)) as asked:
            async for head, message in asked:
                verb = head.split(b" ")[0].decode()
                status, kind, reply, more = answer({"verb": verb, **message})
                await stream.send_all(
                    f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}"
                    f"Content-Length: {len(reply)}\r\n\r\n".encode()
                    + reply
                )
                if "close" in more:
                    break
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, connection, 0)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp?key=a%20b"
        nursery.cancel_scope.cancel()


def said(message: dict[str, Any], **outcome: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **outcome}).encode()


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


async def test_answers_in_streams_and_sessions() -> None:
    heard: list[str] = []

    def answer(message: dict[str, Any]) -> Reply:
        heard.append(message.get("method", message["verb"]))
        if message.get("method") == "initialize":
            note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
            question = b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}'
            result = said(message, result={"protocolVersion": "2025-06-18"})
            body = event(note) + event(question) + event(b"no JSON") + event(result)
            return 200, EVENTS, body, "Mcp-Session-Id: abc\r\n"
        if message.get("method") == "ping":
            return 200, EVENTS, b": nothing\n\n", ""
        if message.get("method") == "odd":
            return 200, JSON, b"[1]", ""
        return 202, JSON, b"", ""

    timeouts = Timeouts(answer=5.0)
    async with (
        serving(answer) as url,
        open_http_probe(url, HttpOptions(), "legacy", timeouts) as probe,
    ):
        hello = await probe.send_request("initialize", {})
        assert hello is not None
        assert hello.result == {"protocolVersion": "2025-06-18"}
        assert probe.session == "abc"
        assert [*probe.requests_received] == ["roots/list"]
        empty = await probe.send_request("ping")
        assert empty is not None
        assert (empty.result, empty.error, empty.status) == (None, None, 200)
        odd = await probe.send_request("odd")
        assert odd is not None
        assert odd.result is None
        assert probe.stray == [Noise(b"no JSON"), Noise(b"[1]")]
        report = Report(url)
        check_unexpected(report, probe)
        (finding,) = report.findings
        assert (finding.severity, finding.code) == ("error", "bad-message")
        assert finding.message == "what it answers is not a message: 'no JSON' (and 1 more)"
        assert "stdout" not in finding.way_out
        told = await probe.send_notification("notifications/initialized")
        assert told is not None
        assert told.status == 202
        assert probe.gone is None
    assert heard[-1] == "DELETE", "the session is ended"


async def test_a_server_that_lets_nobody_in() -> None:
    async with serving(lambda message: (401, JSON, b"{}", "")) as url:
        report = await examine_url(url, HttpOptions(), Times())
    assert [each.code for each in report.findings if each.severity == "error"] == [
        "no-challenge",
        "no-access",
    ]
    assert report.findings[-1].message.startswith("the server does not let us in (HTTP status 401")


async def test_a_server_that_refuses_says_why() -> None:
    body = b'{"jsonrpc":"2.0","id":"","error":{"code":-32600,"message":"Not under that name."}}'
    async with serving(lambda message: (403, JSON, body, "")) as url:
        with pytest.raises(Failure) as refused:
            await examine_url(url, HttpOptions(), Times())
    said = "the server does not let us in (HTTP status 403: Not under that name.)"
    assert str(refused.value) == said


async def test_a_server_that_breaks_connections() -> None:
    async def slam(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, slam, 0)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
        report = await examine_url(url, HttpOptions(), Times())
        nursery.cancel_scope.cancel()
    assert [each.code for each in report.findings] == ["no-revision"]


@pytest.mark.parametrize(
    ("reply", "good"),
    [
        ((200, JSON, b'{"result":{}}', ""), True),
        ((200, JSON, b'{"result":{}}', "Connection: close\r\n"), True),
        ((200, EVENTS, event(b'{"result":{}}'), ""), True),
        ((200, JSON, b'{"result":{"isError":true}}', ""), False),
        ((200, JSON, b'{"error":{}}', ""), False),
        ((429, JSON, b'{"result":{}}', ""), False),
    ],
)
async def test_replies_are_counted(reply: Reply, good: bool, mock_clock: MockClock) -> None:
    asked = []

    def answer(message: Any) -> Reply:
        asked.append(message)
        if len(asked) == 5:  # only then the time is over, however slow the machine is
            mock_clock.jump(1)
        return reply

    async with serving(answer) as url:
        run = await load_http(url, {"X-Percent": "100%"}, calls_of(CALL), 2, 1)
    assert run.in_flight == 2
    assert len(run.times) == len(asked) >= 5
    assert run.failed == (0 if good else len(run.times))


async def test_loads_of_what_is_no_server(mock_clock: MockClock) -> None:
    async def babble(stream: trio.SocketStream) -> None:
        mock_clock.jump(1)
        await stream.send_all(b"hello\r\n\r\n")
        await stream.aclose()

    calls = calls_of(CALL)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, babble, 0)
        port = listeners[0].socket.getsockname()[1]
        run = await load_http(f"http://127.0.0.1:{port}", {}, calls, 1, 1)
        nursery.cancel_scope.cancel()
    assert run.failed == len(run.times) > 0
    with pytest.raises(Failure, match="cannot be reached"):
        await load_http(f"http://127.0.0.1:{port}", {}, calls, 1, 1)
