"""Running a server as a child, and a new child whenever its source changes.

Over HTTP that is all. On stdio the client's pipes stay here, and lines are passed on in both
directions, so that the client notices nothing but changed lists: what it says between two servers
waits for the next one, and what a broken server cannot answer is answered here.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from trio_mcp.background import background_task
from trio_mcp.cli.failures import OK
from trio_mcp.cli.lines import lines_of
from trio_mcp.cli.reload.client_state import ClientState
from trio_mcp.cli.reload.watching import watching
from trio_mcp.cli.running import run_async
from trio_mcp.cli.target import split_target
from trio_mcp.transports.stdio import open_stdio

logger = logging.getLogger("trio_mcp.reload")

_BEYOND_GRACE: Final = 5.0
"""Seconds that an old server has to end once the grace of its calls is over."""
_MOST_WAITING: Final = 1000
"""Lines of the client that wait for a server."""


def serve_reloading(command: Sequence[str], root: Path, *, over_http: bool, grace: float) -> int:
    """Run a server until the client disconnects, or a signal comes; return the exit status.

    Args:
        command: What starts the server.
        root: Where its source is.
        over_http: It needs no stdin and stdout.
        grace: Seconds that a server which has to go gives to its calls.
    """
    serve = _serve_http if over_http else _serve_stdio
    return run_async(partial(serve, list(command), root, grace + _BEYOND_GRACE))


async def _serve_http(command: list[str], root: Path, patience: float) -> int:
    async with watching(root) as changes:
        while True:
            end = partial(_end, patience)
            run = partial(trio.run_process, command, stdin=None, check=False, deliver_cancel=end)
            async with background_task(run):
                await changes.receive()
            logger.info("The source has changed: the server starts anew")


async def _serve_stdio(command: list[str], root: Path, patience: float) -> int:
    async with watching(root) as changes, open_stdio() as client:
        await Relay(client, command, changes, patience).run()
    return OK


class Relay:
    """Passes lines between a client and the server of the moment.

    Args:
        client: The client's stream.
        command: What starts a server.
        changes: What is received when its source changes.
        patience: Seconds that a server which has to go may take.
    """

    def __init__(
        self,
        client: trio.abc.Stream,
        command: Sequence[str],
        changes: trio.MemoryReceiveChannel[None],
        patience: float,
    ) -> None:
        self._client = client
        self._patience = patience
        self._command = list(command)
        self._changes = changes
        self._client_state = ClientState()
        self._to_server, self._from_client = trio.open_memory_channel[bytes](_MOST_WAITING)
        self._writing = trio.Lock()
        self._over = trio.Event()

    async def run(self) -> None:
        """Pass lines on until the client has gone."""
        async with background_task(self._read_client):
            while not self._over.is_set():
                await self._run_server()

    async def _read_client(self) -> None:
        async with self._to_server:
            async for line in lines_of(self._client):
                await self._to_server.send(line)

    async def _run_server(self) -> None:
        """Run one server: until the source changes, it exits, or the client has gone."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        end = partial(_end, self._patience)
        run = partial(trio.run_process, self._command, check=False, deliver_cancel=end, **pipes)
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
        """Pass lines on from and to a server; return whether it exited on its own."""
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
                logger.info("The source has changed: the server starts anew")
                process.terminate()
            with trio.move_on_after(self._patience):
                await exited.wait()  # what it has still to say is passed on
            reading.cancel_scope.cancel()
        return on_its_own

    async def _feed(self, stdin: trio.abc.SendStream) -> None:
        """Tell a server what it has to know, and then whatever the client says."""
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
        """Pass on what a server says, until it has gone."""
        async for line in lines_of(server):
            passed = self._client_state.said(line)
            if passed is not None:
                await self._tell_client([passed + b"\n"])
            elif not self._client_state.repeating:  # the new server is ready
                await self._tell_client(self._client_state.changes())
        exited.set()

    async def _await_mending(self, status: int | None) -> None:
        """The server is broken: refuse what the client wants until its source changes."""
        why = f"The server has exited with status {status}; its stderr says why"
        logger.error("%s; it starts anew when its source changes", why)
        await self._tell_client(self._client_state.unanswered(why))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_after, self._changes.receive, nursery.cancel_scope)
            nursery.start_soon(_cancel_after, self._over.wait, nursery.cancel_scope)
            async for line in self._from_client:
                self._client_state.heard(line)
                await self._tell_client(self._client_state.unanswered(why))
            self._over.set()

    async def _tell_client(self, lines: Iterable[bytes]) -> None:
        """Pass lines on to the client; one that reads no more has gone."""
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


async def _end(patience: float, process: trio.Process) -> None:
    """End a server, which has that many seconds to end well; cancelled once it has gone."""
    process.terminate()
    await trio.sleep(patience)
    process.kill()


def source_of(target: str) -> Path:
    """Find the directory in which a target's source is."""
    place, _ = split_target(target)
    return Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
