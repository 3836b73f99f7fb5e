"""Fuzz every entrance for a while, led by coverage.

    python -m tests.fuzz.run --time 600 [NAME...]

What must never have happened is made as small as it goes and kept in the corpus, so the ordinary
tests fail until its cause is mended. With `--runs` in place of `--time`, each target gets so many
inputs, which are the same each time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fuzz.judging import kind_of_finding, smaller
from tests.fuzz.targets import CORPUS, TARGETS, corpus_of
from tests.interop.packages import FUZZ
from tests.support.processes import ENVIRONMENT, ROOT

_LONGEST: Final = 2048
"""Bytes of an input that the fuzzer makes."""
_WORD: Final = re.compile(rb"[A-Za-z$][\w$./-]{2,30}")


class Fuzzer:
    """A process that fuzzes one target after the other: it has instrumented the package once."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._pipes = process.stdin, process.stdout

    def run(self, name: str, said: Path, *options: str) -> str:
        """Run the fuzzer on a target; return what it says, which is kept in a file meanwhile."""
        asked, answered = self._pipes
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps([name, str(said), *options]) + "\n")
        asked.flush()
        if not answered.readline():
            sys.exit("The fuzzer ended by itself.")
        return said.read_text(errors="replace")


@contextmanager
def fuzzer() -> Iterator[Fuzzer]:
    """Have a fuzzer during the block."""
    with subprocess.Popen(
        [str(FUZZ.python), "-m", "tests.fuzz.guided"],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Fuzzer(process)
        finally:
            process.terminate()


def _words(name: str) -> str:
    """A dictionary for libFuzzer: the words of the corpus."""
    words = {word for data in corpus_of(name) for word in _WORD.findall(data)}
    return "".join(f'"{word.decode()}"\n' for word in sorted(words))


def fuzz(fuzzer: Fuzzer, name: str, *bounds: str) -> list[Path]:
    """Fuzz a target, within bounds that libFuzzer knows, and return the files of what was found."""
    with tempfile.TemporaryDirectory(prefix="trio-mcp-fuzz-") as folder:
        grown, found, words = Path(folder, "grown"), Path(folder, "found"), Path(folder, "words")
        grown.mkdir()
        found.mkdir()
        words.write_text(_words(name))
        said = fuzzer.run(
            name,
            Path(folder, "said"),
            *bounds,
            f"-max_len={_LONGEST}",
            f"-artifact_prefix={found}/",
            f"-dict={words}",
            "-timeout=60",
            "-rss_limit_mb=2048",
            str(grown),
            str(CORPUS / name),
        )
        print(f"{name}: {_summary(said)}", flush=True)
        return [_kept(name, each.read_bytes(), said) for each in found.iterdir()]


def _summary(said: str) -> str:
    done = re.findall(r"(?:DONE|REDUCE|NEW|pulse)\s+(cov: \d+).*", said)
    runs = re.search(r"Done (\d+) runs", said)
    number = f"{int(runs[1]):,} inputs" if runs else "ended early"
    return f"{number}, {done[-1] if done else said[-2000:]}"


def _kept(name: str, data: bytes, said: str) -> Path:
    """Keep what was found, as small as it goes."""
    if kind_of_finding(TARGETS[name], data) is None:
        print(said[-3000:])  # it happens only where coverage is counted, or in this order
    else:
        data = smaller(TARGETS[name], data)
    path = CORPUS / name / f"found-{sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Fuzz all targets, or those that are named."""
    parser = ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--time", type=float, default=600.0, help="seconds for all of them")
    parser.add_argument("--runs", type=int, help="inputs for each, always the same, instead")
    options = parser.parse_args(arguments)
    names = options.names or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        parser.error(f"no target {', '.join(sorted(unknown))}; there are: {', '.join(TARGETS)}")
    if not FUZZ.is_there():
        FUZZ.install()
    bounds = [f"-max_total_time={max(1, round(options.time / len(names)))}"]
    if options.runs is not None:
        bounds = [f"-runs={options.runs}", "-seed=1"]
    with fuzzer() as it:
        found = [path for name in names for path in fuzz(it, name, *bounds)]
    for path in found:
        print(f"found: {path.relative_to(ROOT)}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
