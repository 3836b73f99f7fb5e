"""The example of tasks: what it shows, in one process after the other."""

import re
from pathlib import Path

import pytest
import trio

from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import Handlers, connect
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.transports.process import ProcessOptions

pytestmark = pytest.mark.requirement("K2", "K3")


@pytest.mark.long
async def test_a_film_is_rendered_while_nobody_is_connected(tmp_path: Path) -> None:
    async def answer(params: object) -> dict[str, object]:
        return {"action": "accept", "content": {"value": "4K"}}

    environment = {
        "PYTHONPATH": str(ROOT),
        "TASKS": str(tmp_path / "tasks.db"),
        "SECONDS_PER_FRAME": "0.01",
    }
    ids: list[str] = []
    for _ in range(2):  # the second process finds what the first one has done
        tasks = TasksClient()
        connection = connect(
            python(EXAMPLES / "tasks.py"),
            extensions=[tasks],
            handlers=Handlers(elicitation=answer),
            process_options=ProcessOptions(env=environment),
        )
        with trio.fail_after(TIME_LIMIT):
            async with connection as client:
                if not ids:
                    ids.append((await tasks.start("render", {"film": "m", "frames": 3})).id)
                    given = {"film": "m", "folder": str(tmp_path)}
                    assert "archive" in await client.call_tool("archive", given, returns=str)
                assert (await tasks.result(ids[0])).text == "m.mkv, 3 frames, 4K"
    assert (tmp_path / "m.mkv").read_text() == "m"
    assert re.fullmatch(r"[0-9a-f]{32}", ids[0])
