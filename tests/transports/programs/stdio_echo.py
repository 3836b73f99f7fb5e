"""Echo stdin to stdout through `open_stdio`, doing first what the arguments name.

Usage: stdio_echo.py REPORT [DEED...]

REPORT is the file to which the state of the descriptors before and after is written.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import trio

from trio_mcp.transports.stdio import open_stdio

LOUD = 1 << 18  # bytes, several times what a pipe holds


def state() -> dict[str, object]:
    return {
        "standard": [facts(fd) for fd in (0, 1)],
        "open": sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if is_open(fd)),
    }


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def facts(fd: int) -> list[object] | None:
    if not is_open(fd):
        return None
    status = os.fstat(fd)
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    return [status.st_dev, status.st_ino, flags, os.get_inheritable(fd)]


async def noise(stream: trio.abc.Stream) -> None:
    """Print in every way; none of it may reach stdout."""
    print("printed")
    os.write(1, b"written\n")
    subprocess.run(["echo", "from a child"], check=True)
    await trio.run_process(["echo", "from a Trio child"])
    print("left in the buffer", end="")


async def read(stream: trio.abc.Stream) -> None:
    """Read stdin as user code would; a child does, too."""
    child = subprocess.run(["cat"], capture_output=False, check=True, stdout=subprocess.PIPE)
    print(json.dumps([sys.stdin.read(), child.stdout.decode()]), file=sys.stderr)


async def loud(stream: trio.abc.Stream) -> None:
    """Write much to stdout and stderr at the same time."""

    def to_stderr() -> None:
        rest = b"e" * LOUD
        while rest:
            rest = rest[os.write(2, rest) :]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, to_stderr)
        await stream.send_all(b"o" * LOUD)


async def fail(stream: trio.abc.Stream) -> None:
    raise LookupError("meant to happen")


async def cancel(stream: trio.abc.Stream) -> None:
    import trio.testing  # which imports all of pytest: as much as all that other deeds import

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.receive_some)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    raise LookupError("stop here")


DEEDS = {deed.__name__: deed for deed in (noise, read, loud, fail, cancel)}


async def main(*arguments: str) -> None:
    report, *deeds = arguments
    states = [state()]
    with contextlib.suppress(LookupError, trio.BrokenResourceError):
        async with open_stdio() as stream:
            for deed in deeds:
                await DEEDS[deed](stream)
            async for chunk in stream:
                await stream.send_all(chunk)
    states.append(state())
    Path(report).write_text(json.dumps(states))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
