"""What a server leaves behind: the processes that it started, when it has gone itself.

Elsewhere the children of a server are killed with it, so that nobody sees which would have stayed.
Here nothing is killed before it has been looked at. Children are found by their process group, and
those that left it by a variable in their environment, which they inherit (Linux only).

Whatever is found is ended in the end: an examination leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

from trio_mcp.transports.process import SAFE_ENVIRONMENT, CannotStart, ProcessOptions

_MARK: Final = "TRIO_MCP_DOCTOR"
_PROCESSES: Final = Path("/proc")
_LOOK_EVERY: Final = 0.02
_TO_DIE: Final = 5.0


@asynccontextmanager
async def marked(
    options: ProcessOptions,
) -> AsyncIterator[tuple[ProcessOptions, Callable[[], list[str]]]]:
    """Mark all processes that are started with some options; at the end of the block, end them.

    Yields:
        The options, and a function that says which of the processes run.
    """
    mark = uuid.uuid4().hex
    try:
        yield (
            evolve(options, env={**options.env, _MARK: mark}),
            lambda: _commands(_marked(mark)),
        )
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(_TO_DIE):
            await _end_marked(mark)


async def _end_marked(mark: str) -> None:
    """Kill all processes with a mark, and wait until they have gone."""
    unseen = 0
    while unseen < 2:  # one that is just being executed shows no environment for a moment
        pids = _marked(mark)
        unseen = 0 if pids else unseen + 1
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await trio.sleep(_LOOK_EVERY)  # nobody tells of the end of processes that are not ours


class Watched:
    """A server process, for a probe. Made by `open_watched`."""

    def __init__(self, process: trio.Process, mark: str) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process needs pipes for stdin and stdout")
        self._process = process
        self._stdin: trio.abc.SendStream = process.stdin
        self._stdout: trio.abc.ReceiveStream = process.stdout
        self._mark = mark
        self.exited: Final = trio.Event()

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it exited, if it has."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """Nobody reads what it writes to stderr."""
        return ""

    async def send_all(self, data: bytes) -> None:
        """Write to its stdin."""
        await self._stdin.send_all(data)

    async def receive_some(self) -> bytes:
        """Read from its stdout."""
        return bytes(await self._stdout.receive_some())

    async def aclose(self) -> None:
        """Close its stdin."""
        await self._stdin.aclose()

    async def wait_exited(self, patience: float) -> bool:
        """Wait until it has exited; return whether it has in time."""
        with trio.move_on_after(patience):
            await self.exited.wait()
        return self.exited.is_set()

    async def survivors(self, patience: float) -> list[str]:
        """Say what it leaves behind, once it has exited.

        Args:
            patience: Seconds that the others have to go.
        """
        with trio.move_on_after(patience):
            while self._others():  # noqa: ASYNC110 - nobody tells of processes that are not ours
                await trio.sleep(_LOOK_EVERY)
        return _commands(self._others())

    def _others(self) -> list[int]:
        group = {pid for pid in _all() if _group(pid) == self.pid}
        found = sorted((group | set(_marked(self._mark))) - {self.pid})
        if not found and not _PROCESSES.is_dir() and _is_group(self.pid):
            return [0]  # there is something, and no telling what
        return found

    async def _watch(self) -> None:
        await self._process.wait()
        self.exited.set()

    async def _end(self) -> None:
        with trio.CancelScope(shield=True):
            await self._stdin.aclose()
            await self._stdout.aclose()
            if self.returncode is None or self._others():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
            with trio.move_on_after(5.0):
                await self._process.wait()


@asynccontextmanager
async def open_watched(command: Sequence[str], options: ProcessOptions) -> AsyncIterator[Watched]:
    """Run a server for the length of a block; then it is killed, and what is left of its group.

    Raises:
        CannotStart: The command does not exist, or cannot be executed.
    """
    inherited = {key: os.environ[key] for key in SAFE_ENVIRONMENT if key in os.environ}
    mark = f"{options.env.get(_MARK, '')}-{uuid.uuid4().hex}"
    try:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**inherited, **options.env, _MARK: mark},
            cwd=options.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CannotStart(f"{command[0]} cannot be started: {error}") from error
    watched = Watched(process, mark)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watched._watch)
            try:
                yield watched
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            await watched._end()
            nursery.cancel_scope.cancel()
    finally:
        if process.returncode is None:  # cancelled before the nursery was open
            await watched._end()
    if failure is not None:
        raise failure


def _all() -> list[int]:
    if not _PROCESSES.is_dir():
        return []
    return [int(each.name) for each in _PROCESSES.iterdir() if each.name.isdecimal()]


def _group(pid: int) -> int | None:
    """The group of a process that runs; zombies have gone, but for their names."""
    with suppress(OSError, ValueError, IndexError):
        state, _, group, *_ = (_PROCESSES / f"{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else int(group)
    return None


def _is_group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _marked(mark: str) -> list[int]:
    """The processes with a mark that begins like this one."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for pid in _all():
        with suppress(OSError):
            variables = (_PROCESSES / f"{pid}/environ").read_bytes().split(b"\0")
            if pid != os.getpid() and any(each.startswith(wanted) for each in variables):
                found.append(pid)
    return found


def _commands(pids: Sequence[int]) -> list[str]:
    """The command lines of processes, each one once."""
    found: dict[str, None] = {}
    for pid in pids:
        words = b""
        with suppress(OSError):
            words = (_PROCESSES / f"{pid}/cmdline").read_bytes()
        found[words.replace(b"\0", b" ").decode("utf-8", "replace").strip() or "a process"] = None
    return list(found)
