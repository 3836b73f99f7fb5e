"""Fuzz one target, led by the coverage of the package. Runs where atheris is installed.

    python -m tests.fuzz.guided NAME [options of libFuzzer] FOLDER...

What is found is written where `-artifact_prefix` says, and ends the run.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["trio_mcp"]):
    from tests.fuzz.judging import judge
    from tests.fuzz.targets import TARGETS, corpus_of

SLOWER = 5
"""By which counting what is covered slows everything down."""


def main() -> None:
    """Fuzz."""
    target = TARGETS[sys.argv.pop(1)]
    for each in corpus_of(target.name):  # so that what is imported late takes nobody's time
        judge(target, each, seconds=60)

    def one(data: bytes) -> None:
        judge(target, data, seconds=SLOWER)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
