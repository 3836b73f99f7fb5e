"""The process that has started this one, and its end.

The system tells of it where it can: Linux by a descriptor of the process, macOS and the BSDs by a
queue of events, Windows by a handle. Where none of them exists, its id is looked at now and
then: what adopts this process has another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import trio

_FIRST: Final = 1
"""The id of the first process of a system, or of a container; what is outside of one is 0."""
_LOOK: Final = 5.0
"""Seconds between two looks, where nothing tells."""

if sys.platform == "win32":
    from trio_mcp.system.windows import parent_exited as parent_exited

else:

    async def parent_exited() -> None:
        """Wait until the process that has started this one has exited.

        Where that cannot be known, because it has exited before or is the first one of the system,
        this waits forever. If cancelled, nothing is left behind.
        """
        parent = os.getppid()
        if parent <= _FIRST:
            await trio.sleep_forever()
        with _told_of(parent) as told:
            if told is not None and os.getppid() == parent:  # or else it is another's id by now
                await trio.lowlevel.wait_readable(told)
            while os.getppid() == parent:  # noqa: ASYNC110
                await trio.sleep(_LOOK)

    @contextmanager
    def _told_of(pid: int) -> Iterator[int | None]:
        """Open a descriptor that can be read from when a process has exited; `None` without one."""
        with ExitStack() as stack:
            fd = None
            with suppress(OSError):  # an old kernel, or a sandbox
                fd = _open(pid, stack)
            yield fd

    if sys.platform == "linux":

        def _open(pid: int, closing: ExitStack) -> int:
            fd = os.pidfd_open(pid)
            closing.callback(os.close, fd)
            return fd

    else:
        import select

        def _open(pid: int, closing: ExitStack) -> int:
            queue = select.kqueue()
            closing.callback(queue.close)
            its_exit = (select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            queue.control([select.kevent(pid, *its_exit)], 0)
            return queue.fileno()
