"""An echo, a hash, a wait and a large result, served by FastMCP."""

import asyncio
from hashlib import sha256

from fastmcp import FastMCP  # type: ignore[import-not-found]  # of another environment

DATA = bytes(1 << 20)
ROW = "A line of a large result, which has sixty-four characters, yes.\n"


async def echo(text: str) -> str:
    """Return the text."""
    return text


async def digest() -> str:
    """Keep the processor busy: hash a mebibyte."""
    return sha256(DATA).hexdigest()


async def wait(milliseconds: int) -> str:
    """Wait, as for a database."""
    await asyncio.sleep(milliseconds / 1000)
    return "done"


async def rows(count: int) -> str:
    """Return so many lines."""
    return ROW * count


server = FastMCP("work", version="1.0")
for tool in (echo, digest, wait, rows):
    server.tool(tool, output_schema=None)
server.run("stdio", show_banner=False, log_level="WARNING")
