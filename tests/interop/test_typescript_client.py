"""The official TypeScript client judges our server over stdio."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_python_client import GALLERY, PIXEL, TOOLS
from tests.support.processes import ROOT, run

SCRIPT = ROOT / "tests" / "interop" / "typescript_client.mjs"

pytestmark = pytest.mark.needs("node")


@pytest.fixture
def script(npm: Path) -> Path:
    """The script, beside an installation of the client."""
    return Path(shutil.copy(SCRIPT, npm))


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def told(report: Any, name: str) -> str:
    """The text of a result that is an error."""
    result = report[name]["result"]
    assert result["isError"] is True
    (block,) = result["content"]
    return str(block["text"])


@pytest.mark.requirement("A8", "A9", "A12", "B1", "B2", "B4", "B5", "B6", "B7", "C4")
@pytest.mark.parametrize(
    ("mode", "revision"),
    [("legacy", "2025-11-25"), ("auto", "2026-07-28")],
)
async def test_what_the_client_sees(script: Path, mode: str, revision: str) -> None:
    done = await run(["node", str(script), mode, sys.executable, str(GALLERY)])
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)

    assert report["revision"] == revision
    assert report["server"] == {"name": "gallery", "title": "A gallery", "version": "1.2.3"}
    assert report["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
    assert report["instructions"] == "Look, but do not touch."
    assert report["ping"] == ({"result": {}} if mode == "legacy" else None)
    assert [tool["name"] for tool in report["tools"]] == TOOLS

    def content(name: str) -> Any:
        assert not report[name]["result"].get("isError")
        return report[name]["result"]["content"]

    assert content("text") == [text("grüß dich\n\u2028😀")]
    assert content("thread") == [text("x" * 300_000)]
    structured = {"x": 1.5, "y": 0, "labels": ["here", "ünïcode"]}
    assert report["structured"]["result"]["structuredContent"] == structured
    assert content("distance") == [text("5.0")]
    assert content("listed") == [text("[0,1,2]")]
    assert content("image") == [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]
    kinds = ["text", "image", "audio", "resource_link", "resource"]
    assert [block["type"] for block in content("mixed")] == kinds
    assert content("nothing") == []
    assert report["concurrent"] == [str(n) for n in range(50)]

    assert told(report, "refuse") == "Error: not today"
    assert "secret" not in told(report, "crash")
    assert told(report, "slow") == "Tool slow timed out after 0.05 s"
    assert told(report, "bad_arguments").startswith("Invalid arguments for tool text: ")
    closed = {"code": -32050, "message": "The gallery is closed", "data": {"opens": "tomorrow"}}
    assert report["protocol_error"]["error"] == closed
    assert report["unknown"]["error"]["code"] == -32602
    assert "timed out" in report["impatient"]["error"]["message"]
    assert report["cancelled"] is True
