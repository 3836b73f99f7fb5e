"""A process hears of the end of the one that has started it, on each system."""

import os
import select
import subprocess
import sys

import pytest
import trio

from tests.support.processes import ENVIRONMENT
from trio_mcp.system.parents import parent_exited

CHILD = """
import trio
from trio_mcp.system.parents import parent_exited

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        print("ready", flush=True)

async def wait():
    await parent_exited()
    print("alone", flush=True)

import trio.testing
trio.run(main)
"""
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, *sys.argv[1:]])
time.sleep(60)
"""


@pytest.mark.requirement("S1")
def test_a_process_hears_when_its_parent_has_died() -> None:
    command = [sys.executable, "-c", PARENT, "-c", CHILD]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().split() == [b"ready"]
        parent.kill()
        assert parent.stdout.readline().split() == [b"alone"]


@pytest.mark.requirement("S1")
async def test_while_the_parent_lives_it_waits() -> None:
    before = _descriptors()
    with trio.move_on_after(0.01):
        await parent_exited()
        pytest.fail("our parent lives")
    assert _descriptors() == before


@pytest.mark.requirement("S1")
@pytest.mark.skipif(sys.platform == "win32", reason="its handles are always to be had")
async def test_where_nothing_tells_it_looks_now_and_then(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def refuse(*_: object) -> int:
        raise OSError("not here")

    for module, name in ((os, "pidfd_open"), (select, "kqueue")):
        monkeypatch.setattr(module, name, refuse, raising=False)
    ids = iter([7, 7, 7, 1, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(ids))
    await parent_exited()
    assert trio.current_time() > 0
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with trio.move_on_after(3600) as waiting:
        await parent_exited()
    assert waiting.cancelled_caught


def _descriptors() -> int:
    if sys.platform == "win32":  # where Wine has a folder of that name, with what is Wine's own
        return 0
    return len(os.listdir("/dev/fd"))
