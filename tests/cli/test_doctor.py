"""`trio-mcp doctor`: what it says of servers with one fault each, and of those with none."""

import json

import pytest
import trio

from tests.cli.support import CommandLine, faulty
from tests.support.processes import EXAMPLES
from trio_mcp import Registry, serve_http
from trio_mcp.cli.doctor.chart import Chart
from trio_mcp.cli.doctor.visits import Times, examine_process, examine_url
from trio_mcp.cli.probing.base import Waits
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.transports.process import Patience, ProcessOptions

SHORT_WAITS = Waits(answer=0.4, reaction=0.15)
TIMES = {
    "asks": Times(waits=Waits(reaction=0.15)),
    "changes-ids": Times(start=5.0, waits=SHORT_WAITS),
    "ignores-signals": Times(exit=0.2),
    "mute": Times(start=0.2, probe=0.1, waits=SHORT_WAITS),
    "no-exit": Times(exit=0.2),
    "silent-on-bad-json": Times(waits=Waits(reaction=0.15)),
    "silent-on-ping": Times(waits=SHORT_WAITS),
    "slow-exit": Times(slow_exit=0.1),
    "slow-start": Times(notable_start=0.25),
}
"""Where the usual times would make a test long, or a fault invisible."""
OPTIONS = ProcessOptions(patience=Patience(close=0.1, terminate=0.1))


async def examine(fault: str) -> Chart:
    return await examine_process(faulty(fault), OPTIONS, fault, TIMES.get(fault, Times()))


def found(chart: Chart) -> set[tuple[str, str]]:
    return {(each.severity, each.code) for each in chart.findings}


@pytest.mark.parametrize(
    ("fault", "modern", "legacy"),
    [
        ("none", "2026-07-28", "2025-11-25"),
        ("legacy-only", None, "2025-11-25"),
        ("modern-only", "2026-07-28", None),
    ],
)
async def test_of_a_good_server_nothing_bad_is_said(
    fault: str, modern: str | None, legacy: str | None
) -> None:
    chart = await examine(fault)
    assert found(chart) == set()
    assert (chart.modern, chart.legacy) == (modern, legacy)
    assert chart.server is not None
    assert (chart.server.name, chart.server.version) == ("faulty", "1")
    assert chart.offers == {"tools": 2}
    assert chart.start_seconds is not None
    assert chart.exit_seconds is not None


@pytest.mark.parametrize(
    ("fault", "severity", "code", "told"),
    [
        ("noise", "error", "stdout-noise", "'Server is ready!'"),
        ("crash", "error", "does-not-start", "RuntimeError: no database"),
        ("dies-at-discover", "error", "dies", "it exits at `server/discover`"),
        ("dies-of-bad-json", "error", "dies", "exited with status 1"),
        ("silent-on-bad-json", "note", "silent-on-bad-json", "not answered"),
        ("silent-on-ping", "error", "no-answer", "`ping`: it is silent"),
        ("ping", "error", "bad-result", "{'pong': 1}"),
        ("no-server-info", "error", "bad-handshake", "serverInfo needs name and version"),
        ("refuses-versions", "error", "version-negotiation", "is refused: -32602"),
        ("echoes-versions", "error", "version-negotiation", "answered with '1900-01-01'"),
        ("takes-any-version", "error", "no-error", "an unknown version"),
        ("no-versions-told", "warning", "wrong-error", "does not say in data"),
        ("takes-any-meta", "error", "no-error", "capabilities in `_meta`"),
        ("no-result-type", "error", "bad-result", "`tools/list` has no resultType"),
        ("no-hints", "error", "bad-result", "needs ttlMs and cacheScope"),
        ("wrong-code", "warning", "wrong-error", "an unknown method is answered with -32602"),
        ("takes-any-method", "error", "no-error", "an unknown method"),
        ("unknown-tool-error", "note", "unknown-tool", "with isError"),
        ("takes-any-tool", "error", "no-error", "a call of an unknown tool"),
        ("bad-list", "error", "bad-list", "has no list 'tools'"),
        ("failing-list", "error", "bad-list", "-32603 (Internal error)"),
        ("endless-list", "error", "endless-list", "`tools/list` has no last page"),
        ("ignored-cursor", "note", "ignored-cursor", "any cursor will do for tools/list"),
        ("undeclared", "warning", "undeclared", "the capability 'tools'"),
        ("changes-ids", "error", "stray-answer", "with the id '3'"),
        ("twice", "error", "stray-answer", "nobody has asked"),
        ("asks", "error", "asks-modern-client", "roots/list"),
        ("invalid-schema", "error", "invalid-schema", "tool 'echo': its inputSchema"),
        ("schema-of-no-object", "error", "invalid-schema", "must have the type 'object'"),
        ("no-schema", "error", "invalid-schema", "is no JSON object"),
        ("unknown-required", "warning", "unknown-required", "requires a"),
        ("doubtful-schema", "warning", "doubtful-schema", "https://example.com/a.json"),
        ("bad-header", "error", "bad-header", "x-mcp-header"),
        ("no-description", "warning", "no-description", "tools without a description: echo"),
        ("undescribed-arguments", "note", "undescribed-arguments", "echo.a"),
        ("tool-name", "warning", "tool-name", "'an echo, and more'"),
        ("duplicate", "warning", "duplicate", "2 tools are called 'echo'"),
        ("contradiction", "note", "contradiction", "only read, and to destroy"),
        ("slow-start", "note", "slow-start", "its first answer took 0."),
        ("slow-exit", "warning", "slow-exit", "s to exit after its stdin has ended"),
        (
            "no-exit",
            "warning",
            "no-exit",
            "0.2 s after its stdin has ended, it still runs; SIGTERM ends it",
        ),
        ("ignores-signals", "error", "ignores-signals", "after SIGTERM as well"),
        ("exit-status", "note", "exit-status", "exited with status 4"),
    ],
)
async def test_a_fault_is_found_and_named(fault: str, severity: str, code: str, told: str) -> None:
    chart = await examine(fault)
    telling = [each for each in chart.findings if told in each.message]
    assert {(each.severity, each.code) for each in telling} == {(severity, code)}
    assert all(each.way_out for each in telling)
    worse = {each for each in found(chart) if each[0] == "error"} - {(severity, code)}
    assert worse <= CONSEQUENCES.get(fault, set()), "and nothing else is wrong with it"


