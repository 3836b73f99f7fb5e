"""Bars as SVG, as a part of a page: as wide as there is room, with text as large as the page's.

There is no `viewBox`, so nothing is scaled: lengths are percentages. Colours are in `site.css`.
"""

from html import escape

from docs._ext.records import Bar, Panel

_ROW = 40
_LONGEST = 78
"""Of the width, in percent: the rest is for the figure beside the bar."""


def drawing(panel: Panel) -> str:
    """Draw bars as wide as there is room, with text that stays as large as the page's."""
    longest = max(bar.value for bar in panel.bars) or 1
    height = _ROW * len(panel.bars)
    bars = "".join(_bar(bar, _ROW * place, longest) for place, bar in enumerate(panel.bars))
    title = escape(panel.title)
    return (
        f"<figure><figcaption>{title}</figcaption>"
        f'<svg width="100%" height="{height}" role="img"><title>{title}</title>{bars}</svg>'
        "</figure>"
    )


def _bar(bar: Bar, top: int, longest: float) -> str:
    width = f"{_LONGEST * bar.value / longest:.2f}%"
    kind = "ours" if bar.ours else "other"
    return (
        f'<text y="{top + 14}">{escape(bar.label)}</text>'
        f'<rect class="{kind}" y="{top + 19}" width="{width}" height="13" rx="2"/>'
        f'<text class="figure" x="{width}" dx="6" y="{top + 30}">{escape(bar.text)}</text>'
    )
