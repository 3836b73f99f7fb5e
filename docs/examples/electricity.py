"""A household's electricity, as a chart in hosts that show pages, and as a sentence in others."""

from datetime import date
from math import exp
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from trio_mcp import Registry, serve
from trio_mcp.extensions.apps import UI, App, Apps, Page

CHART = Page(
    "ui://electricity/chart",
    Path(__file__).with_name("pages") / "electricity.html",
    title="Electricity",
    description="The electricity of a day, hour by hour",
    prefers_border=True,
)

registry = Registry("electricity", version="1.0", extensions=[Apps(CHART)])


@frozen
class Usage:
    """The electricity of a day."""

    day: date
    kwh: list[float]
    """By the hour."""


def in_words(usage: dict[str, Any]) -> str:
    """Say what the chart shows."""
    kwh = usage["kwh"]
    peak = kwh.index(max(kwh))
    return f"{usage['day']}: {sum(kwh):.1f} kWh, most of it from {peak}:00 to {peak + 1}:00"


@registry.tool(extensions={UI: App("ui://electricity/chart", text=in_words)})
async def usage(day: date) -> Usage:
    """Show how much electricity the household used.

    Args:
        day: Which day.
    """
    return Usage(day, [_kwh(day, hour) for hour in range(24)])


def _kwh(day: date, hour: int) -> float:
    """Stands for the meter: some for breakfast, more for dinner."""
    breakfast = exp(-((hour - 7) ** 2) / 4)
    dinner = (1.4 + day.toordinal() % 7 / 5) * exp(-((hour - 19) ** 2) / 6)
    return round(0.25 + breakfast + dinner + (day.toordinal() * 7 + hour * 13) % 10 / 40, 2)


if __name__ == "__main__":
    trio.run(serve, registry)
