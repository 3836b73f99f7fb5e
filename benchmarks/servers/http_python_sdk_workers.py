"""The echo tool, served by the official Python SDK on uvicorn in several processes.

The arguments are how many, and the port.
"""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from uvicorn.supervisors import Multiprocess

server = MCPServer("echo", log_level="ERROR")


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


app = server.streamable_http_app(stateless_http=True, json_response=True)

if __name__ == "__main__":
    config = uvicorn.Config(
        "http_python_sdk_workers:app",
        workers=int(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        log_level="error",
        access_log=False,
    )
    listening = config.bind_socket()
    # asyncio leaves Nagle's algorithm on for sockets that are made as uvicorn makes this one, and
    # each response would wait 40 ms for an acknowledgement. Accepted connections inherit this.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if config.workers > 1:
        Multiprocess(config, sockets=[listening]).run()
    else:
        uvicorn.Server(config).run(sockets=[listening])
