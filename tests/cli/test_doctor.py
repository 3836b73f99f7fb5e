"""`trio-mcp doctor`: what it says of servers with one fault each, and of those with none."""

import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
import trio
import trio.testing

from tests.cli.in_process import FaultyInProcess, no_orphans, probe
from tests.cli.programs.faulty import Faulty
from tests.cli.support import CommandLine, faulty, requests
from tests.support.processes import EXAMPLES
from trio_mcp import Registry, serve_http
from trio_mcp.cli.doctor.examination import Times, examine_process, examine_starts, examine_url
from trio_mcp.cli.doctor.report import Report
from trio_mcp.cli.probing.base import Timeouts
from trio_mcp.cli.probing.stdio import StdioProbe
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import ResponseTooLarge
from trio_mcp.transports.process import ProcessOptions

LEFT_IN_TIME = {
    "ignores-signals": Times(exit=0.2),
    "leaves-a-child": Times(linger=0.1),
    "leaves-a-daemon": Times(linger=0.1),
    "no-exit": Times(exit=2.0),
}
"""Faults of a process, not of what it says; and the times that do not make a test long."""
OPTIONS = ProcessOptions(close_timeout=0.1, terminate_timeout=0.1)


async def examine(fault: str, name: str = "faulty") -> Report:
    """Examine a server in this process, as long as that may take: the clock jumps."""
    report, times, server = Report(fault), Times(), Faulty(fault, name)
    await examine_starts(report, partial(probe, server, times.timeouts), no_orphans, times)
    return report


async def examine_a_process(fault: str, name: str) -> Report:
    return await examine_process([*faulty(fault), name], OPTIONS, fault, LEFT_IN_TIME[fault])


def found(report: Report) -> set[tuple[str, str]]:
    return {(each.severity, each.code) for each in report.findings}


