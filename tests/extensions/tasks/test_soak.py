"""Thousands of tasks in a file, whose processes are killed at random: none lost, none twice.

TASKS=100000 python -m pytest -n0 -s -m long tests/extensions/tasks/test_soak.py
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from subprocess import PIPE

import pytest
import trio

from tests.extensions.tasks.programs.working import make, working
from tests.support.processes import ENVIRONMENT, python
from trio_mcp.extensions.tasks import TasksClient

pytestmark = [pytest.mark.requirement("K3"), pytest.mark.long]

PROGRAM = Path(__file__).parent / "programs" / "working.py"
COUNT = int(os.environ.get("TASKS", "2000"))
WORKERS = 2
AT_ONCE = 50
KILLS = max(6, COUNT // 600)
"""However quick the machine is: tasks are started only as workers are killed."""
TIME_LIMIT = 60 + COUNT / 20


class Killer:
    """Keeps some workers going, and kills one after the other."""

    def __init__(self, *arguments: str) -> None:
        self.command = python(PROGRAM, *arguments)
        self.killed = 0

    async def keep_one(self) -> None:
        """Start a worker, kill it a while after it is ready, and so on."""
        while True:
            process = await trio.lowlevel.open_process(self.command, stdout=PIPE, env=ENVIRONMENT)
            try:
                assert process.stdout is not None
                assert await process.stdout.receive_some() == b"ready\n"
                await trio.sleep(random.uniform(0.1, 1))
                self.killed += 1
            finally:
                with trio.CancelScope(shield=True):
                    process.send_signal(signal.SIGKILL)
                    await process.wait()


async def test_none_is_lost_and_none_runs_twice_at_once(tmp_path: Path) -> None:
    store, ours = str(tmp_path / "tasks.db"), TasksClient()
    registry = make(store, tmp_path, max_running=1, max_queued=COUNT)
    killer, began = Killer(store, str(tmp_path)), trio.current_time()
    ids: dict[int, str] = {}
    wrong: list[str] = []

    async def start(numbers: list[int]) -> None:
        for number in numbers:
            while killer.killed * COUNT < number * KILLS:
                await trio.sleep(0.02)
            ids[number] = (await ours.start("work", {"number": number})).id

    async def collect(numbers: list[int]) -> None:
        for number in numbers:
            while not (task := await ours.get(ids[number])).is_final:
                await trio.sleep(0.2)
            if task.final()["content"][0]["text"] != f"did {number}":
                wrong.append(f"{number}: {task}")

    with trio.fail_after(TIME_LIMIT):
        async with working(registry, ours), trio.open_nursery() as workers:
            for _ in range(WORKERS):
                workers.start_soon(killer.keep_one)
            for step in (start, collect):
                async with trio.open_nursery() as nursery:
                    for first in range(AT_ONCE):
                        nursery.start_soon(step, list(range(first, COUNT, AT_ONCE)))
                print(f"{step.__name__}: after {trio.current_time() - began:.0f} s")
            workers.cancel_scope.cancel()
    assert wrong == []
    assert len(set(ids.values())) == COUNT
    assert not (tmp_path / "twice").exists(), (tmp_path / "twice").read_text()
    print(f"{COUNT} tasks, {killer.killed} workers killed")
    assert killer.killed >= KILLS - 1
