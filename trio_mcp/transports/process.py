"""A server process: started, watched, and never left behind; its pipes carry bytes or messages.

The process and all its children are a group, which is ended as a whole: a session of their own, or
on Windows a job. Leaving the block ends it: its input is closed and it has some time to go; then
SIGTERM (on Windows, Ctrl-Break) and some more time; then SIGKILL (the end of the job). It is always
reaped. All of that is shielded from cancellation and bounded in time.

Once the process has gone, by whatever way, its children are killed at once and never later: its
id is free then, and some day it is the id of another user's process.
"""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args

import trio
from attrs import Attribute, field, frozen, validators

from trio_mcp.background import background_nursery
from trio_mcp.checks import is_a, names_only
from trio_mcp.errors import (
    CannotStart,
    ClientError,
    OutputClosed,
    PipeClosed,
    ResponseTooLarge,
    ServerExited,
    WriteFailed,
)
from trio_mcp.peer.lines import IO_ERRORS, StreamLines
from trio_mcp.public import public_in
from trio_mcp.system import processes as system_processes
from trio_mcp.system.capabilities import POLLS
from trio_mcp.system.processes import ProcessGroup, living
from trio_mcp.transports.observe import Broadcast
from trio_mcp.transports.stdio.readers import PolledReader
from trio_mcp.wire.bounds import AT_LEAST_ZERO
from trio_mcp.wire.framing import Frame, Oversized
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.safe_repr import safe_repr

StderrMode = Literal["capture", "forward", "ignore"]

_TAIL_BYTES: Final = 16 * 1024
_CHUNK_BYTES: Final = 65536
_EXIT_TIMEOUT: Final = 0.5
"""Seconds in which a process that closed its pipes may still exit, to tell the two apart."""
_AFTER_EXIT: Final = 0.2
"""Seconds that output which a dead process left behind is still read."""

SAFE_ENVIRONMENT: Final = system_processes.SAFE_ENVIRONMENT
"""Variables that a server inherits; everything else may hold a secret."""


_is_mode: Any = validators.in_(get_args(StderrMode))


def _are_variables(_: object, attribute: Attribute[Any], env: Any) -> None:
    """Refuse what is not an environment, without repeating a value that may be a secret."""
    if not isinstance(env, Mapping):
        found = type(env).__name__
        raise TypeError(f"{attribute.name} must be a dict of names and values, not {found}")
    for name, value in env.items():
        if not isinstance(name, str):
            raise TypeError(f"{attribute.name}: {safe_repr(name)} is not a name of a variable")
        if not isinstance(value, str):
            found = type(value).__name__
            raise TypeError(f"{attribute.name}: {name} must be a string, not {found}")


@public_in("trio_mcp.transports")
@frozen(kw_only=True)
class ProcessOptions:
    """How to start a server process, and how to end it.

    Args:
        env: Variables of its environment, in addition to `SAFE_ENVIRONMENT`.
        cwd: Its working directory; `None` for that of this process.
        stderr: What happens to its stderr: kept (its end), also passed on to ours as far as that
            takes it, or dropped.
        close_timeout: Seconds to wait after closing its input, before SIGTERM (on Windows,
            Ctrl-Break; where there is no console to send that, it is killed at once).
        terminate_timeout: Seconds to wait after SIGTERM, before SIGKILL.
        kill_timeout: Seconds to wait for its end after SIGKILL, in case the kernel still holds it.
        kill_children: Whether to kill processes that it started and that outlive it at once.

    Raises:
        ValueError: A timeout is less than 0, or there is no such way to deal with stderr.
        TypeError: Another option is of another type.

    Example:
        >>> ProcessOptions(stderr="ignore", close_timeout=0.5).terminate_timeout
        2.0
    """

    env: Mapping[str, str] = field(factory=dict, validator=_are_variables, repr=names_only)
    cwd: str | Path | None = field(default=None, validator=is_a(str, os.PathLike, NoneType))
    stderr: StderrMode = field(default="capture", validator=_is_mode)
    close_timeout: float = field(default=2.0, validator=AT_LEAST_ZERO)
    terminate_timeout: float = field(default=2.0, validator=AT_LEAST_ZERO)
    kill_timeout: float = field(default=5.0, validator=AT_LEAST_ZERO)
    kill_children: bool = field(default=True, validator=is_a(bool))


@public_in("trio_mcp.transports")
@frozen
class ProcessRunning:
    """The process runs."""

    pid: int


@public_in("trio_mcp.transports")
@frozen
class ProcessExited:
    """The process has exited, with a status, or by a signal if that is negative."""

    returncode: int


def _reader_of(stdout: Any) -> trio.abc.ReceiveStream:
    """Return what reads from a pipe: after a read that has emptied it, it waits before the next.

    Trio's own stream has a checkpoint before, and tries to read although there is nothing.
    """
    if not POLLS:
        reader: trio.abc.ReceiveStream = stdout
        return reader
    fd: int = stdout.fileno()
    return PolledReader(fd, partial(os.read, fd), stdout.close)


