"""An echo, a hash, a wait and a large result, served by this project."""

from hashlib import sha256

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


trio.run(serve, registry)
