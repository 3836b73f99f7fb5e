"""Tools that are tasks. Run as a program, it serves them on stdio: `jobs.py [STORE]`."""

from __future__ import annotations

import sys
from typing import Any

import trio

from trio_mcp import Context, Limits, McpError, Registry, Root, ToolError, serve
from trio_mcp.extensions.tasks import TaskOptions, Tasks, continue_as_task

AGAIN = TaskOptions(on_restart="run again")


class Gate:
    """Lets tests see which tools are running, and lets these go on."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.begun = 0
        self.ended: list[str] = []
        self.open = trio.Event()
        self.news = trio.lowlevel.ParkingLot()

    async def has_begun(self, count: int) -> None:
        """Wait until so many have begun, altogether."""
        while self.begun < count:
            await self.news.park()

    async def has_ended(self, count: int) -> None:
        """Likewise, ended."""
        while len(self.ended) < count:
            await self.news.park()

    async def wait(self) -> None:
        """Wait until it opens."""
        self.running += 1
        self.begun += 1
        self.most = max(self.most, self.running)
        self.news.unpark_all()
        how = "cancelled"
        try:
            await self.open.wait()
            how = "done"
        finally:
            self.running -= 1
            self.ended.append(how)
            self.news.unpark_all()


def make(gate: Gate | None = None, *, name: str = "jobs", **options: Any) -> Registry:
    """Make a registry. The options are those of `Tasks`."""
    gate = gate or Gate()
    registry = Registry(name, extensions=[Tasks(**options)])

    @registry.tool
    async def plain() -> str:
        """Answer at once."""
        return "plain"

    @registry.tool(task=True)
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @registry.tool(task=True)
    async def wait() -> str:
        """Wait for the gate."""
        await gate.wait()
        return "waited"

    @registry.tool(task=AGAIN)
    async def wait_again() -> str:
        """Wait for the gate, also after a restart."""
        await gate.wait()
        return "waited"

    @registry.tool(task=True, timeout=5)
    async def long() -> str:
        """Take an hour."""
        await trio.sleep(3600)
        return "done"

    @registry.tool(task=TaskOptions(timeout=10))
    async def limited() -> str:
        """Take too long."""
        await trio.sleep(3600)
        return "done"

    @registry.tool(task=TaskOptions(required=True))
    async def only_as_task(how: str = "") -> str:
        """Fail in some way."""
        if how == "tool":
            raise ToolError("did not work")
        if how == "protocol":
            raise McpError(-32050, "broken", {"why": 1})
        if how == "surprise":
            raise OSError("/etc/secret")
        return "fine"

    @registry.tool(task=True)
    async def paint(thing: str, context: Context) -> str:
        """Paint something, in a colour that the client names."""
        await context.progress(1, 2)
        await context.info("not for tasks")
        colour = await context.elicit("Which colour?", str)
        return f"{thing} is {colour.value}"

    @registry.tool(task=AGAIN)
    async def ask_all(context: Context) -> str:
        """Ask all that can be asked, side by side."""
        said: dict[str, str] = {}

        async def elicit() -> None:
            said["elicit"] = (await context.elicit("Which colour?", str, key="colour")).value

        async def sample() -> None:
            made = await context.sample("Say something", max_tokens=9)
            said["sample"] = made.text

        async def roots() -> None:
            found: list[Root] = await context.roots()
            said["roots"] = found[0].uri

        async with trio.open_nursery() as nursery:
            nursery.start_soon(elicit)
            nursery.start_soon(sample)
            nursery.start_soon(roots)
        await gate.wait()
        return " ".join(said[key] for key in sorted(said))

    @registry.tool(task=True)
    async def ask_later(context: Context) -> str:
        """Wait for the gate, and ask."""
        await gate.wait()
        return (await context.elicit("Which colour?", str)).value

    @registry.tool(task=True)
    async def impatient(context: Context) -> str:
        """Ask, but not for long."""
        with trio.move_on_after(5):
            await context.elicit("Quick: which colour?", str)
        await gate.wait()
        return "never mind"

    @registry.tool(task=TaskOptions(at_once=False))
    async def maybe(later: bool, context: Context) -> str:
        """Ask first, and go on as a task or not."""
        colour = await context.elicit("Which colour?", str)
        shade = await context.elicit("Which shade?", str)
        if later:
            await continue_as_task()
        return f"{shade.value} {colour.value}"

    @registry.tool(task=True)
    async def big(size: int) -> str:
        """Return much."""
        return "x" * size

    @registry.tool(task=True)
    async def echo(value: Any) -> Any:
        """Return it."""
        return value

    @registry.tool(task=True)
    async def report(context: Context) -> str:
        """Say more than anybody wants to hear."""
        for step in range(1000):
            await context.progress(step + 1, 1000, f"step {step + 1}")
        await gate.wait()
        return "reported"

    return registry


if __name__ == "__main__":
    opened = Gate()
    opened.open.set()
    given = {"store": sys.argv[1]} if sys.argv[1:] else {}
    trio.run(lambda: serve(make(opened, **given), limits=Limits(eof_grace=5.0)))
