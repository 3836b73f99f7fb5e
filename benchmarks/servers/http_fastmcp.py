"""The echo tool, served by FastMCP on uvicorn; the argument is the port."""

import sys

import uvicorn
from fastmcp import FastMCP  # type: ignore[import-not-found]  # of another environment


async def echo(text: str) -> str:
    """Return the text."""
    return text


server = FastMCP("echo")
server.tool(echo)
app = server.http_app(stateless_http=True, json_response=True)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
