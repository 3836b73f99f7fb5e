"""Opens a connection in asyncio and leaves without closing it, in the way that is asked for.

It prints the process id of the server, and what was left of it and of our thread.
"""

import asyncio
import os
import sys
import threading
import warnings

from trio_mcp import Registry
from trio_mcp.aio import connect

SERVER = """
import os
from pathlib import Path

import trio

from trio_mcp import Registry, serve

registry = Registry("pid")


@registry.tool
async def pid() -> int:
    return os.getpid()


trio.run(serve, registry)
"""
kept = []


async def main(way: str) -> None:
    connection = connect([sys.executable, "-c", SERVER])
    kept.append(connection)
    client = await connection.open()
    kept.append(await client.call_tool("pid", returns=int))
    print("server", kept[1], flush=True)
    if way == "exit":
        sys.exit(3)
    if way == "fork":
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, of course
        child = os.fork()
        if child == 0:
            in_child(client)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        print("child", status, "server", await client.call_tool("pid", returns=int), flush=True)


def in_child(client) -> None:
    status = 9
    try:
        try:
            asyncio.run(client.ping())
        except RuntimeError as error:
            print(error, flush=True)
        asyncio.run(connect_again())
        status = 0
    finally:
        os._exit(status)


async def connect_again() -> None:
    async with connect(Registry("other")) as client:
        await client.ping()


def has_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def run(way: str) -> None:
    if way in ("run", "fork"):
        asyncio.run(main(way))
    elif way == "exit":
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main(way))
    else:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main(way))
        if way == "close":
            loop.close()
            ours = [each for each in threading.enumerate() if each.name == "trio-mcp"]
            for each in ours:
                each.join()


if __name__ == "__main__":
    way = sys.argv[1]
    run(way)
    if way != "forget":
        print("gone", has_gone(kept[1]), flush=True)
