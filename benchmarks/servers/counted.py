"""Runs another program and counts the opcodes of Python that its main thread goes through.

The arguments are the file for the counts, the program, and the program's own. At SIGUSR1, what was
counted since the last one is written to the file.
"""

import json
import os
import re
import runpy
import signal
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

_OWNERS = {"trio_mcp": "trio-mcp", "trio": "Trio", "outcome": "Trio"}
"""By the package, whose code it is."""
_PACKAGE = re.compile(rf"[/\\ ]({'|'.join(_OWNERS)})[/\\.]")
"""In the name of a file; what attrs generates says a module in its place."""

counts: Counter[CodeType] = Counter()


def trace(frame: FrameType, event: str, arg: Any) -> Any:
    if event == "opcode":
        counts[frame.f_code] += 1
    elif event == "call":
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
    return trace


def owner(code: CodeType) -> str:
    packages = _PACKAGE.findall(code.co_filename)  # a folder above may be called the same
    return _OWNERS[packages[-1]] if packages else "others"


def write(*_: object) -> None:
    found = dict(counts)  # what is called here is counted as well
    counts.clear()
    sums: Counter[str] = Counter()
    for code, count in found.items():
        sums[owner(code)] += count
    with open(f"{path}.new", "w") as file:
        json.dump(sums, file)
    os.rename(f"{path}.new", path)


if __name__ == "__main__":
    path, *sys.argv = sys.argv[1:]
    signal.signal(signal.SIGUSR1, write)
    sys.settrace(trace)
    runpy.run_path(sys.argv[0], run_name="__main__")
