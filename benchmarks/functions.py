"""What it costs that a tool is written for Trio, for asyncio, or for neither.

python -m benchmarks.functions

The same echo three times, each in a server of its own on stdio. They take turns, and the least
processor time of a server counts: other work on the machine disturbs it less than any other figure.
"""

from contextlib import AsyncExitStack

import trio

from benchmarks.peers import python_server
from benchmarks.records import recording, show
from trio_mcp import Client, connect
from trio_mcp.transports import ProcessOptions

WINDOW = 64
ROUNDS = 9
CALLS = 3200
"""Of each server, in a round."""

KINDS = {
    "`async def`, on Trio": "trio",
    "`async def`, on asyncio": "asyncio",
    "`def`, in a worker thread": "neither",
}


async def processor_time(client: Client, window: int) -> float:
    """Make calls; return the microseconds of processor time that the server takes for one."""

    async def call() -> None:
        for _ in range(CALLS // window):
            await client.call_tool("echo", {"text": "hello"})

    before = await client.call_tool("used", returns=float)
    async with trio.open_nursery() as nursery:
        for _ in range(window):
            nursery.start_soon(call)
    return (await client.call_tool("used", returns=float) - before) / CALLS * 1e6


async def measure() -> list[list[str]]:
    """Measure all of it; return the rows of the table."""
    async with AsyncExitStack() as stack:
        clients = {}
        for name, kind in KINDS.items():
            server = python_server("functions.py", kind)
            options = ProcessOptions(env=server.environment)
            connection = connect(server.arguments, process_options=options)
            clients[name] = await stack.enter_async_context(connection)
        least = {(name, window): float("inf") for name in KINDS for window in (1, WINDOW)}
        for _ in range(ROUNDS):
            for name, window in least:
                took = await processor_time(clients[name], window)
                least[name, window] = min(took, least[name, window])
    ours = next(iter(KINDS))
    return [
        [
            name,
            f"{least[name, 1]:.0f}",
            f"{least[name, WINDOW]:.0f}",
            f"{least[name, WINDOW] / least[ours, WINDOW]:.1f}",
        ]
        for name in KINDS
    ]


def main() -> None:
    options = recording("functions", __doc__)
    headers = ["A tool", "CPU µs", f"CPU µs @{WINDOW}", "× Trio @64"]
    show(headers, trio.run(measure), options.record)


if __name__ == "__main__":
    main()
