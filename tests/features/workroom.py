"""A server with prompts that take arguments, and tools that report, log and ask."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal

import trio
from attrs import frozen

from trio_mcp import Context, Limits, Registry, serve

CITIES = ["Berlin", "Bern", "Boston", "Lisbon"]


class Tone(Enum):
    """How it shall sound."""

    WARM = "warm"
    COLD = "cold"


@frozen
class Author:
    """Who writes."""

    name: str
    age: int = 0


def make() -> Registry:
    """Make the registry."""
    registry = Registry("workroom", version="1.0")
    _add_prompts(registry)
    _add_reporters(registry)
    _add_askers(registry)
    return registry


def _add_prompts(registry: Registry) -> None:
    @registry.prompt
    async def letter(to: str, city: str, tone: Tone = Tone.WARM, pages: int = 1) -> str:
        """Write a letter.

        Args:
            to: Who gets it.
            city: Where they live.
            tone: How it sounds.
            pages: How long it is.
        """
        return f"A {tone.value} letter to {to!r} in {city}, {pages + 1} pages with its cover"

    registry.add_completion(CITIES, prompt="letter", argument="city")

    @registry.resource("towns://{city}")
    async def town(city: Literal["Rome", "Riga"]) -> str:
        return city


def _add_reporters(registry: Registry) -> None:
    bridged = logging.Logger("workroom.bridged")  # nobody else's
    bridged.addHandler(registry.log_handler(logging.DEBUG))

    @registry.tool
    async def count(to: int, context: Context) -> int:
        """Report progress."""
        for number in range(1, to + 1):
            await context.progress(number, total=to, message=f"at {number}")
        return to

    @registry.tool
    def count_in_a_thread(to: int, context: Context) -> int:
        """Report progress from a worker thread."""
        for number in range(1, to + 1):
            trio.from_thread.run(context.progress, number, to)
        return to

    @registry.tool
    async def speak(context: Context) -> str:
        """Log at every level."""
        levels: tuple[Any, ...] = (
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        )
        for level in levels:
            await context.log(level, {"said": level}, logger="speaker")
        return "spoken"

    @registry.tool
    def mutter(text: str) -> str:
        """Log through the standard library, in a worker thread."""
        bridged.warning("muttered %s", text)
        return "muttered"


def _add_askers(registry: Registry) -> None:
    @registry.tool
    async def book(context: Context) -> str:
        """Ask for several things, one after the other and side by side."""
        who = (await context.elicit("Who travels?", Author)).value
        found: dict[str, Any] = {}

        async def ask(name: str, question: Callable[[], Any]) -> None:
            found[name] = await question()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "roots", context.roots)
            nursery.start_soon(ask, "poem", lambda: context.sample("A poem!", max_tokens=20))
        sure = await context.elicit("Sure?", bool)
        return (
            f"{who.name} ({who.age}), {found['poem'].text}, {found['roots'][0].uri}, {sure.action}"
        )


if __name__ == "__main__":
    trio.run(lambda: serve(make(), limits=Limits(eof_grace=60.0, shutdown_grace=60.0)))
