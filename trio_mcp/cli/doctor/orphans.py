"""What a server leaves behind: the processes that it started, when it has gone itself.

They are found by their process group, and those that left it by a variable in their environment,
which they inherit. Whatever is found is ended in the end: an examination leaves nothing behind.
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
    """Mark all processes that are started with some options; at the end of the block, kill them.

    Yields:
        The options, and a function that finds those of the processes that run.
    """
    mark = f"{options.env.get(_MARK, '')}-{uuid.uuid4().hex}"

    def find() -> list[psutil.Process]:
        return _running(lambda each: each.environ().get(_MARK, "").startswith(mark))

    try:
        yield evolve(options, env={**options.env, _MARK: mark}), find
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(_TO_DIE):
            await _kill(find)


async def _kill(find: Find) -> None:
    """Kill processes until none is found any more, and wait until they have gone."""
    unseen = 0
    while unseen < 2:  # one that is just being executed shows no environment for a moment
        found = find()
        unseen = 0 if found else unseen + 1
        for each in found:
            with suppress(psutil.Error):
                each.kill()
        await trio.sleep(_LOOK_EVERY)  # nobody tells of the end of processes that are not ours


async def orphans_of(pid: int, find: Find, patience: float) -> list[psutil.Process]:
    """Find what a server that has exited leaves behind: in its process group, and otherwise.

    Args:
        pid: The process id that the server had, which is also its group's.
        find: Finds the processes that it started.
        patience: Seconds that they have to go as well.
    """

    def both() -> list[psutil.Process]:
        return list({*find(), *_running(lambda each: group_id(each.pid) == pid)})

    with trio.move_on_after(patience):
        while both():  # noqa: ASYNC110 - nobody tells of processes that are not ours
            await trio.sleep(_LOOK_EVERY)
    return both()


def commands_of(processes: Sequence[psutil.Process]) -> list[str]:
    """The command line of each process."""
    found = []
    for each in sorted(processes, key=lambda each: each.pid):
        with suppress(psutil.Error):
            found.append(" ".join(each.cmdline()) or each.name())
    return found


def _running(is_meant: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Find processes that run; zombies have gone, but for their names."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has gone meanwhile, or is not ours
            if each.status() != psutil.STATUS_ZOMBIE and is_meant(each):
                found.append(each)
    return found
