"""The echo tool, served by the official Python SDK on uvicorn in several processes.

The arguments are how many, and the port.
"""

import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("echo", log_level="ERROR")


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


app = server.streamable_http_app(stateless_http=True, json_response=True)

if __name__ == "__main__":
    uvicorn.run(
        "http_python_sdk_workers:app",
        workers=int(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        log_level="error",
        access_log=False,
    )
