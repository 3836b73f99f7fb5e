"""The echo tool, served by this project on uvicorn, and so on asyncio; the argument is the port."""

import sys

import uvicorn

from trio_mcp.aio import Registry, http_app

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


app = http_app(registry)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
