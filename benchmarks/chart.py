"""Charts of horizontal bars and of curves, as SVG files that are legible on light and dark pages.

Every panel has a scale of its own, from zero to its longest bar or its highest point, and says
its figures.
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
_LONG, _HIGH = 420, 60
"""How long and how high a curve is."""
_STYLE = """\
  <style>
    .chart { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
    .chart text { fill: #1f2933; }
    .chart .title { font-weight: 600; }
    .chart .label { text-anchor: end; }
    .chart .paper { fill: #ffffff; }
    .chart .ours { fill: #2f74b5; }
    .chart .other { fill: #b3bdc8; }
    .chart .curve { fill: none; stroke: #2f74b5; stroke-width: 2; }
    .chart .zero { stroke: #b3bdc8; }
    @media (prefers-color-scheme: dark) {
      .chart text { fill: #e4e7eb; }
      .chart .paper { fill: #14181d; }
      .chart .ours { fill: #5b9bd8; }
      .chart .other { fill: #616d79; }
      .chart .curve { stroke: #5b9bd8; }
      .chart .zero { stroke: #616d79; }
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


@frozen
class Curve:
    title: str
    values: Sequence[float]
    """At equal distances."""
    text: str
    """What is written above the curve, beside its title."""


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
    return _document(width, y, parts, title, description)


def curves(drawn: Sequence[Curve], title: str, description: str = "") -> str:
    """Draw curves one under another.

    Args:
        drawn: What to draw.
        title: What the chart shows, for those who cannot see it.
        description: The same at length.
    """
    rise = _TITLE + _HIGH + 12
    parts = [part for index, each in enumerate(drawn) for part in _curve(each, 6 + rise * index)]
    return _document(_LONG + 28, 6 + rise * len(drawn), parts, title, description)


def _document(width: int, height: int, parts: Sequence[str], title: str, description: str) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing chart" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" role="img" '
            'aria-labelledby="chart-title chart-desc">',
            f'  <title id="chart-title">{escape(title)}</title>',
            f'  <desc id="chart-desc">{escape(description)}</desc>',
            _STYLE,
            f'  <rect class="paper" width="{width}" height="{height}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _curve(curve: Curve, top: int) -> list[str]:
    highest, zero = max(curve.values) or 1, top + _TITLE + _HIGH
    step = _LONG / max(1, len(curve.values) - 1)
    points = " ".join(
        f"{14 + step * index:.1f},{zero - _HIGH * value / highest:.1f}"
        for index, value in enumerate(curve.values)
    )
    return [
        _text(14, top + 20, f"{curve.title}: {curve.text}", "title"),
        f'  <line class="zero" x1="14" y1="{zero}" x2="{14 + _LONG}" y2="{zero}"/>',
        f'  <polyline class="curve" points="{points}"/>',
    ]


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
