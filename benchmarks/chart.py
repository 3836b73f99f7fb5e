"""A chart of horizontal bars, as an SVG file that is legible on light and on dark pages.

Every panel has a scale of its own, from zero to its longest bar, and its figures beside the bars.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from attrs import frozen

_BARS = 240
_FIGURES = 76
_LETTER = 7.2
"""About the width of a letter: the labels have as much room as the longest of them needs."""
_ROW = 22
_TITLE = 34
_STYLE = """\
  <style>
    .chart { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
    .chart text { fill: #1f2933; }
    .chart .title { font-weight: 600; }
    .chart .label { text-anchor: end; }
    .chart .paper { fill: #ffffff; }
    .chart .ours { fill: #2f74b5; }
    .chart .other { fill: #b3bdc8; }
    @media (prefers-color-scheme: dark) {
      .chart text { fill: #e4e7eb; }
      .chart .paper { fill: #14181d; }
      .chart .ours { fill: #5b9bd8; }
      .chart .other { fill: #616d79; }
    }
  </style>"""


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


def svg(panels: Sequence[Panel], title: str = "Benchmarks", description: str = "") -> str:
    """Draw the panels one under another; a panel without bars is left out.

    Args:
        panels: What to draw.
        title: What the chart shows, for those who cannot see it.
        description: The same at length.
    """
    shown = [panel for panel in panels if panel.bars]
    labels = max((len(bar.label) for panel in shown for bar in panel.bars), default=0)
    left = round(labels * _LETTER) + 18
    width = left + _BARS + _FIGURES
    parts: list[str] = []
    y = 6
    for panel in shown:
        parts += _panel(panel, left, y)
        y += _TITLE + _ROW * len(panel.bars) + 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing chart" width="{width}" '
            f'height="{y}" viewBox="0 0 {width} {y}" role="img" '
            'aria-labelledby="chart-title chart-desc">',
            f'  <title id="chart-title">{escape(title)}</title>',
            f'  <desc id="chart-desc">{escape(description)}</desc>',
            _STYLE,
            f'  <rect class="paper" width="{width}" height="{y}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, left: int, top: int) -> list[str]:
    longest = max(bar.value for bar in panel.bars) or 1
    parts = [_text(14, top + 20, panel.title, "title")]
    for index, bar in enumerate(panel.bars):
        y = top + _TITLE + index * _ROW
        width = round(_BARS * bar.value / longest, 1)
        kind = "ours" if bar.ours else "other"
        parts += [
            _text(left - 8, y + 12, bar.label, "label"),
            f'  <rect class="{kind}" x="{left}" y="{y}" width="{width}" height="{_ROW - 6}"/>',
            _text(left + width + 6, y + 12, bar.text, "figure"),
        ]
    return parts


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'  <text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def write(chart: str, path: Path) -> None:
    """Write a chart, making its folder where needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(chart, encoding="utf-8")
