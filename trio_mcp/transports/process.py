"""A server process as a byte stream: started, watched, and never left behind.

The process leads a session of its own, so that it and all its children can be ended together.
Leaving the block ends it: its input is closed and it has some time to go; then SIGTERM and some
more time; then SIGKILL. It is always reaped. All of that is shielded from cancellation and
bounded in time.

Once the process has gone, by whatever way, its children are killed at once and never later: its
id is free then, and some day it is the id of somebody else's process.
"""

import codecs
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import trio
from attrs import field, frozen, validators

from trio_mcp.errors import CannotStart
from trio_mcp.public import public
from trio_mcp.transports.observe import Broadcast

StderrMode = Literal["capture", "forward", "ignore"]

_TAIL_BYTES: Final = 16 * 1024
_CHUNK_BYTES: Final = 65536
_AFTER_EXIT: Final = 0.2
"""Seconds that output which a dead process left behind is still read."""

SAFE_ENVIRONMENT: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
"""Variables that a server inherits; everything else may hold a secret."""


_at_least_zero: Any = validators.ge(0)


@public
@frozen(kw_only=True)
class ProcessOptions:
    """How a server process is started, and how it is ended.

    Args:
        env: Variables of its environment, in addition to `SAFE_ENVIRONMENT`.
        cwd: Its working directory; `None` for that of this process.
        stderr: What becomes of its stderr: kept (its end), passed on to ours as well, or dropped.
        close_timeout: Seconds that it has to go after its input was closed, before SIGTERM.
        terminate_timeout: Seconds that it has to go after SIGTERM, before SIGKILL.
        kill_timeout: Seconds that its end is waited for after SIGKILL. A process in the kernel's
            hands cannot be waited for any longer.
        kill_children: Whether processes that it started and that outlive it are killed at once.

    Raises:
        ValueError: A timeout is less than 0.

    Example:
        >>> ProcessOptions(stderr="ignore", close_timeout=0.5).terminate_timeout
        2.0
    """

    env: Mapping[str, str] = field(factory=dict)
    cwd: str | Path | None = None
    stderr: StderrMode = "capture"
    close_timeout: float = field(default=2.0, validator=_at_least_zero)
    terminate_timeout: float = field(default=2.0, validator=_at_least_zero)
    kill_timeout: float = field(default=5.0, validator=_at_least_zero)
    kill_children: bool = True


@public
@frozen
class ProcessRunning:
    """The process runs."""

    pid: int


@public
@frozen
class ProcessExited:
    """The process has exited: with a status, or, where that is negative, by a signal."""

    returncode: int


@public
class StdioTransport(trio.abc.Stream):
    """The stdin and stdout of a server process. Made by `open_process`.

    It carries bytes and knows nothing of the protocol. Receiving ends (`b""`) when the process
    closes its stdout, or shortly after it has exited.
    """

    def __init__(self, process: trio.Process, options: ProcessOptions) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process needs pipes for stdin and stdout")
        self._process = process
        self._stdin: trio.abc.SendStream = process.stdin
        self._stdout: trio.abc.ReceiveStream = process.stdout
        self._options = options
        self._tail = bytearray()
        self._receiving = trio.CancelScope()
        self._stderr_ended = trio.Event()
        self._gone = False
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

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes to its stdin; raises as `trio.abc.SendStream.send_all`."""
        await self._stdin.send_all(data)

    def send_nowait(self, data: bytes | bytearray) -> int:
        """Send as much as its stdin takes at once, and return how much that was."""
        if not isinstance(self._stdin, trio.lowlevel.FdStream):
            return 0
        try:
            return os.write(self._stdin.fileno(), data)
        except OSError:  # it is full, or broken: `send_all` will say so
            return 0

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until its stdin may take more."""
        await self._stdin.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes from its stdout; `b""` when there will be no more."""
        # The scope is kept: when the process goes, a read that waits already gets a deadline too.
        with trio.CancelScope() as self._receiving:
            if self._gone:
                self._receiving.deadline = trio.current_time() + _AFTER_EXIT
            return bytes(await self._stdout.receive_some(max_bytes or _CHUNK_BYTES))
        return b""  # what is left behind by a dead process is not waited for any longer

    async def aclose(self) -> None:
        """Close its stdin. What ends the process is leaving the block of `open_process`."""
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
            # First and once: it is reaped, so its id may soon be somebody else's. There is no await
            # between the end of `wait` and the signal.
            self._gone = True
            if self._options.kill_children:
                self._signal_group(signal.SIGKILL)
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
                        sys.stderr.write(decoder.decode(chunk))
                        sys.stderr.flush()
        self._stderr_ended.set()

    async def _end(self) -> None:
        options = self._options
        # Shielded, or who is cancelled would leave an orphan; each wait in it has a limit.
        with trio.CancelScope(shield=True):
            with trio.move_on_after(options.close_timeout):
                await self._stdin.aclose()
                await self._process.wait()
            if self._process.returncode is None:
                self._signal_group(signal.SIGTERM)
                with trio.move_on_after(options.terminate_timeout):
                    await self._process.wait()
            if self._process.returncode is None:
                self._signal_group(signal.SIGKILL)
                with trio.move_on_after(options.kill_timeout):
                    await self._process.wait()
            self._has_gone()
            await self._stdout.aclose()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


@public
@asynccontextmanager
async def open_process(
    command: Sequence[str | Path], options: ProcessOptions | None = None
) -> AsyncIterator[StdioTransport]:
    """Run a server process for as long as the block lasts.

    Args:
        command: The program and its arguments.
        options: How it is started and ended.

    Yields:
        Its stdin and stdout as one stream.

    Raises:
        CannotStart: The program does not exist, or cannot be executed.

    Cancelled at any point, it ends the process and all its children within the time that
    `ProcessOptions` allows, and raises `trio.Cancelled`.
    """
    options = options or ProcessOptions()
    process = await _spawn(command, options)
    transport = StdioTransport(process, options)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport._watch)
            nursery.start_soon(transport._drain_stderr, process.stderr)
            try:
                yield transport
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            await transport._end()
            nursery.cancel_scope.cancel()  # a child may hold stderr open for ever
    finally:
        if process.returncode is None:  # cancelled before the nursery was open
            await transport._end()
        if process.stderr is not None:
            with trio.CancelScope(shield=True):
                await process.stderr.aclose()
    if failure is not None:
        raise failure


async def _spawn(command: Sequence[str | Path], options: ProcessOptions) -> trio.Process:
    if not command:
        raise CannotStart("there is no command to start")
    environment = {key: os.environ[key] for key in SAFE_ENVIRONMENT if key in os.environ}
    try:
        return await trio.lowlevel.open_process(
            [str(each) for each in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if options.stderr == "ignore" else subprocess.PIPE,
            env={**environment, **options.env},
            cwd=options.cwd,
            start_new_session=True,  # a group of its own, which can be signalled as a whole
        )
    except (OSError, ValueError) as error:
        raise CannotStart(f"{command[0]} cannot be started: {error}") from error
