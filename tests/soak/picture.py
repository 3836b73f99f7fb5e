"""The chart of a soak: the memory of each process, by the calls that there were.

To draw it from the record as it is: `python -m tests.soak.picture`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.chart import Curve, curves, write

RECORD = Path(__file__).parents[2] / "docs" / "measured" / "soak.json"


def picture(record: Mapping[str, Any]) -> str:
    """Draw the picture.

    Args:
        record: A record, as JSON values.
    """
    drawn = [_curve(each) for each in record["memory"]]
    said = "; ".join(f"{each.title}: {each.text}" for each in drawn)
    return curves(drawn, "Memory in MiB while calls are made", f"{said}.")


def _curve(seen: Mapping[str, Any]) -> Curve:
    memory = [each / 2**20 for each in seen["bytes"]]
    text = f"{memory[0]:.1f} to {memory[-1]:.1f} MiB in {seen['calls'][-1]:,} calls"
    return Curve(seen["name"], memory, text)


def draw(record: Path) -> Path:
    """Draw the picture of a record beside it; return where it is."""
    path = record.with_suffix(".svg")
    write(picture(json.loads(record.read_text(encoding="utf-8"))), path)
    return path


if __name__ == "__main__":
    print(f"picture: {draw(RECORD)}")
