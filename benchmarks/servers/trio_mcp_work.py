"""An echo, a hash, a wait, a large result, an address and a time, served by this project."""

from datetime import datetime
from hashlib import sha256
from zoneinfo import ZoneInfo

import trio

from trio_mcp import Registry, serve

DATA = bytes(1 << 20)
ROW = "A line of a large result, which has sixty-four characters, yes.\n"

registry = Registry("work", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@registry.tool
async def digest() -> str:
    """Keep the processor busy: hash a mebibyte."""
    return sha256(DATA).hexdigest()


@registry.tool
async def wait(milliseconds: int) -> str:
    """Wait, as for a database."""
    await trio.sleep(milliseconds / 1000)
    return "done"


@registry.tool
async def rows(count: int) -> str:
    """Return so many lines."""
    return ROW * count


@registry.tool
async def generate_deeplink(resourceType: str, dashboardUid: str) -> str:
    """Make the address of a dashboard."""
    return f"http://127.0.0.1:9/d/{dashboardUid}"


@registry.tool
async def convert_timezone(time: datetime, output_timezone: str) -> str:
    """Convert a time to another zone."""
    return time.astimezone(ZoneInfo(output_timezone)).isoformat()


trio.run(serve, registry)
