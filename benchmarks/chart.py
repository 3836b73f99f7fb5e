"""A chart of horizontal bars, as an SVG file.

Every panel has a scale of its own, from zero to its longest bar, and its figures beside the bars.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from attrs import frozen

_WIDTH = 760
_LABELS = 260
_BARS = 380
_ROW = 22
_TITLE = 34
_OURS = "#2f6f9f"
_OTHERS = "#b9b9b9"


@frozen
class Bar:
    label: str
    value: float
    text: str
    """The figure as it is written beside the bar."""
    ours: bool = False


@frozen
class Panel:
    title: str
    bars: Sequence[Bar]


def svg(panels: Sequence[Panel]) -> str:
    """Draw the panels one under another; a panel without bars is left out."""
    parts: list[str] = []
    y = 10
    for panel in filter(lambda panel: panel.bars, panels):
        parts += _panel(panel, y)
        y += _TITLE + _ROW * len(panel.bars) + 14
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" '
            f'viewBox="0 0 {_WIDTH} {y}" font-family="sans-serif" font-size="13">',
            '<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, top: int) -> list[str]:
    longest = max(bar.value for bar in panel.bars) or 1
    parts = [_text(10, top + 20, panel.title, ' font-weight="bold"')]
    for index, bar in enumerate(panel.bars):
        y = top + _TITLE + index * _ROW
        width = round(_BARS * bar.value / longest, 1)
        colour = _OURS if bar.ours else _OTHERS
        parts += [
            _text(_LABELS - 8, y + 13, bar.label, ' text-anchor="end"'),
            f'<rect x="{_LABELS}" y="{y}" width="{width}" height="{_ROW - 6}" fill="{colour}"/>',
            _text(_LABELS + width + 6, y + 13, bar.text),
        ]
    return parts


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text)}</text>'


def write(panels: Sequence[Panel], path: Path) -> None:
    """Write the chart, making its folder where needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg(panels), encoding="utf-8")
