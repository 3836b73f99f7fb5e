"""What a server behind ours calls itself, its tools and its errors forges no line of our log."""

import logging
import sys
from pathlib import Path

import pytest
import trio

from trio_mcp import McpError, connect
from trio_mcp.compose import open_proxy

FORGED = "x\n2026-01-01 ERROR trio_mcp: all is lost\x1b[2J\x9b2J\u202e\r"
SERVER = """
import json, sys

FORGED = %r
RESULTS = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "resources": {}},
        "_meta": {
            "io.modelcontextprotocol/serverInfo": {"name": FORGED, "version": FORGED},
        },
    },
    "tools/list": {
        "tools": [
            {"name": FORGED, "inputSchema": {"type": "object"}},
            {"name": FORGED + "?", "inputSchema": FORGED},
        ],
        "ttlMs": 0,
        "cacheScope": "private",
    },
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] in RESULTS:
            answer["result"] = {"resultType": "complete", **RESULTS[request["method"]]}
        else:
            answer["error"] = {"code": -32000, "message": FORGED}
        print(json.dumps(answer), flush=True)
"""


@pytest.mark.requirement("B11")
async def test_no_line_of_the_log_is_the_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "forger.py"
    program.write_text(SERVER % FORGED)
    caplog.set_level(logging.DEBUG, logger="trio_mcp")
    with trio.fail_after(120):
        async with open_proxy([sys.executable, str(program)]) as registry:
            assert registry.name == FORGED
            async with connect(registry) as client:
                assert (await client.call_tool(FORGED)).text == "done"
                with pytest.raises(McpError) as refused:
                    await client.read_resource(f"x:{FORGED}")
                assert refused.value.message == FORGED
    said = [record.getMessage() for record in caplog.records if record.name.startswith("trio_mcp")]
    about = [message for message in said if "all is lost" in message]
    assert len(about) >= 4, "its lists, a call, a read"
    assert [message for message in said if not message.isprintable()] == []
