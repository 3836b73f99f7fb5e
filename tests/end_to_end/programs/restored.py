"""Serve, then write to REPORT what the standard descriptors were before and are after.

Usage: restored.py REPORT
"""

import fcntl
import json
import os
import sys
from functools import partial
from pathlib import Path

import trio

from trio_mcp import Limits, Registry, serve

registry = Registry("restored", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Say it again."""
    print(text)
    return text


def facts() -> list[object]:
    status = [os.fstat(fd) for fd in (0, 1, 2)]
    flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (0, 1, 2)]
    descriptors = len(os.listdir("/proc/self/fd"))
    return [[(each.st_dev, each.st_ino) for each in status], flags, descriptors]


if __name__ == "__main__":
    before = json.loads(json.dumps(facts()))
    trio.run(partial(serve, registry, limits=Limits(eof_grace=60)))
    after = json.loads(json.dumps(facts()))
    Path(sys.argv[1]).write_text(json.dumps([before, after]))
    print("printed after serving")
