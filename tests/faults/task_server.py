"""A server with tasks that hang when they run for the first time.

    python -m tests.faults.task_server PORT STORE FOLDER

It serves at a port of this machine, shares a store with others of its kind, and appends a line to a
file in the folder, named after the task, whenever that begins, and another one when that is cancelled.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from tests.faults.serving import run
from trio_mcp import Registry
from trio_mcp.extensions.tasks import TaskOptions, Tasks

LEASE = 3.0
"""Seconds, more than a process stands still on a busy machine."""

registry = Registry("jobs", extensions=[Tasks(lease=LEASE)])
_folder = Path(sys.argv[3])


async def _work(name: str) -> str:
    marks = _folder / name
    with marks.open("a") as file:
        file.write("begun\n")
    if marks.read_text().count("begun") > 1 or (_folder / "go").exists():
        return f"run {marks.read_text().count('begun')}"
    try:
        while not (_folder / "go").exists():
            await trio.sleep(0.02)
    except trio.Cancelled:
        with marks.open("a") as file:
            file.write("cancelled\n")
        raise
    return "run 1"


@registry.tool(task=TaskOptions(on_restart="run again"))
async def again(name: str) -> str:
    """Hang, once."""
    return await _work(name)


@registry.tool(task=TaskOptions(on_restart="fail"))
async def once(name: str) -> str:
    """Hang."""
    return await _work(name)


if __name__ == "__main__":
    run(registry)
