"""Tools that things go wrong in, the same for each of the libraries for Python."""

import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

Add = Callable[[Callable[..., Any], str], Any]
"""Registers a function as a tool of that name."""

NOISE = "this is no message"
running = most = 0


async def wait(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "done"


async def wait_forever() -> str:
    await anyio.sleep_forever()
    raise AssertionError


async def wait_and_note(seconds: float, file: str) -> str:
    """Write into the file how this ended."""
    end = "was stopped"
    try:
        await anyio.sleep(seconds)
        end = "ran to its end"
    finally:
        Path(file).write_text(end)  # noqa: ASYNC240
    return end


async def count_those_that_run(seconds: float) -> str:
    """Return how many of these ran at once."""
    global running, most
    running += 1
    most = max(most, running)
    await anyio.sleep(seconds)
    running -= 1
    return str(most)


def block(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


async def print_noise() -> str:
    print(NOISE, flush=True)
    return "done"


async def have_a_child_print() -> str:
    subprocess.run([sys.executable, "-c", f"print({NOISE!r})"], check=True)  # noqa: ASYNC221
    return "done"


async def write_to_descriptor() -> str:
    os.write(1, f"{NOISE}\n".encode())
    return "done"


async def large(size: int) -> str:
    return "x" * size


async def crash() -> str:
    raise KeyError("secret")


async def double(number: int) -> int:
    return 2 * number


async def total(of: list[int]) -> str:
    return str(sum(of))


async def a_text() -> str:
    return "text"


def wrongly_a_dict() -> dict:  # type: ignore[type-arg]
    return "text"  # type: ignore[return-value]


def wrongly_a_bool() -> bool:
    return "text"  # type: ignore[return-value]


def two() -> list[str]:
    return ["a", "b"]


def none() -> list[str]:
    return []


def some_bytes() -> str | bytes:
    return b"\xff"


async def optional(words: str = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
    return str(words)


@functools.wraps(a_text)
def returns_a_coroutine() -> Any:
    return a_text()


def where() -> str:
    main = threading.current_thread() is threading.main_thread()
    return "in the event loop" if main else "in a thread"


TOOLS: tuple[Callable[..., Any], ...] = (
    *(wait, wait_forever, wait_and_note, count_those_that_run, block),
    *(print_noise, have_a_child_print, write_to_descriptor, large, crash),
    *(double, total, a_text, wrongly_a_dict, wrongly_a_bool, two, none, some_bytes, optional),
    where,
)


def offer(add: Add, fail: Exception, refuse: Exception) -> None:
    """Register all of them, and `registered`, which says what became of each registration.

    Args:
        add: The library's function.
        fail: What it raises for a failure that the model reads.
        refuse: What it raises for an error of JSON-RPC.
    """

    async def sold_out() -> str:
        raise fail

    async def protocol_error() -> str:
        raise refuse

    async def error_as_text() -> str:
        return str(refuse)

    async def registered(name: str) -> str:
        return refused.get(name, "is registered")

    refused = {}
    functions: list[Any] = [*TOOLS, sold_out, protocol_error, error_as_text, registered]
    named = [
        *((function.__name__, function) for function in functions),
        *(("returns_a_coroutine", returns_a_coroutine), ("twice", a_text), ("twice", crash)),
    ]
    for name, function in named:
        try:
            add(function, name)
        except Exception as error:
            refused[name] = type(error).__name__
