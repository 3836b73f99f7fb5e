"""Date and time: typed arguments, a structured result, and a plain `def` tool."""

from datetime import date, datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import trio
from attrs import frozen

from trio_mcp import Registry, ToolError, serve

registry = Registry("clock", version="1.0")


@frozen
class Moment:
    """A point in time, taken apart."""

    iso: str
    weekday: str
    timezone: str


@registry.tool
async def now(timezone: str = "UTC") -> Moment:
    """Tell the time.

    Args:
        timezone: An IANA name, such as Europe/Vienna.
    """
    try:
        moment = datetime.now(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError):
        raise ToolError(f"Error: there is no time zone {timezone!r}") from None
    return Moment(moment.isoformat(timespec="seconds"), f"{moment:%A}", timezone)


@registry.tool
def days_between(start: date, end: date, unit: Literal["days", "weeks"] = "days") -> float:
    """Count the time from one date to another.

    Args:
        start: The first date.
        end: The second date.
        unit: What to count in.
    """
    days = (end - start).days
    return days / 7 if unit == "weeks" else days


if __name__ == "__main__":
    trio.run(serve, registry)
