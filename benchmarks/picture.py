"""The picture on the front page: four figures of a record, ours beside those of the peers.

`make bench` draws it anew with every record that it keeps. To draw it from the record as it is:
`python -m benchmarks.picture`.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.chart import Bar, Panel, svg, write
from benchmarks.contest import WINDOW
from benchmarks.peers import OURS, PYTHON, TYPESCRIPT

RECORD = Path(__file__).parent.parent / "docs" / "measured" / "benchmarks.json"

TITLES = {
    f"requests per second, {WINDOW} in flight": f"Calls per second, {WINDOW} in flight",
    "p50 in µs, one at a time": "Median time of a lone call, in µs",
    "start to initialized in ms": "Start to first answer, in ms",
    "peak memory in MiB": "Peak memory, in MiB",
}
"""What is drawn of the contest on stdio: its panels, and what the picture calls them."""

_SHOWN = re.compile(rf"{OURS}|({TYPESCRIPT}|{PYTHON}) [\d.]+")
"""The labels that are drawn: of each library one server, in the same era."""


def picture(record: Mapping[str, Any]) -> str:
    """Draw the picture.

    Args:
        record: A record, as JSON values.
    """
    contest = record["contests"]["stdio"]
    found = {panel["title"]: panel["bars"] for panel in contest["panels"]}
    panels = [
        Panel(
            f"{title} ({_better(title)})",
            [Bar(**bar) for bar in found[name] if _SHOWN.fullmatch(bar["label"])],
        )
        for name, title in TITLES.items()
    ]
    said = "; ".join(
        f"{panel.title}: {', '.join(f'{bar.label} {bar.text}' for bar in panel.bars)}"
        for panel in panels
    )
    return svg(panels, "An echo tool on stdio, beside the official SDKs", f"{said}.")


def _better(title: str) -> str:
    return "more is better" if "per second" in title else "less is better"


def draw(record: Path) -> Path:
    """Draw the picture of a record beside it; return where it is."""
    path = record.with_suffix(".svg")
    write(picture(json.loads(record.read_text(encoding="utf-8"))), path)
    return path


if __name__ == "__main__":
    print(f"picture: {draw(RECORD)}")
