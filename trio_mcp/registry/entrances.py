"""What is checked where a program comes in, so that it is told what to do."""

import trio


def check_trio(name: str) -> None:
    """Make sure that an async function is called under Trio.

    Args:
        name: How the function is written.

    Raises:
        RuntimeError: It is called under asyncio, or without any event loop.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            f"{name} runs on Trio: call it from an async function that trio.run(...) runs. "
            "A program on asyncio takes connect, Registry, http_app and serve from trio_mcp.aio."
        )