CONSEQUENCES = {"changes-ids": {("error", "no-answer")}}
"""What else is wrong because of a fault."""


async def test_a_server_that_never_answers_is_given_up() -> None:
    chart = await examine("mute")
    assert found(chart) == {("error", "no-revision")}


async def test_of_ours_there_is_nothing_to_complain_about() -> None:
    chart = await examine_process(
        [*faulty("none")[:1], str(EXAMPLES / "calculator.py")], ProcessOptions(), "ours", Times()
    )
    assert {severity for severity, _ in found(chart)} <= {"note"}
    assert (chart.modern, chart.legacy) == ("2026-07-28", "2025-11-25")


def test_what_people_see(cli: CommandLine) -> None:
    outcome = cli("doctor", "--", *faulty("dies-of-bad-json"))
    assert outcome.status == 1
    first, facts, *rest = outcome.out.splitlines()
    assert first == "faulty 1"
    assert facts.startswith("speaks modern 2026-07-28 and legacy 2025-11-25; starts in 0.")
    assert facts.endswith("; 2 tools")
    assert rest[0].startswith("✗ error    after a line that is no JSON")
    assert rest[0].endswith("it exited with status 1 [dies]")
    assert "the server must outlive it" in rest[1]
    assert "The end of its stderr:" in rest
    assert "JSONDecodeError" in outcome.out
    assert outcome.err == ""


def test_what_programs_see(cli: CommandLine) -> None:
    outcome = cli("doctor", "--json", "--", *faulty("no-description"))
    assert outcome.status == 0, "a warning is no error"
    told = outcome.json
    (finding,) = (each for each in told.pop("findings") if each["severity"] == "warning")
    assert finding == {
        "severity": "warning",
        "code": "no-description",
        "message": "tools without a description: echo",
        "wayOut": "describe it: that is all a model knows of it",
    }
    assert told.pop("startSeconds") >= 0
    assert told.pop("exitSeconds") >= 0
    assert told.pop("target").endswith("faulty.py no-description")
    assert told == {
        "server": {"name": "faulty", "version": "1"},
        "revisions": {"modern": "2026-07-28", "legacy": "2025-11-25"},
        "offers": {"tools": 2},
        "errors": 0,
        "warnings": 1,
        "stderr": "",
    }


def test_a_command_that_does_not_exist(cli: CommandLine) -> None:
    outcome = cli("doctor", "--", "no-such-program-anywhere")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith("no-such-program-anywhere cannot be started")


async def test_a_good_server_over_http() -> None:
    registry = Registry("web", version="1")

    @registry.tool
    def double(number: int) -> int:
        """Double.

        Args:
            number: What to double.
        """
        return 2 * number

    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_http, registry, "127.0.0.1", 0)
        chart = await examine_url(handle.url, HttpOptions(), Times())
        wrong = await examine_url(handle.url + "/not", HttpOptions(), Times())
        nursery.cancel_scope.cancel()
    assert found(chart) == set()
    assert (chart.modern, chart.legacy) == ("2026-07-28", "2025-11-25")
    assert chart.offers == {"tools": 1}
    assert found(wrong) == {("error", "no-revision")}


async def test_a_careless_server_over_http() -> None:
    """It answers whoever asks, with HTTP statuses of its own."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, careless, 0)
        port = listeners[0].socket.getsockname()[1]
        chart = await examine_url(f"http://127.0.0.1:{port}/mcp", HttpOptions(), Times())
        nursery.cancel_scope.cancel()
    assert {
        ("error", "no-origin-check"),
        ("error", "wrong-status"),
        ("error", "no-error"),
        ("note", "silent-on-bad-json"),
    } <= found(chart)
    said = [each.message for each in chart.findings]
    assert "a notification is answered with HTTP status 200, not 202" in said
    assert "requests of a foreign web page (Origin) are answered" in said


async def careless(stream: trio.SocketStream) -> None:
    """Answer each request on a connection with status 200 and the same result."""
    result = {
        "protocolVersion": "2025-11-25",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "careless", "version": "0"},
        "tools": [],
    }
    received = b""
    async for chunk in stream:
        received += chunk
        head, blank, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if not blank or len(body) < length:
            continue
        received = body[length:]
        try:
            id = json.loads(body[:length]).get("id")
        except ValueError:
            id = None
        answer = {"jsonrpc": "2.0", "id": id, "result": result}
        reply = b"" if id is None else json.dumps(answer).encode()
        await stream.send_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(reply), reply)
        )
