"""Words that make a reader stop: refused in the package, its messages and the documentation.

python -m tests.docs.words [PATH ...]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = {".py", ".md", ".rst", ".in", ".js", ".html"}
SKIPPED = {"_build", "__pycache__", "measured", "words.md"}

INSTEAD = {
    r"nobody|no-one": "name who does not: 'no client', 'the client does not'",
    r"somebody|someone": "name who does: 'a client', 'another task'",
    r"anew": "'again', or 'a new ...'",
    r"whoever": "name who: 'the caller', 'the author'",
    r"(is|are|be|was|were|been|being) told": "'gets', 'is notified', 'receives', 'hears'",
    r"what is there": "name the thing",
    r"for each in": "name the thing: 'for tool in tools'",
    r"for ever": "'forever'",
    r"rooms": "'packages'",
    r"once more": "'again'",
    r"(that|which|it|what) (is|are) no (?!longer|more|good|such|better|part)": "'is not a ...'",
    r"(get|gets|getting) in(?! place)": "'log in'",
    r"be had": "say how: 'cannot be fetched', 'is missing'",
    r"(held|hold it) against": "'compared with', 'checked against'",
    r"(becomes?|became) of": "'how it ends', 'the outcome', 'how values are sent'",
    r"(that|which) (is|are) (?-i:none)": "'is not valid', 'is not one'",
    r"in vain|all in all|tells? more": "'without an answer', 'in total', 'explains'",
}
"""By pattern, what to write in its place."""

_REFUSED = re.compile("|".join(rf"\b({each})\b" for each in INSTEAD), re.IGNORECASE)


def refused_in(path: Path) -> Iterator[str]:
    """Yield a line for each refused word of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("USER "):  # of a Dockerfile, where it is a name
            continue
        for found in _REFUSED.finditer(line):
            pattern = next(each for each in INSTEAD if re.fullmatch(each, found[0], re.IGNORECASE))
            place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            yield f"{place}:{number}: {found[0]!r}: {INSTEAD[pattern]}"


def files_below(paths: list[Path]) -> Iterator[Path]:
    """Yield the files that are looked at."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in KINDS and SKIPPED.isdisjoint(file.parts):
                yield file


def main(given: list[str]) -> int:
    """Print what is refused; return the exit status."""
    paths = [Path(each).resolve() for each in given]
    paths = paths or [ROOT / each for each in ("trio_mcp", "docs", ".github", "README.md")]
    found = [line for file in files_below(paths) for line in refused_in(file)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
