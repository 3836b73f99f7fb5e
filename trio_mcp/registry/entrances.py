"""Checks where a program calls the library, with messages that say what to do."""

import trio


def check_trio(name: str) -> None:
    """Raise `RuntimeError` if an async function of this name is not called under Trio."""
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            f"{name} runs on Trio: call it from an async function that trio.run(...) runs. "
            "A program on asyncio takes connect, Registry, http_app and serve from trio_mcp.aio; "
            "client.run_in_trio(…) calls for it what runs on Trio only."
        )
