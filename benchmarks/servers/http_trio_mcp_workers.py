"""The echo tool, served by several processes on one socket; the arguments are how many, and a port.

Each process runs this script again, with the descriptor of the socket.
"""

import socket
import subprocess
import sys

import trio

from trio_mcp import Registry, serve_http

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def serve(descriptor: int) -> None:
    accepting = trio.socket.from_stdlib_socket(socket.socket(fileno=descriptor))
    await serve_http(registry, listeners=[trio.SocketListener(accepting)])


def start(number: int, port: int) -> None:
    with socket.create_server(("127.0.0.1", port), backlog=128) as accepting:
        descriptor = accepting.fileno()
        command = [sys.executable, __file__, str(descriptor)]
        for each in [subprocess.Popen(command, pass_fds=[descriptor]) for _ in range(number)]:
            each.wait()


match sys.argv[1:]:
    case [descriptor]:
        trio.run(serve, int(descriptor))
    case [number, port]:
        start(int(number), int(port))
