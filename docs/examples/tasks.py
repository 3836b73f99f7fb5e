"""A tool that takes an hour: as a task it outlives its connection, and its process."""

import os
import secrets
from functools import partial
from pathlib import Path

import trio

from trio_mcp import Context, Registry, serve
from trio_mcp.extensions.tasks import TaskOptions, Tasks

SECONDS_PER_FRAME = float(os.environ.get("SECONDS_PER_FRAME", "1"))
registry = Registry("studio", extensions=[Tasks(store=os.environ.get("TASKS"))])


@registry.tool(task=True)
async def render(film: str, frames: int, context: Context) -> str:
    """Render a film."""
    quality = await context.elicit("Which quality?", str)
    for frame in range(frames):
        await trio.sleep(SECONDS_PER_FRAME)
        await context.progress(frame + 1, total=frames)
    return f"{film}.mkv, {frames} frames, {quality.value}"


@registry.tool(task=TaskOptions(on_restart="run again", ttl=7 * 86_400))
async def archive(film: str, folder: Path) -> str:
    """Write a film to the archive, in place of one that was left unfinished."""
    part = trio.Path(folder) / f"{film}.{secrets.token_hex(4)}.part"
    await part.write_text(film)
    await part.replace(folder / f"{film}.mkv")
    return f"{film} is in the archive"


if __name__ == "__main__":
    trio.run(partial(serve, registry))
