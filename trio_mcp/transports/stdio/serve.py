"""Serving a registry on stdin and stdout: the process is the server."""

import os
import stat
from functools import partial

import trio

from trio_mcp.background import background_nursery
from trio_mcp.loggers import logger_of
from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.registry import check_registry
from trio_mcp.server.importing import check_import
from trio_mcp.server.lifecycle import Lifecycle, ServerHandle, stopping_at_signals
from trio_mcp.system.parents import parent_exited
from trio_mcp.transports.serving import leave_process
from trio_mcp.transports.stdio import open_stdio
from trio_mcp.transports.stdio.messages import said_without_waiting
from trio_mcp.transports.stream import serve_connection
from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp")


@public
async def serve(
    registry: Registry,
    *,
    limits: Limits | None = None,
    outlive_parent: bool = False,
    task_status: trio.TaskStatus[ServerHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a registry on stdin and stdout until the client disconnects.

    While it serves, stdout belongs to the protocol: whatever this process or its children print
    goes to stderr. SIGINT, SIGTERM and SIGHUP shut it down gracefully; a second one ends it at
    once. They are handled only in the main thread, and only if they are not ignored. It shuts down
    in the same way when the process that has started it ends: another process may hold the pipe
    open, so that the end of input does not tell.

    Args:
        registry: What to serve.
        limits: The bounds of messages and calls.
        outlive_parent: Whether to go on when the process that has started this one has ended, as a
            daemon does that reads from a pipe with a name.
        task_status: Reports that it reads requests, with a `ServerHandle`.

    Raises:
        RuntimeError: Stdin and stdout are being served already.
        Exception: Whatever the registry's lifespan raises.

    If cancelled, it cancels its calls, takes at most `Limits.flush_timeout` seconds to write what
    has been answered, and restores the descriptors. Trio cannot end a tool that ignores its
    cancellation. Once the client is gone, everything else is answered and the lifespan is closed,
    such a tool does not keep the process: it exits with status 70. So it does for a lifespan that
    ignores its cancellation.

    Example:
        >>> registry = Registry("empty")
        >>> if __name__ == "__main__":
        ...     trio.run(serve, registry)
    """
    check_trio("serve")
    lifecycle = Lifecycle()
    with stopping_at_signals(lifecycle):
        await serve_process(registry, limits, lifecycle, outlive_parent, task_status)


async def serve_process(
    registry: Registry,
    limits: Limits | None,
    lifecycle: Lifecycle,
    outlive_parent: bool,
    task_status: trio.TaskStatus[ServerHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Do what `serve` does, but for signals."""
    check_registry(registry)
    check_import()
    if os.isatty(0):  # a person has started it, and would wait for something to happen
        logger.warning(
            "Serving %s on stdin and stdout, where a host is to talk to it; to try it out, give it "
            "to: trio-mcp inspect",
            registry.name,
        )
    watch = [] if outlive_parent or _ends_by_itself(0) else [partial(_stop_with_parent, lifecycle)]
    async with (
        open_stdio() as stream,
        said_without_waiting(stdout_fd=1),
        background_nursery(*watch),
    ):
        await serve_connection(
            registry,
            stream,
            limits or Limits(),
            lifecycle,
            task_status,
            send_nowait=stream.send_stream.send_nowait,
            on_stuck=leave_process,
        )


def _ends_by_itself(fd: int) -> bool:
    """Whether input is not a pipe that some other process may hold open: a file, or nothing."""
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return True


async def _stop_with_parent(lifecycle: Lifecycle) -> None:
    await parent_exited()
    logger.warning("The process that has started this server has ended, so it stops")
    lifecycle.stop()
