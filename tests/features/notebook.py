"""A registry whose tools keep state: of sessions, of callers, and of handles."""

from __future__ import annotations

import math
from typing import Any

import trio

from trio_mcp import Context, Registry, ToolError


class Gates:
    """Where calls wait: `pause` begins, is noticed by `begun`, and goes on when `open` is set."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.open = trio.Event()


WRONG: dict[str, Any] = {
    "a set": {1},
    "a tuple": (1, 2),
    "not a number": math.nan,
    "an object": object(),
    "numbers as names": {1: 2},
    "an endless list": [],
}
WRONG["an endless list"].append(WRONG["an endless list"])


def make(gates: Gates | None = None, name: str = "notebook") -> Registry:
    """Make the registry."""
    registry = Registry(name)

    @registry.tool(state="caller")
    async def remember(note: str, context: Context) -> list[str]:
        context.state.setdefault("notes", []).append(note)
        notes: list[str] = context.state["notes"]
        return notes

    @registry.tool(state="session")
    def count(context: Context) -> int:
        context.state["count"] = context.state.get("count", 0) + 1
        return int(context.state["count"])

    @registry.tool(state="new handle")
    async def open_basket(context: Context) -> str | None:
        return context.state.handle

    @registry.tool(state="handle")
    async def put(item: str, handle: str, context: Context) -> list[str]:
        items: list[str] = context.state.setdefault("items", [])
        items.append(item)
        return items

    @registry.tool(state="handle")
    async def pay(handle: str, context: Context) -> int:
        paid = len(context.state.get("items", []))
        context.state.end()
        return paid

    @registry.tool(state="caller")
    async def fail(saves: bool, context: Context) -> None:
        context.state["notes"] = ["failed"]
        if saves:
            await context.save_state()
        context.state["notes"] = ["failed", "again"]
        raise ToolError("no")

    @registry.tool(state="caller")
    async def ask(context: Context) -> str:
        context.state["asked"] = context.state.get("asked", 0) + 1
        await context.elicit("Which colour?", str)
        return f"asked {context.state['asked']}"

    @registry.tool(state="caller")
    async def change(key: str, value: str | None, waits: bool, context: Context) -> dict[str, Any]:
        if waits and gates is not None:
            gates.begun.set()
            await gates.open.wait()
        if value is None:
            del context.state[key]
        else:
            context.state[key] = value
        return dict(context.state)

    @registry.tool(state="caller")
    async def spoil(how: str, context: Context) -> None:
        context.state["spoilt"] = WRONG[how]

    @registry.tool(state="caller")
    async def fill(size: int, context: Context) -> None:
        context.state["filling"] = "x" * size

    @registry.resource("notes://all", state="caller")
    async def all_notes(context: Context) -> str:
        return " ".join(context.state.get("notes", []))

    @registry.resource("basket://{handle}", state="handle")
    async def basket(handle: str, context: Context) -> str:
        return " ".join(context.state.get("items", []))

    @registry.prompt(state="caller")
    async def sum_up(context: Context) -> str:
        return f"Sum up: {context.state.get('notes', [])}"

    return registry
