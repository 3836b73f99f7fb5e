"""A calculator: four tools, and an error that the caller is meant to read."""

import logging

import trio

from trio_mcp import Registry, ToolError, serve

registry = Registry("calculator", version="1.0")


@registry.tool
async def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@registry.tool
async def subtract(a: float, b: float) -> float:
    """Subtract b from a.

    Args:
        a: What to subtract from.
        b: What to subtract.
    """
    return a - b


@registry.tool
async def multiply(a: float, b: float) -> float:
    """Multiply two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a * b


@registry.tool
async def divide(a: float, b: float) -> float:
    """Divide a by b.

    Args:
        a: What to divide.
        b: What to divide by; not 0.
    """
    if b == 0:
        raise ToolError("Error: Division by zero")
    return a / b


if __name__ == "__main__":
    # The log goes to stderr, as on stdio it must: stdout is for messages of the protocol only.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    trio.run(serve, registry)
