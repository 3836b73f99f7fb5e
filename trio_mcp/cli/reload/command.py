"""Running a server as a child process, and a new one whenever its source changes.

On stdio the client's pipes stay here, and lines are passed on in both directions, so that the
client notices only changed lists: what it sends between two servers waits for the next one.
Requests that a broken server cannot answer get an error from here, over HTTP as well.
"""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import trio
from attrs import define

from trio_mcp.background import background_nursery
from trio_mcp.cli.failures import OK
from trio_mcp.cli.reload.client_state import ClientState
from trio_mcp.cli.reload.watching import PacedChanges, watching
from trio_mcp.cli.running import run_async
from trio_mcp.cli.target import split_target
from trio_mcp.loggers import logger_of
from trio_mcp.peer.lines import lines_of
from trio_mcp.system.lifeline import lifeline
from trio_mcp.system.parents import parent_exited
from trio_mcp.transports.stdio import open_stdio

logger = logger_of("trio_mcp.reload")

_BEYOND_GRACE: Final = 5.0
"""Seconds that a server has to exit after the grace period of its calls."""
_RESTARTS: Final = "The source has changed: the server starts again"
_MAX_WAITING: Final = 1000
"""Lines of the client that may wait for a server."""


Run = Callable[..., Awaitable[object]]
"""Runs a server, as `trio.run_process` does."""
Broken = Callable[[str], Awaitable[None]]
"""Answers in place of a server that has exited, until it is cancelled; gets the reason."""


def serve_reloading(
    command: Sequence[str],
    root: Path,
    *,
    broken: Broken | None,
    grace: float,
    outlive_parent: bool = False,
) -> int:
    """Run a server until the client disconnects or a signal arrives; return the exit status.

    On stdio, so does the end of the process that has started this one, unless it may be outlived.

    Over HTTP, `broken` answers in its place; it is `None` on stdio.
    """
    timeout = grace + _BEYOND_GRACE

    async def main() -> int:
        with lifeline(timeout) as tied:
            end: Any = partial(_end, timeout)
            run = partial(trio.run_process, list(command), check=False, deliver_cancel=end, **tied)
            async with watching(root) as changes:
                if broken is not None:
                    await _serve_over_http(run, PacedChanges(changes), broken)
                async with open_stdio() as client:
                    relay = RestartingRelay(client, run, PacedChanges(changes), timeout)
                    watch = [] if outlive_parent else [relay.end_with_parent]
                    async with background_nursery(*watch):
                        await relay.run()
        return OK

    return run_async(main)


async def _serve_over_http(run: Run, changes: PacedChanges, broken: Broken) -> NoReturn:
    while True:
        async with background_nursery() as nursery:
            process: trio.Process = await nursery.start(partial(run, stdin=None))
            nursery.start_soon(_answer_for, process, broken)
            await changes.receive()
        logger.info(_RESTARTS)


async def _answer_for(process: trio.Process, broken: Broken) -> None:
    await broken(_told_of_exit(await process.wait()))


def _told_of_exit(status: int | None) -> str:
    """Log that a server has exited, and return the same for its clients."""
    why = f"The server has exited with status {status}; its stderr says why"
    logger.error("%s; it starts again when its source changes", why)
    return why


@define(eq=False, slots=False)
class RestartingRelay:
    """Passes lines between a client and the current server."""

    _client: trio.abc.Stream
    _run: Run
    _changes: trio.abc.ReceiveChannel[object]
    _timeout: float

    def __attrs_post_init__(self) -> None:
        self._client_state = ClientState()
        self._to_server, self._from_client = trio.open_memory_channel[bytes](_MAX_WAITING)
        self._writing = trio.Lock()
        self._over = trio.Event()
        self._reading = trio.CancelScope()

    async def run(self) -> None:
        async with background_nursery(self._read_client):
            while not self._over.is_set():
                await self._run_server()

    async def _read_client(self) -> None:
        async with self._to_server:
            with self._reading:
                async for line in lines_of(self._client):
                    await self._to_server.send(line)

    async def end_with_parent(self) -> None:
        """Take the end of the process that has started this one for the end of the input."""
        await parent_exited()
        self._reading.cancel()

    async def _run_server(self) -> None:
        run = partial(self._run, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(run)
            on_its_own = await self._attend(process)
            nursery.cancel_scope.cancel()
        if self._over.is_set():
            return
        if on_its_own:
            await self._await_mending(process.returncode)
        else:
            await self._tell_client(self._client_state.unanswered("The server was restarted"))

    async def _attend(self, process: trio.Process) -> bool:
        assert process.stdin is not None
        assert process.stdout is not None
        exited = trio.Event()
        stream = trio.StapledStream(process.stdin, process.stdout)
        async with stream, trio.open_nursery() as reading:
            reading.start_soon(self._read_server, stream, exited)
            async with trio.open_nursery() as feeding:
                feeding.start_soon(self._feed, process.stdin)
                feeding.start_soon(_cancel_after, self._over.wait, feeding.cancel_scope)
                feeding.start_soon(_cancel_after, self._changes.receive, feeding.cancel_scope)
                feeding.start_soon(_cancel_after, exited.wait, feeding.cancel_scope)
            on_its_own = exited.is_set()
            if self._over.is_set():
                await process.stdin.aclose()
            elif not on_its_own:
                logger.info(_RESTARTS)
                process.terminate()
            with trio.move_on_after(self._timeout):
                await exited.wait()  # what it has still to say is passed on
            reading.cancel_scope.cancel()
        return on_its_own

    async def _feed(self, stdin: trio.abc.SendStream) -> None:
        try:
            for line in self._client_state.handshake():
                await stdin.send_all(line)
            async for line in self._from_client:
                self._client_state.heard(line)
                await stdin.send_all(line + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.sleep_forever()  # it is about to exit, and that is noticed elsewhere
        self._over.set()

    async def _read_server(self, server: trio.abc.Stream, exited: trio.Event) -> None:
        async for line in lines_of(server):
            passed = self._client_state.said(line)
            if passed is not None:
                await self._tell_client([passed + b"\n"])
            elif not self._client_state.repeating:  # the new server is ready
                await self._tell_client(self._client_state.changes())
        exited.set()

    async def _await_mending(self, status: int | None) -> None:
        """Refuse the client's requests until the broken server's source changes."""
        why = _told_of_exit(status)
        await self._tell_client(self._client_state.unanswered(why))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_after, self._changes.receive, nursery.cancel_scope)
            nursery.start_soon(_cancel_after, self._over.wait, nursery.cancel_scope)
            async for line in self._from_client:
                self._client_state.heard(line)
                await self._tell_client(self._client_state.unanswered(why))
            self._over.set()

    async def _tell_client(self, lines: Iterable[bytes]) -> None:
        text = b"".join(lines)
        if text:
            try:
                async with self._writing:
                    await self._client.send_all(text)
            except trio.BrokenResourceError:
                self._over.set()


async def _cancel_after(event: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    await event()
    scope.cancel()


async def _end(timeout: float, process: trio.Process) -> None:
    """Terminate a server, and kill it after so many seconds; cancelled once it has exited."""
    process.terminate()
    await trio.sleep(timeout)
    process.kill()


def source_of(target: str) -> Path:
    place, _ = split_target(target)
    return Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