@public_in("trio_mcp.transports")
class StdioTransport(trio.abc.Stream):
    """The stdin and stdout of a server process. Made by `open_process`.

    It carries messages, one per line, with `send_message` and `receive_message`, and bytes like any
    stream, but knows nothing of the protocol. Use it in one of these ways, or give it to `connect`,
    but don't mix them: part of a message may have been read already. Receiving bytes ends (`b""`)
    when the process closes its stdout, or shortly after it has exited.
    """

    def __init__(
        self,
        process: trio.Process,
        group: ProcessGroup,
        options: ProcessOptions,
        limits: Limits | None = None,
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process needs pipes for stdin and stdout")
        self._process = process
        self._group = group
        if options.kill_children:
            living.add(group)
        self._stdin: trio.abc.SendStream = process.stdin
        self._stdout: trio.abc.ReceiveStream = _reader_of(process.stdout)
        self._options = options
        self._tail = bytearray()
        self._receiving = trio.CancelScope()
        self._stderr_ended = trio.Event()
        self._gone = False
        self._is_receiving = False
        self._max_bytes = (limits or Limits()).max_message_bytes
        self._lines = StreamLines(self, self._max_bytes)
        self._frames: deque[Frame] = deque()  # that were read, and not received yet
        self._turn = trio.Lock()  # to send a message
        self._is_cut = False  # a message was sent in part
        self._states: Broadcast[ProcessRunning | ProcessExited] = Broadcast()
        self.exited: Final = trio.Event()
        """Set once the process has exited, and what it left behind on stderr has been read."""

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status; negative for a signal; `None` while it runs."""
        return self._process.returncode

    def states(self) -> AsyncIterator[ProcessRunning | ProcessExited]:
        """Iterate over its states: `ProcessRunning` while it runs, and at last `ProcessExited`."""
        if self._process.returncode is not None:
            return self._states.listen(ProcessExited(self._process.returncode))
        return self._states.listen(ProcessRunning(self.pid))

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr (unless that is ignored)."""
        return self._tail.decode("utf-8", "replace")

    # -- messages -------------------------------------------------------------------------

    async def send_message(self, message: bytes) -> None:
        """Send a message to its stdin, once those of other tasks have been sent.

        Args:
            message: Any text without a line break, such as a JSON-RPC message.

        Raises:
            ValueError: The message has a line break in it, and would be two.
            ServerExited: The process has exited.
            WriteFailed: It has closed its stdin.

        If cancelled while the process does not read, part of the message may have been sent. No
        other message can be sent then (`WriteFailed`).
        """
        if b"\n" in message:
            raise ValueError("a message is one line, without a line break in it")
        async with self._turn:
            try:
                if self._is_cut:
                    raise trio.BrokenResourceError
                self._is_cut = True
                await self.send_all(message + b"\n")
                self._is_cut = False
            except IO_ERRORS:
                raise (await ending_of(self, WriteFailed))() from None

    async def receive_message(self) -> bytes:
        """Receive the next message from its stdout: a line that is not empty, without its end.

        Raises:
            ResponseTooLarge: It is longer than `Limits.max_message_bytes`, and is skipped.
            ServerExited: The process has exited, and there are no more messages.
            OutputClosed: It has closed its stdout.
            trio.BusyResourceError: Another task is receiving.

        If cancelled, no message is lost.
        """
        await trio.lowlevel.checkpoint()
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if isinstance(frame, bytes):
                    return frame
                if isinstance(frame, Oversized):
                    raise ResponseTooLarge(f"a message has more than {self._max_bytes} bytes")
            with suppress(*IO_ERRORS):
                self._frames += await self._lines.receive()
            if not self._frames:
                raise (await ending_of(self, OutputClosed))()

    # -- bytes ----------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes to its stdin; raises as `trio.abc.SendStream.send_all`."""
        await self._stdin.send_all(data)

    def send_nowait(self, data: bytes | bytearray) -> int:
        """Send as much as its stdin takes at once, and return how much that was."""
        if not POLLS:
            return 0
        try:
            return os.write(self._stdin.fileno(), data)  # type: ignore[attr-defined]
        except OSError:  # it is full, or broken: `send_all` will say so
            return 0

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until its stdin may take more."""
        await self._stdin.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes from its stdout; `b""` when there will be no more."""
        if self._is_receiving:  # whose scope must stay where it is
            raise trio.BusyResourceError("another task is receiving from this process")
        self._is_receiving = True
        try:
            # The scope is kept: when the process goes, a read that waits gets a deadline too.
            with trio.CancelScope() as self._receiving:
                if self._gone:
                    self._receiving.deadline = trio.current_time() + _AFTER_EXIT
                return bytes(await self._stdout.receive_some(max_bytes or _CHUNK_BYTES))
            return b""  # what is left behind by a dead process is not waited for any longer
        finally:
            self._is_receiving = False

    async def aclose(self) -> None:
        """Close its stdin. The process is ended when you leave the block of `open_process`."""
        await self._stdin.aclose()

    async def _watch(self) -> None:
        """Notice that it exits, although a child of its may hold its pipes open."""
        await self._process.wait()
        self._has_gone()
        with trio.move_on_after(_AFTER_EXIT):
            await self._stderr_ended.wait()
        self.exited.set()

    def _has_gone(self) -> None:
        """The process was reaped (or cannot be): see to its children, and to what it wrote."""
        if not self._gone:
            # First and once: it is reaped, so its id may soon be another's. There is no await
            # between the end of `wait` and the signal.
            self._gone = True
            living.discard(self._group)
            if self._options.kill_children:
                self._group.kill()
            self._receiving.deadline = trio.current_time() + _AFTER_EXIT
            if self._process.returncode is not None:
                self._states.announce(ProcessExited(self._process.returncode))
            self._states.end()

    async def _drain_stderr(self, stderr: trio.abc.ReceiveStream | None) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        if stderr is not None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for chunk in stderr:
                    self._tail += chunk
                    del self._tail[:-_TAIL_BYTES]
                    if self._options.stderr == "forward":
                        _forward(decoder.decode(chunk))
        self._stderr_ended.set()

    async def _end(self) -> None:
        options = self._options
        # Shielded, or who is cancelled would leave an orphan; each wait in it has a limit.
        with trio.CancelScope(shield=True):
            with trio.move_on_after(options.close_timeout):
                await self._stdin.aclose()
                await self._process.wait()
            if self._process.returncode is None and self._group.ask():
                with trio.move_on_after(options.terminate_timeout):
                    await self._process.wait()
            if self._process.returncode is None:
                self._group.kill()
                with trio.move_on_after(options.kill_timeout):
                    await self._process.wait()
            self._has_gone()
            await self._stdout.aclose()


def _forward(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # broken or full; closed
            sys.stderr.write(text)
            sys.stderr.flush()


async def ending_of(
    process: StdioTransport, pipe_closed: type[PipeClosed]
) -> Callable[[], ClientError]:
    """Return what makes the errors for a closed pipe, knowing whether its process has exited."""
    with trio.move_on_after(_EXIT_TIMEOUT):
        await process.exited.wait()
    if process.returncode is None:
        return partial(pipe_closed, process.stderr_tail)
    return partial(ServerExited, process.returncode, process.stderr_tail)


@public_in("trio_mcp.transports")
@asynccontextmanager
async def open_process(
    command: Sequence[str | Path],
    options: ProcessOptions | None = None,
    *,
    limits: Limits | None = None,
) -> AsyncIterator[StdioTransport]:
    """Run a server process for as long as the block lasts, without a protocol.

    Args:
        command: The program and its arguments.
        options: How to start and end it.
        limits: How long a received message may be (`max_message_bytes`).

    Yields:
        Its stdin and stdout, for messages or bytes.

    Raises:
        CannotStart: The program does not exist, or cannot be executed.
        TypeError: The command is not a list.

    If cancelled at any point, it ends the process and all its children within the time that
    `ProcessOptions` allows, and raises `trio.Cancelled`.

    Example:
        >>> async def ask(command: list[str]) -> bytes:
        ...     async with open_process(command) as process:
        ...         await process.send_message(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        ...         return await process.receive_message()
    """
    options = options or ProcessOptions()
    process, group = await _spawn(command, options)
    transport = StdioTransport(process, group, options, limits)
    try:
        # Cancelled at the end, because a child may hold stderr open forever.
        async with background_nursery(
            transport._watch, partial(transport._drain_stderr, process.stderr)
        ):
            try:
                yield transport
            finally:
                await transport._end()
    finally:
        if process.returncode is None:  # cancelled before the nursery was open
            await transport._end()
        if process.stderr is not None:
            with trio.CancelScope(shield=True):
                await process.stderr.aclose()
        group.release()


async def _spawn(
    command: Sequence[str | Path], options: ProcessOptions
) -> tuple[trio.Process, ProcessGroup]:
    if isinstance(command, str | bytes) or not isinstance(command, Sequence):
        raise TypeError(f"a command must be a list, such as ['ls', '-l'], not {command!r:.100}")
    if not command:
        raise CannotStart("there is no command to start")
    environment = {key: os.environ[key] for key in SAFE_ENVIRONMENT if key in os.environ}
    environment |= options.env
    settings = {
        **system_processes.start_options(),
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL if options.stderr == "ignore" else subprocess.PIPE,
        "env": environment,
        "cwd": options.cwd,
    }
    try:
        words = system_processes.runnable([str(word) for word in command], environment)
        process = await trio.lowlevel.open_process(words, **settings)
        # At once: a cancellation from here on has a group to end.
        return process, system_processes.group_of(process.pid)
    except (OSError, ValueError) as error:
        is_program = isinstance(error, OSError) and error.filename == command[0]
        why = getattr(error, "strerror", None) if is_program else None
        raise CannotStart(f"{command[0]} cannot be started: {why or error}") from error
