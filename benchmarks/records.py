"""Records of runs: where their figures come from, and how they are written.

A record is committed and shown to everybody, so it says when it was made, of which version and on
what kind of machine, and nothing that tells one machine from another of its kind: no names, no
paths, no serial numbers. It is laid out so that a change of one figure is a change of one line.
"""

import json
import os
import platform
import shutil
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.tables import table

_ROOT = Path(__file__).parent.parent
_WIDTH = 200


def provenance(node: str = "node") -> dict[str, Any]:
    """Return what a record says of its origin, as JSON values.

    Args:
        node: The Node.js that was used.
    """
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "version": version("trio-mcp"),
        "commit": _commit(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "node": _output([node, "--version"]).removeprefix("v"),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "processor": _first(Path("/proc/cpuinfo"), "model name"),
        "memory": _first(Path("/proc/meminfo"), "MemTotal"),
    }


def _first(path: Path, name: str) -> str:
    """Return what the first line of that name says in a file of the system; empty if none does."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in found if key.strip() == name), "")


def _commit() -> str:
    """Name the commit of the library, with a plus if it was changed since; empty if unknown."""
    name = _output(["git", "rev-parse", "--short", "HEAD"])
    changed = _output(["git", "status", "--porcelain", "--", "trio_mcp"])
    return f"{name}+" if name and changed else name


def _output(command: Sequence[str]) -> str:
    """Return what a command prints; nothing if it is not installed or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a record, making its folder where needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_laid_out(content, "") + "\n", encoding="utf-8")


def recording(name: str, purpose: str | None) -> Namespace:
    """Read the command line of a benchmark that may keep its one table in a file."""
    parser = ArgumentParser(prog=f"python -m benchmarks.{name}", description=purpose)
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    return parser.parse_args()


def show(headers: list[str], rows: list[list[str]], record: Path | None) -> None:
    """Print a table, and keep it if there is a file for it."""
    print(table(headers, rows))
    if record:
        write(record, {"made": provenance(), "counted": {"headers": headers, "rows": rows}})


def _laid_out(value: Any, margin: str) -> str:
    """Write JSON: on one line what fits there, otherwise an item on each."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(margin) + len(line) < _WIDTH:
        return line
    inner = f"{margin}  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_laid_out(each, inner)}" for key, each in value.items()]
    else:
        items = [_laid_out(each, inner) for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    body = f",\n{inner}".join(items)
    return f"{begin}\n{inner}{body}\n{margin}{end}"
