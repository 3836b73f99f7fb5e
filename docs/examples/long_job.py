"""A job that takes long: it says how far it is, can be cancelled at any time, and cleans up."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from trio_mcp import Context, Registry, ToolError, serve

registry = Registry("files", version="1.0", tool_timeout=600)

MIB = 1024 * 1024
LIST = "SHA256SUMS"


@registry.tool
async def write_checksums(directory: Path, context: Context) -> str:
    """Write the checksum of each file below a directory to the file SHA256SUMS in it."""
    files = await trio.to_thread.run_sync(files_below, directory)
    total = sum(size for _, size in files)
    read = 0

    async def advance(size: int, path: Path) -> None:
        nonlocal read
        read += size
        await context.progress(read, total=total, message=path.name)

    async with written_whole(directory / LIST) as part, await part.open("w") as output:
        for path, _ in files:
            checksum = await trio.to_thread.run_sync(checksum_of, path, advance)
            await output.write(f"{checksum}  {path.relative_to(directory)}\n")
    return f"{len(files)} files, {read} bytes"


def files_below(directory: Path) -> list[tuple[Path, int]]:
    """The files below a directory, and how long they are."""
    if not directory.is_dir():
        raise ToolError(f"There is no directory {directory}")
    found = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != LIST]
    return [(path, path.stat().st_size) for path in found]


def checksum_of(path: Path, advance: Callable[[int, Path], Awaitable[None]]) -> str:
    """Read a file, in a worker thread."""
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(MIB):
            checksum.update(piece)
            trio.from_thread.run(advance, len(piece), path)  # raises trio.Cancelled when it is time
    return checksum.hexdigest()


@asynccontextmanager
async def written_whole(path: Path) -> AsyncIterator[trio.Path]:
    """Where to write a file that is there once it is complete, and else leaves nothing behind."""
    part = trio.Path(f"{path}.part")
    try:
        yield part
        await part.rename(path)
    finally:
        with trio.move_on_after(0.5, shield=True):
            await part.unlink(missing_ok=True)


@registry.tool
def count_lines(file: Path) -> int:
    """Count the lines of a file."""
    lines = 0
    with file.open("rb") as opened:
        while piece := opened.read(MIB):
            lines += piece.count(b"\n")
            trio.from_thread.check_cancelled()  # without it, the thread would go on to the end
    return lines


if __name__ == "__main__":
    trio.run(serve, registry)
