"""What it costs that a tool is written for Trio, for asyncio, or for neither.

python -m benchmarks.functions

The same echo three times, each in a server of its own on stdio. They take turns, and the least
processor time of a server counts: other work on the machine disturbs it less than any other figure.
"""

from argparse import ArgumentParser
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from benchmarks.peers import python_server
from benchmarks.records import provenance, write
from benchmarks.tables import table
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
    parser = ArgumentParser(prog="python -m benchmarks.functions", description=__doc__)
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    options = parser.parse_args()
    headers = ["A tool", "CPU µs", f"CPU µs @{WINDOW}", "× Trio @64"]
    rows = trio.run(measure)
    print(table(headers, rows))
    if options.record:
        counted = {"headers": headers, "rows": rows}
        write(options.record, {"made": provenance(), "counted": counted})


if __name__ == "__main__":
    main()
