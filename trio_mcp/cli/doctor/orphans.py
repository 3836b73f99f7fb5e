"""The processes that a server started and that outlive it.

They are found by their process group, or by an environment variable that they inherit. At the end
of an examination they are killed.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import psutil
import trio
from attrs import evolve

from trio_mcp.system.processes import group_id
from trio_mcp.transports.process import ProcessOptions

_MARK: Final = "TRIO_MCP_DOCTOR"
_LOOK_EVERY: Final = 0.02
_TO_DIE: Final = 5.0

Find = Callable[[], list[psutil.Process]]


@asynccontextmanager
async def marked(options: ProcessOptions) -> AsyncIterator[tuple[ProcessOptions, Find]]:
    """Mark all processes that are started with some options, and kill them at the end of the block.

    It yields the options, and a function that finds those of the processes that run.
    """
    mark = f"{options.env.get(_MARK, '')}-{uuid.uuid4().hex}"

    def find() -> list[psutil.Process]:
        return _running(lambda process: process.environ().get(_MARK, "").startswith(mark))

    try:
        yield evolve(options, env={**options.env, _MARK: mark}), find
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(_TO_DIE):
            await _kill(find)


async def _kill(find: Find) -> None:
    unseen = 0
    while unseen < 2:  # one that is just being executed shows no environment for a moment
        found = find()
        unseen = 0 if found else unseen + 1
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        await trio.sleep(_LOOK_EVERY)  # only children of ours can be awaited


async def orphans_of(pid: int, find: Find, timeout: float) -> list[psutil.Process]:
    """Find what a server that has exited leaves behind, in its process group and elsewhere."""

    def both() -> list[psutil.Process]:
        return list({*find(), *_running(lambda process: group_id(process.pid) == pid)})

    with trio.move_on_after(timeout):
        while both():  # noqa: ASYNC110 - only children of ours can be awaited
            await trio.sleep(_LOOK_EVERY)
    return both()


def commands_of(processes: Sequence[psutil.Process]) -> list[str]:
    found = []
    for process in sorted(processes, key=lambda process: process.pid):
        with suppress(psutil.Error):
            found.append(" ".join(process.cmdline()) or process.name())
    return found


def _running(is_meant: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Find running processes, without zombies."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has exited meanwhile, or is not ours
            if process.status() != psutil.STATUS_ZOMBIE and is_meant(process):
                found.append(process)
    return found