@pytest.mark.parametrize(
    ("fault", "modern", "legacy"),
    [
        ("none", "2026-07-28", "2025-11-25"),
        ("legacy-only", None, "2025-11-25"),
        ("modern-only", "2026-07-28", None),
    ],
)
async def test_of_a_good_server_nothing_bad_is_said(
    fault: str, modern: str | None, legacy: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    report = await examine(fault)
    assert found(report) == set()
    assert (report.modern, report.legacy) == (modern, legacy)
    assert report.server is not None
    assert (report.server.name, report.server.version) == ("faulty", "1")
    assert report.offers == {"tools": 2}
    assert report.start_seconds is not None
    assert report.exit_seconds is not None


@pytest.mark.parametrize(
    ("fault", "severity", "code", "told"),
    [
        ("noise", "error", "stdout-noise", "'Server is ready!'"),
        ("crash", "error", "does-not-start", "RuntimeError: no database"),
        ("one-of-ours", "error", "does-not-start", "exited with status 1: no database"),
        ("says-nothing", "error", "does-not-start", "it exited with status 0"),
        ("dies-at-discover", "error", "dies", "it exits at `server/discover`"),
        ("dies-of-bad-json", "error", "dies", "exited with status 1"),
        ("silent-on-bad-json", "note", "silent-on-bad-json", "not answered"),
        ("dies-of-notifications", "error", "dies", "after an unknown notification, it exited"),
        ("dies-of-large-requests", "error", "dies", "after a request of 200 kB, it exited"),
        ("refuses-large-requests", "warning", "large-request", "is refused: -32600 (Too long)"),
        ("silent-on-bad-request", "note", "silent-on-bad-request", "whose params are an array"),
        ("silent-on-discover", "warning", "no-answer", "with which modern clients begin: no ans"),
        ("empty-version", "note", "no-version", "the version in its serverInfo is empty"),
        ("no-version-of-jsonrpc", "error", "bad-message", 'it has no "jsonrpc": "2.0"'),
        ("not-a-number", "error", "bad-message", "JSON has no NaN"),
        ("byte-order-mark", "error", "bad-message", "begins with a byte order mark"),
        ("several-lines", "error", "bad-message", "it writes one message in several lines"),
        ("silent-on-ping", "error", "no-answer", "`ping`: no answer within 10 s"),
        ("ping", "error", "bad-result", '{"pong": 1}'),
        ("no-server-info", "error", "bad-handshake", "serverInfo needs name and version"),
        ("refuses-versions", "error", "version-negotiation", "is refused: -32602"),
        ("echoes-versions", "error", "version-negotiation", 'answered with "1900-01-01"'),
        ("takes-any-version", "error", "no-error", "an unknown version"),
        ("no-versions-told", "warning", "wrong-error", "does not say in data"),
        ("takes-any-meta", "error", "no-error", "capabilities in `_meta`"),
        ("no-result-type", "error", "bad-result", "`tools/list` has no resultType"),
        ("no-hints", "error", "bad-result", "needs ttlMs and cacheScope"),
        ("unknown-prompt", "warning", "wrong-error", "unknown prompt is answered with 0 (None)"),
        ("takes-any-prompt", "error", "no-error", "a request for an unknown prompt"),
        ("unknown-resource", "warning", "wrong-error", "an unknown resource is answered with"),
        ("nameless-call", "note", "wrong-error", "a call that names no tool is answered with"),
        ("bad-error", "error", "bad-error", 'is answered with the error "no"'),
        ("wrong-code", "warning", "wrong-error", "an unknown method is answered with -32602"),
        ("takes-any-method", "error", "no-error", "an unknown method"),
        ("unknown-tool-error", "note", "unknown-tool", "with isError"),
        ("takes-any-tool", "error", "no-error", "a call of an unknown tool"),
        ("bad-list", "error", "bad-list", "has no list 'tools'"),
        ("failing-list", "error", "bad-list", "-32603 (Internal error)"),
        ("endless-list", "error", "endless-list", "`tools/list` has no last page"),
        ("ignored-cursor", "note", "ignored-cursor", "any cursor will do for tools/list"),
        ("undeclared", "warning", "undeclared", "the capability 'tools'"),
        ("changes-ids", "error", "stray-answer", 'with the id "3"'),
        ("twice", "error", "repeated-answer", "it answers more than once, with the id 1"),
        ("asks", "error", "asks-modern-client", "roots/list"),
        ("invalid-schema", "error", "invalid-schema", "tool 'echo': its inputSchema"),
        ("schema-of-no-object", "error", "invalid-schema", "must have the type 'object'"),
        ("no-schema", "error", "bad-description", "a tool is not as the schema says"),
        ("unknown-required", "warning", "unknown-required", "requires a"),
        ("doubtful-schema", "warning", "doubtful-schema", "https://example.com/a.json"),
        ("bad-header", "error", "bad-header", "x-mcp-header"),
        ("no-description", "warning", "no-description", "tools without a description: echo"),
        ("undescribed-arguments", "note", "undescribed-arguments", "echo.a"),
        ("tool-name", "warning", "tool-name", "'an echo, and more'"),
        ("duplicate", "warning", "duplicate", "2 tools are called 'echo'"),
        ("contradiction", "note", "contradiction", "only read, and to destroy"),
        ("slow-start", "note", "slow-start", "its first answer took 3.0 s"),
        ("slow-exit", "warning", "slow-exit", "3.0 s to exit after its stdin has ended"),
        ("exit-status", "note", "exit-status", "exited with status 4"),
    ],
)
async def test_a_fault_is_found_and_named(
    fault: str, severity: str, code: str, told: str, autojump_clock: trio.testing.MockClock
) -> None:
    check_finding(await examine(fault), fault, severity, code, told)


@pytest.mark.parametrize(
    ("fault", "severity", "code", "told"),
    [
        (
            "leaves-a-child",
            "warning",
            "leaves-processes",
            "after its exit, what it started still runs: ",
        ),
        (
            "leaves-a-daemon",
            "warning",
            "leaves-processes",
            "after its exit, what it started still runs: ",
        ),
        (
            "no-exit",
            "warning",
            "no-exit",
            "2 s after its stdin has ended, it still runs; SIGTERM ends it",
        ),
        ("ignores-signals", "error", "ignores-signals", "after SIGTERM as well"),
    ],
)
async def test_a_fault_of_a_process_is_found_and_nothing_is_left_behind(
    fault: str, severity: str, code: str, told: str
) -> None:
    name = uuid.uuid4().hex
    report = await examine_a_process(fault, name)
    assert running(name) == []
    check_finding(report, fault, severity, code, told)


def check_finding(report: Report, fault: str, severity: str, code: str, told: str) -> None:
    telling = [each for each in report.findings if told in each.message]
    assert {(each.severity, each.code) for each in telling} == {(severity, code)}
    assert all(each.way_out for each in telling)
    assert not any(each.message.endswith((" ", ":")) for each in report.findings)
    worse = {each for each in found(report) if each[0] == "error"} - {(severity, code)}
    assert worse <= CONSEQUENCES.get(fault, set()), "and nothing else is wrong with it"


CONSEQUENCES = {
    "does-not-read": {("error", "asks-modern-client"), ("error", "no-answer")},
    "changes-ids": {("error", "no-answer")},
    "bad-error": {("error", "wrong-error")},
    "several-lines": {("error", "no-revision")},
}
"""What else is wrong because of a fault."""


async def test_a_handshake_that_says_nothing_names_no_revision(
    autojump_clock: trio.testing.MockClock,
) -> None:
    report = await examine("empty-handshake")
    assert report.legacy is None
    assert report.modern is not None
    assert ("error", "bad-handshake") in found(report)


async def test_a_late_answer_is_no_stray_one(autojump_clock: trio.testing.MockClock) -> None:
    """It was asked for; it is just that nobody waits for it any longer."""
    report = await examine("late")
    assert "stray-answer" not in {each.code for each in report.findings}
    assert "`ping`: no answer within 10 s" in [each.message for each in report.findings]


async def test_another_line_at_each_start_is_one_finding(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And a message that is quoted in a line is none that is written in several."""
    (finding,) = (await examine("different-noise")).findings
    assert finding.code == "stdout-noise"


async def test_an_old_code_is_right_in_its_era_only(autojump_clock: trio.testing.MockClock) -> None:
    """-32002 is what legacy revisions have for an unknown resource: https://modelcontextprotocol.io
    /specification/2025-11-25/server/resources#error-handling.
    """
    report = await examine("old-unknown-resource")
    assert found(report) == {("warning", "wrong-error")}
    (finding,) = report.findings
    assert "an unknown resource is answered with -32002 (None), not -32602" in finding.message
    assert report.only_in(finding) == "modern"
    assert report.as_json()["findings"][0]["onlyIn"] == "modern"


async def test_what_is_wrong_in_both_eras_is_said_once_and_of_none_of_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    report = await examine("unknown-prompt")
    (finding,) = report.findings
    assert report.only_in(finding) is None


async def test_a_start_that_is_slow_just_once_is_told_apart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    report = await examine("slow-first-start", str(tmp_path / "installed"))
    assert found(report) == {("note", "slow-first-start")}
    assert report.findings[0].message == (
        "its first answer took 3.0 s, and 0.0 s when it was started again"
    )


async def test_an_exit_counts_while_the_last_words_are_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A process that has gone is sent no signal: its id may be another one's."""
    process = FaultyInProcess(Faulty("none", "faulty"))

    async def exit_at_the_last_moment() -> None:
        await trio.sleep(4.9)
        process.returncode = 0
        await trio.sleep(0.2)
        process.exited.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(exit_at_the_last_moment)
        told = StdioProbe("modern", process, Timeouts())  # type: ignore[arg-type]
        assert await told.close_stdin(5.0) == pytest.approx(5.1)


async def test_nothing_is_left_behind_by_an_examination_that_is_cancelled() -> None:
    name = uuid.uuid4().hex
    async with trio.open_nursery() as nursery:
        command = [*faulty("leaves-a-daemon"), name]
        nursery.start_soon(examine_process, command, OPTIONS, "it", Times(linger=30.0))
        while not [each for each in running(name) if "sleep(60)" in each]:
            await trio.sleep(0)
        nursery.cancel_scope.cancel()
    assert running(name) == []


def running(name: str) -> list[str]:
    """The processes that run with a name in their command line."""
    command = ["ps", "-A", "-ww", "-o", "stat=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if name in line and line[0] != "Z"]


async def test_a_server_that_never_answers_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    report = await examine("mute")
    assert found(report) == {("error", "no-revision")}


async def test_a_server_that_asks_and_does_not_read_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with trio.fail_after(300):
        report = await examine("does-not-read")
    check_finding(
        report, "does-not-read", "error", "does-not-read", "does not read what it is sent"
    )


@pytest.mark.long
async def test_of_ours_there_is_nothing_to_complain_about() -> None:
    command = [*faulty("none")[:1], str(EXAMPLES / "calculator.py")]
    patient = Times(start=300.0, again=300.0, exit=300.0, slow_start=300.0, slow_exit=300.0)
    report = await examine_process(command, ProcessOptions(), "ours", patient)
    assert {severity for severity, _ in found(report)} <= {"note"}
    assert (report.modern, report.legacy) == ("2026-07-28", "2025-11-25")


def test_what_people_see(cli: CommandLine) -> None:
    outcome = cli("doctor", "--", *faulty("dies-of-bad-json"))
    assert outcome.status == 1
    first, facts, *rest = outcome.out.splitlines()
    assert first == "faulty 1"
    assert facts.startswith("speaks modern 2026-07-28 and legacy 2025-11-25; starts in ")
    assert facts.endswith("; 2 tools")
    assert rest[0].startswith("✗ error    after a line that is not JSON")
    assert rest[0].endswith("it exited with status 1 [dies]")
    assert "the server must outlive it" in rest[1]
    assert "The end of its stderr:" in rest
    assert "JSONDecodeError" in outcome.out
    assert outcome.err == ""


def test_what_programs_see(cli: CommandLine) -> None:
    outcome = cli("doctor", "--json", "--", *faulty("no-description"))
    assert outcome.status == 0, "a warning is not an error"
    told = outcome.json
    (finding,) = (each for each in told.pop("findings") if each["severity"] == "warning")
    assert finding == {
        "severity": "warning",
        "code": "no-description",
        "message": "tools without a description: echo",
        "onlyIn": None,
        "wayOut": "describe it: that is all a model knows of it",
    }
    assert told.pop("startSeconds") >= 0
    assert told.pop("exitSeconds") >= 0
    assert told.pop("target").endswith("faulty.py no-description")
    assert told == {
        "server": {"name": "faulty", "version": "1"},
        "revisions": {"modern": "2026-07-28", "legacy": "2025-11-25"},
        "offers": {"tools": 2},
        "chains": [],
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
        report = await examine_url(handle.url, HttpOptions(), Times())
        wrong = await examine_url(handle.url + "/not", HttpOptions(), Times())
        nursery.cancel_scope.cancel()
    assert found(report) == set()
    assert (report.modern, report.legacy) == ("2026-07-28", "2025-11-25")
    assert report.offers == {"tools": 1}
    assert found(wrong) == {("error", "no-revision")}


async def test_a_careless_server_over_http() -> None:
    """It answers whoever asks, with HTTP statuses of its own."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, careless, 0)
        port = listeners[0].socket.getsockname()[1]
        report = await examine_url(f"http://127.0.0.1:{port}/mcp", HttpOptions(), Times())
        nursery.cancel_scope.cancel()
    assert {
        ("error", "no-origin-check"),
        ("error", "wrong-status"),
        ("error", "no-error"),
        ("note", "silent-on-bad-json"),
    } <= found(report)
    said = [each.message for each in report.findings]
    assert "a notification is answered with HTTP status 200, not 202" in said
    assert "requests of a foreign web page (Origin) are answered" in said


async def test_a_server_over_http_that_does_not_know_the_status_of_a_lost_session() -> None:
    """Clients begin a new session at 404, and at nothing else."""
    sent: list[bytes] = []

    async def lost(stream: trio.SocketStream) -> None:
        async for head, request in requests(stream):
            sent.append(head)
            refused = b"mcp-session-id: trio-mcp" in head.lower()
            result: object = {}
            if request.get("method") == "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "serverInfo": {"name": "lost", "version": "1"},
                }
            answer = {"jsonrpc": "2.0", "id": request.get("id"), "result": result}
            if refused or request.get("method") == "server/discover":
                answer = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "No"}, "id": ""}
            status = b"400 Bad Request" if refused else b"200 OK"
            body = json.dumps(answer).encode()
            await stream.send_all(
                b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nMcp-Session-Id: one\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (status, len(body), body)
            )

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, lost, 0)
        port = listeners[0].socket.getsockname()[1]
        report = await examine_url(f"http://127.0.0.1:{port}/mcp", HttpOptions(), Times())
        nursery.cancel_scope.cancel()
    (finding,) = (each for each in report.findings if each.code == "unknown-session")
    assert finding.severity == "warning"
    assert finding.message.endswith("is answered with HTTP status 400, not 404")
    agreed = [head for head in sent if b"protocol-version: 2025-06-18" in head.lower()]
    assert agreed, "requests say which version was agreed on, as a strict server wants them to"


async def careless(stream: trio.SocketStream) -> None:
    """Answer each request on a connection with status 200 and the same result."""
    result = {
        "protocolVersion": "2025-11-25",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "careless", "version": "0"},
        "tools": [],
    }
    async for _, request in requests(stream):
        id = request.get("id")
        answer = {"jsonrpc": "2.0", "id": id, "result": result}
        reply = b"" if id is None else json.dumps(answer).encode()
        await stream.send_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(reply), reply)
        )


class _Endless(httpx2.AsyncByteStream):
    """An event that does not end."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: "
        while True:
            await trio.lowlevel.checkpoint()
            yield b"x" * 1_000_000


async def test_an_event_without_end_is_told_as_what_it_is() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=_Endless())

    way = HttpOptions(
        client_factory=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    )
    with pytest.raises(ResponseTooLarge, match="answered with more than"):
        await examine_url("http://127.0.0.1:1/mcp", way, Times())
