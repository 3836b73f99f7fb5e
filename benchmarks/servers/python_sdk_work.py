"""An echo, a hash, a wait and a large result, served by the official Python SDK."""

from hashlib import sha256

import anyio
from mcp.server import MCPServer

DATA = bytes(1 << 20)
ROW = "A line of a large result, which has sixty-four characters, yes.\n"

server = MCPServer("work", version="1.0", log_level="WARNING")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool(structured_output=False)
async def digest() -> str:
    """Keep the processor busy: hash a mebibyte."""
    return sha256(DATA).hexdigest()


@server.tool(structured_output=False)
async def wait(milliseconds: int) -> str:
    """Wait, as for a database."""
    await anyio.sleep(milliseconds / 1000)
    return "done"


@server.tool(structured_output=False)
async def rows(count: int) -> str:
    """Return so many lines."""
    return ROW * count


server.run("stdio")
