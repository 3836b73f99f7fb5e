"""What people see of results, and of errors: on a terminal and elsewhere."""

import io
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from trio_mcp import errors
from trio_mcp.cli.content import show_contents, show_result
from trio_mcp.cli.failures import Failure, explain, place_of, report
from trio_mcp.cli.logs import JsonFormatter, TextFormatter
from trio_mcp.cli.screen import Screen
from trio_mcp.wire.errors import McpError, ResourceNotFound


@pytest.fixture(params=["terminal", "pipe"])
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A screen of each kind; `NO_COLOR` keeps what is shown readable."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    if request.param == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
    else:
        monkeypatch.delenv("FORCE_COLOR", raising=False)
    return Screen()


def plain(shown: str) -> str:
    """What is shown, without its bold and dim."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": [text("a"), text("b")]}, "a\nb\n"),
        ({"content": []}, ""),
        ({}, ""),
        ({"content": [text("3")], "structuredContent": {"result": 3}}, "3\n"),
        ({"content": [text("a")], "structuredContent": {"content": "a"}}, "a\n"),
        ({"content": [text("[1]")], "structuredContent": [1]}, "[\n  1\n]\n"),
        ({"content": [text("[1]")], "structuredContent": {"result": [1]}}, "[\n  1\n]\n"),
        ({"content": [text('{"a":1}')], "structuredContent": {"a": {"b": 1}}}, None),
        ({"content": [text("no JSON")], "structuredContent": {"a": 1, "b": 2}}, None),
        (
            {"content": [{"type": "audio", "mimeType": "a/b", "data": "AAAA"}, text("b")]},
            "[audio: a/b, 3 bytes]\nb\n",
        ),
        (
            {"content": [{"type": "resource_link", "name": "n", "uri": "a:b", "description": "d"}]},
            "[n: a:b] (d)\n",
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "t"}}]}, "t\n"),
        (
            {
                "content": [
                    {"type": "resource", "resource": {"uri": "a:b", "blob": "AAA="}},
                    text(""),
                ]
            },
            "[a:b: bytes, 2 bytes]\n\n",
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b"}}]}, '{"uri": "a:b"}\n'),
        ({"content": [{"type": "hologram"}]}, '{\n  "type": "hologram"\n}\n'),
        ({"content": [{"type": "image"}]}, '{\n  "type": "image"\n}\n'),
        ({"content": ["?"]}, '"?"\n'),
    ],
    ids=str,
)
def test_results(
    result: dict[str, Any], shown: str | None, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    show_result(screen, result)
    out = plain(capsys.readouterr().out)
    if shown is not None:
        assert out == shown
    else:  # both say something of their own
        assert result["content"][0]["text"] in out
        assert '"a": ' in out


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "mimeType": "x/y", "data": "AP8="},
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "x/y", "blob": "AP8="}},
    ],
    ids=lambda block: block["type"],
)
def test_bytes_go_to_a_file_as_they_are(
    block: dict[str, Any], screen: Screen, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    show_result(screen, {"content": [block]})
    out = capsysbinary.readouterr().out
    assert (out == b"\x00\xff") == (not screen.is_terminal)
    assert (b"x/y, 2 bytes]" in out) == screen.is_terminal
    show_result(screen, {"content": [{**block, "data": "no base64"}]})
    assert b"bytes]" in capsysbinary.readouterr().out or block["type"] == "resource"


def test_a_list_is_easy_to_read_on_a_terminal(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    show_result(screen, {"content": [text('["a",{"b":1}]')]})
    shown = plain(capsys.readouterr().out)
    if screen.is_terminal:
        assert shown == '[\n  "a",\n  {\n    "b": 1\n  }\n]\n'
    else:
        assert shown == '["a",{"b":1}]\n', "and elsewhere it is as it came"


def test_uris_are_not_torn_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("NO_COLOR", "1"), ("COLUMNS", "80"), ("FORCE_COLOR", "1")):
        monkeypatch.setenv(name, value)
    uri = "https://example.com/a/rather/long/way/to/a/file"
    words = [f"word{number:02}" for number in range(50)]
    Screen().table(("URI", "Type", "What it is"), [(uri, "text/markdown", " ".join(words))])
    shown = plain(capsys.readouterr().out)
    assert uri in shown
    assert re.findall(r"word\d\d", shown) == words, "nor is anything cut off for them"


def test_a_terminal_shows_the_beginning_of_a_very_long_cell(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.table(("Tool", "What it does"), [("x" * 12_000, "y" * 12_000)])
    shown = plain(capsys.readouterr().out)
    expected = 10_000 if screen.is_terminal else 12_000
    assert (shown.count("x"), shown.count("y")) == (expected, expected)


def test_contents(screen: Screen, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    pieces = [
        {"uri": "a:1", "text": "one\n"},
        {"uri": "a:2", "blob": "AP8=", "mimeType": "x/y"},
        {"uri": "a:3", "blob": "no base64"},
    ]
    show_contents(screen, pieces)
    out = capsysbinary.readouterr().out
    assert out.startswith(b"one\n")
    assert (b"[a:2: x/y, 2 bytes]" in out) == screen.is_terminal
    assert (b"\x00\xff" in out) == (not screen.is_terminal)
    assert b"[a:3: bytes, " in out


def test_tables_and_json(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    screen.table(("A", "B"), [("one", "first\nsecond \x1b[31m"), ("two", "")])
    screen.json({"a": "\x1b"})
    shown = capsys.readouterr().out
    assert "\x1b[31m" not in shown
    out = plain(shown)
    assert ("first second ␛[31m" in out) == (not screen.is_terminal)
    assert '"a": "\\u001b"' in out


@pytest.mark.requirement("B11")
def test_words_of_a_server_look_like_no_line_of_ours(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.log("info", "done\ntrio-mcp: all is lost\x9b2J", "its\nlogger")
    lines = plain(capsys.readouterr().err).splitlines()
    assert lines == ["info its␊logger: done", "  trio-mcp: all is lost\ufffd2J"]


@pytest.mark.requirement("B11")
def test_no_log_obeys_what_it_quotes() -> None:
    try:
        raise ValueError("no\n2026-01-01 ERROR trio_mcp: all is lost\x9b2J")
    except ValueError:
        record = logging.LogRecord("a", 40, "a.py", 1, "It failed", None, sys.exc_info())
    record.tool = "x\n\x1b[2J\x9b2J"
    for formatter in (TextFormatter(), JsonFormatter()):
        lines = formatter.format(record).splitlines()
        assert "\x9b" not in "".join(lines)
        assert "\x1b" not in "".join(lines)
        assert [line for line in lines if line.startswith("2026")] == []


@pytest.mark.parametrize(("length", "is_styled"), [(10, True), (20_001, False)])
def test_what_takes_long_to_style_is_shown_without(
    length: int, is_styled: bool, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.json({"a": "\x9b" * length})
    screen.text("\x9b" * length, style="bold")
    screen.note("\x9b" * length, style="bold")
    shown = capsys.readouterr()
    assert plain(shown.out).count("\ufffd" if screen.is_terminal else "\x9b") == 2 * length
    assert plain(shown.err) == "\ufffd" * length + "\n"
    assert ("\x1b" in shown.out) == (is_styled and screen.is_terminal)
    assert ("\x1b" in shown.err) == (is_styled and screen.is_terminal)


def test_no_line_of_a_table_ends_with_blanks(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("one", "", "long"), ("two and more", "x", ""), ("日本", "y", "z")]
    screen.table(("A", "", "What"), rows)
    screen.table(("A", "", "What"), [("one", "", "long")], empty_columns=False)
    if not screen.is_terminal:
        assert capsys.readouterr().out.splitlines() == [
            "A                What",
            "one              long",
            "two and more  x",
            "日本          y  z",
            "A    What",
            "one  long",
        ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.OutputClosed("Error: no\nbye"), "the server closed its output: Error: no (--verb"),
        (
            errors.ServerExited(
                1,
                "npm notice\nnpm error code E404\nnpm error 404 Not Found - GET https://r.example/x\n"
                "npm error 404\nnpm error 404  'x@*' is not in this registry.\nnpm error\n"
                "npm error A complete log of this run can be found in: /home/me/.npm/_logs/1.log\n",
            ),
            "the server exited with status 1: Not Found - GET https://r.example/x (--verbose",
        ),
        (errors.WriteFailed(), "the server takes no more input (--verbose"),
        (errors.ServerExited(1, "trio-mcp: there is no x"), "there is no x"),
        (
            errors.ServerExited(-9, "a\nValueError: b\nc"),
            "the server exited with signal SIGKILL: V",
        ),
        (errors.ServerExited(1, "trio-mcp: no x\nSomeError: b"), "no x"),
        (
            errors.ServerExited(1, "  | KeyboardInterrupt\n  +-------------------\n"),
            "the server exited with status 1: KeyboardInterrupt (--verbose",
        ),
        (errors.CallTimeout("tool 'x'", 3.0), "tool 'x': no answer within 3 s (--timeout"),
        (errors.ProtocolError("it is odd"), "it is odd (`trio-mcp doctor` examines a server)"),
        (errors.Unauthorized(401, "no"), "no (--token-env VARIABLE passes a token)"),
        (errors.CannotReach("cannot reach x"), "cannot reach x; does it run"),
        (errors.InvalidArguments("tool 'x': no"), "tool 'x': no"),
        (McpError(-1, "no"), "the server answered with an error: no (-1)"),
        (McpError(-32021, "no roots"), "no roots (--root DIRECTORY names a directory"),
        (McpError(-32600, "No capability sampling"), "No capability sampling (this command line"),
        (McpError(-32021, "no", {"requiredCapabilities": {"x": {}}}), "no (this command line does"),
        (ResourceNotFound("a:b"), "there is no resource a:b (`trio-mcp resources`"),
        (OSError("no more disks"), "no more disks"),
        (RuntimeError(), "RuntimeError (set TRIO_MCP_DEBUG=1"),
    ],
    ids=str,
)
def test_errors_say_what_to_do(error: Exception, told: str) -> None:
    assert explain(error).startswith(told)


def test_where_an_error_comes_from(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\nfrom trio_mcp import Limits\nLimits(max_batch='x')\n")
    with pytest.raises(ValueError, match="max_batch") as caught:
        exec(compile(program.read_text(), str(program), "exec"), {})
    assert place_of(caught.value) == f"{program}, line 3"
    assert place_of(ValueError("never raised")) == ""


def test_a_long_message_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Failure("x" * 5000)) == 1
    assert len(capsys.readouterr().err) < 1100


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert not Screen().can_ask
    monkeypatch.setattr(sys, "stdin", None)
    assert not Screen().can_ask
