"""The example of the guide to revisions, as a process and in this one, in both eras."""

import pytest
import trio

from tests.support.processes import EXAMPLES, TIME_LIMIT, python
from trio_mcp import ResourceLink, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.client.negotiation import Era

PROGRAM = EXAMPLES / "revisions.py"
FOUND = {"modern": "2026-07-28", "legacy": "2025-11-25"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("where", ["a process", "in process"])
async def test_every_tool_answers_in_both_eras(era: Era, where: str) -> None:
    target = python(PROGRAM) if where == "a process" else load_registry(str(PROGRAM))
    with trio.fail_after(TIME_LIMIT):
        async with connect(target, era=era) as client:
            assert client.revision == FOUND[era]
            departure = await client.call_tool("departure", {"line": "S5"})
            assert departure.structured_content == {"to": "Graz", "platform": 4}
            (link,) = (await client.call_tool("timetable", {"line": "S5"})).content
            assert isinstance(link, ResourceLink)
            assert link.uri == "https://rail.example.com/S5.pdf"
            said = (await client.call_tool("caller")).text
            assert said == f"trio-mcp, in revision {FOUND[era]}"
    assert client.stderr() == ""
