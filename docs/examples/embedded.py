"""A server inside a larger program: a print shop whose jobs are seen and ordered over MCP."""

import sys
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Annotated

import trio
from attrs import define

from trio_mcp import (
    Registry,
    ResourceNotFound,
    ServerHandle,
    ServerState,
    serve_http,
    stop_at_signals,
)


@define
class Job:
    """Something to print."""

    number: int
    title: str
    pages: int
    printed: int = 0


class PrintShop:
    """The application: jobs, and printers that work on them. It knows nothing of MCP."""

    def __init__(self, seconds_per_page: float = 0.5) -> None:
        self.jobs: dict[int, Job] = {}
        self.on_change: Callable[[Job], None] = lambda job: None
        self._seconds_per_page = seconds_per_page
        self._entrance: trio.MemorySendChannel[Job]
        self._queue: trio.MemoryReceiveChannel[Job]
        self._entrance, self._queue = trio.open_memory_channel(inf)

    def order(self, title: str, pages: int) -> Job:
        """Take a job on."""
        job = Job(len(self.jobs) + 1, title, pages)
        self._entrance.send_nowait(job)
        self.jobs[job.number] = job
        self.on_change(job)
        return job

    def close(self) -> None:
        """Take no more jobs; `run` returns when the last one is done."""
        self._entrance.close()

    async def run(self, printers: int = 2) -> None:
        """Print until the shop is closed."""
        async with trio.open_nursery() as nursery:
            for _ in range(printers):
                nursery.start_soon(self._print)

    async def _print(self) -> None:
        async for job in self._queue:
            while job.printed < job.pages:
                await trio.sleep(self._seconds_per_page)  # stands for a printer
                job.printed += 1
                self.on_change(job)


def make_registry(shop: PrintShop) -> Registry:
    """What a print shop offers over MCP."""
    registry = Registry("print-shop", version="1.0")

    @registry.tool
    async def order(title: str, pages: Annotated[int, {"minimum": 1, "maximum": 500}]) -> Job:
        """Have something printed."""
        return shop.order(title, pages)

    @registry.resource("shop://jobs")
    async def jobs() -> list[Job]:
        """All jobs, as they are now."""
        return list(shop.jobs.values())

    @registry.resource("shop://jobs/{number}")
    async def job(number: int) -> Job:
        """One job, as it is now."""
        if number not in shop.jobs:
            raise ResourceNotFound(f"shop://jobs/{number}")
        return shop.jobs[number]

    def tell(job: Job) -> None:
        registry.notify_resource_updated("shop://jobs")
        registry.notify_resource_updated(f"shop://jobs/{job.number}")

    shop.on_change = tell
    return registry


async def open_shop(
    shop: PrintShop,
    port: int,
    task_status: trio.TaskStatus[ServerHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Print, and serve, until the server is stopped; then end the printing too."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.run)
        server = await nursery.start(partial(serve_http, make_registry(shop), port=port))
        task_status.started(server)
        await server.wait_for(ServerState.STOPPED)  # all answers are out
        shop.close()  # no more jobs; those that there are get printed


async def main(port: int) -> None:
    """Keep the shop open until SIGINT or SIGTERM; a second one ends the program at once."""
    shop = PrintShop()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(open_shop, shop, port)
        print("Open at", server.url, flush=True)
        await stop_at_signals(server)
        print("Closed", flush=True)
    print(sum(job.printed for job in shop.jobs.values()), "pages printed")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if sys.argv[1:] else 8000)
