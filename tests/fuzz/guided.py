"""Fuzz targets, led by the coverage of the package. Runs where atheris is installed.

    python -m tests.fuzz.guided

On stdin is a JSON array a line: a target, the file for what libFuzzer says, its options and folders.
The line comes back on stdout when that run is over. What is found is written where `-artifact_prefix`
says, and ends the run.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr

import atheris

# It names each module on stderr.
with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["trio_mcp"]):
    from tests.fuzz.judging import judge
    from tests.fuzz.targets import TARGETS, corpus_of

SLOWER = 5
"""By which counting what is covered slows everything down."""


def fuzz(name: str, *options: str) -> None:
    """Fuzz a target; this ends the process."""
    target = TARGETS[name]
    for each in corpus_of(target.name):  # so that what is imported late takes nobody's time
        judge(target, each, seconds=60)

    def one(data: bytes) -> None:
        judge(target, data, seconds=SLOWER)

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def main() -> None:
    """Fuzz each target in a process of its own, forked: to instrument the package takes seconds."""
    for line in sys.stdin:
        name, said, *options = json.loads(line)
        child = os.fork()
        if not child:
            with open(os.devnull) as nothing, open(said, "wb") as output:
                for given, standard in ((nothing, 0), (output, 1), (output, 2)):
                    os.dup2(given.fileno(), standard)
            fuzz(name, *options)
        os.waitpid(child, 0)
        print(line, end="", flush=True)


if __name__ == "__main__":
    main()
