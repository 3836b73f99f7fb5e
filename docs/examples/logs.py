"""Logging: messages to the client, at the level that it asks for."""

import logging

import trio

from trio_mcp import Context, Registry, serve

registry = Registry("bakery", version="1.0")

log = logging.getLogger("bakery")
log.setLevel(logging.INFO)
log.addHandler(registry.log_handler())  # what is logged during a request goes to its caller


@registry.tool
async def bake(loaves: int, context: Context) -> str:
    """Bake some bread."""
    await context.debug("The oven is warm.")
    await context.info({"loaves": loaves}, logger="oven")
    if loaves > 10:
        await context.warning("That is a lot of bread.")
    return f"{loaves} loaves"


@registry.tool
def clean() -> str:
    """Clean up; a plain function that logs as any Python code does."""
    log.info("Sweeping the %s", "floor")
    return "clean"


if __name__ == "__main__":
    trio.run(serve, registry)
