"""The official TypeScript client judges our server over HTTP: both eras, with and without sessions."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interop.programs.http_shop import TOOLS, Shop
from tests.support.processes import ROOT, TIME_LIMIT, run
from trio_mcp import HttpPolicy, SessionOptions, serve_http

SCRIPT = ROOT / "tests" / "interop" / "typescript_http_client.mjs"

pytestmark = pytest.mark.needs("node")


@pytest.fixture
def script(npm: Path) -> Path:
    """The script, beside an installation of the client."""
    return Path(shutil.copy(SCRIPT, npm))


async def report_of(script: Path, mode: str, *, token: str | None = None, **sessions: Any) -> Any:
    """What the client makes of a shop."""
    policy = HttpPolicy(tokens={} if token is None else {token: "alice"})
    options = SessionOptions(retry=0.01, **sessions)
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_http, policy=policy, sessions=options)
            start = partial(serve, Shop().registry, "127.0.0.1", 0)
            handle: Any = await nursery.start(start)
            command = ["node", str(script), mode, handle.url]
            done = await run(command if token is None else [*command, token])
            nursery.cancel_scope.cancel()
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def text_of(report: Any, name: str) -> str:
    """The text of a result."""
    assert "result" in report[name], report[name]
    assert not report[name]["result"].get("isError")
    [block] = report[name]["result"]["content"]
    return str(block["text"])


def check_what_all_can_do(report: Any) -> None:
    assert report["server"] == {"name": "shop", "version": "1.0"}
    assert report["tools"] == TOOLS
    assert report["resource"]["result"]["contents"][0]["text"] == "some tëa"
    assert report["prompt"]["result"]["messages"][0]["content"]["text"] == "Greet Bob."
    assert text_of(report, "text") == "grüß dich\r\n\u2028😀"
    assert report["large"] == 300_000
    assert text_of(report, "progress") == "done"
    steps = [{"progress": n, "total": 3, "message": f"step {n}"} for n in (1, 2, 3)]
    assert report["progress"]["steps"] == steps
    assert report["logged"] == {"level": "warning", "data": {"said": "aloud"}, "logger": "shop"}
    failed = report["tool_error"]["result"]
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "Error: not today")
    assert report["crash"]["result"]["isError"] is True
    assert "secret" not in json.dumps(report)
    error = report["protocol_error"]["error"]
    assert (error["code"], error["data"]) == (-32050, {"opens": "tomorrow"})
    assert report["unknown"]["error"]["code"] == -32602
    arguments = {
        "region": "größe\nx: y",
        "count": 42,
        "sure": True,
        "where": {"tenant": " padded "},
    }
    assert report["mirror"]["result"]["structuredContent"] == arguments
    assert report["concurrent"] == [str(n) for n in range(30)]
    assert text_of(report, "pause") == "resumed"


def check_conversations(report: Any) -> None:
    assert text_of(report, "ask") == "Hello Bob"
    assert text_of(report, "ask_model") == "tiny"
    assert text_of(report, "list_roots") == '["file:///srv"]'
    assert report["cancelled"] is True
    assert report["changes"] == {"uri": "stock://tea", "tools": [*TOOLS, "more"]}


@pytest.mark.requirement("F1", "F3")
@pytest.mark.parametrize("stateless", [False, True])
async def test_a_modern_client(script: Path, stateless: bool) -> None:
    report = await report_of(script, "auto", stateless=stateless)
    assert (report["revision"], report["sessions"]) == ("2026-07-28", False)
    check_what_all_can_do(report)
    check_conversations(report)


@pytest.mark.requirement("F1", "F3", "F4")
async def test_a_legacy_client_with_a_session_and_a_token(script: Path) -> None:
    report = await report_of(script, "legacy", token="secret-token")
    assert (report["revision"], report["sessions"]) == ("2025-11-25", True)
    check_what_all_can_do({**report, "after": None})
    check_conversations(report)
    assert "result" in report["after"], "without its session, a request stands for itself"


@pytest.mark.requirement("F1")
async def test_a_legacy_client_without_a_session(script: Path) -> None:
    report = await report_of(script, "legacy", stateless=True)
    assert (report["revision"], report["sessions"]) == ("2025-11-25", False)
    check_what_all_can_do(report)
    assert report["ask"]["error"]["code"] == -32600
