"""A server with resources of all kinds, which its tools change: `library.py [DIRECTORY]`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import trio
from attrs import frozen

from trio_mcp import Limits, Registry, serve
from trio_mcp.wire.errors import ResourceNotFound

CONFIG = "config://app"
POEM = "text://poem"
PIXEL = "bytes://pixel"
PIXEL_BYTES = bytes(range(256))
USER = "users://{id}/profile"
DOCS = "docs:///{+path}"


@frozen
class Profile:
    """Who somebody is."""

    id: int
    name: str


def make(directory: str | Path | None = None, *, page_size: int | None = 2) -> Registry:
    """Make the registry; the files below the directory are resources, too."""
    registry = Registry("library", version="1.0", page_size=page_size, cache_ttl=60)
    _add_resources(registry)
    _add_changing_tools(registry)
    if directory is not None:
        registry.add_directory(DOCS, directory)

    @registry.prompt
    async def greet(name: str) -> str:
        return f"Greet {name}."

    return registry


def _add_resources(registry: Registry) -> None:
    @registry.resource(CONFIG, cache_ttl=2.5, cache_scope="public")
    async def config() -> dict[str, object]:
        return {"debug": True, "name": "ünïcode"}

    @registry.resource(POEM)
    def poem() -> str:
        return "a line\nanother line"

    @registry.resource(PIXEL, mime_type="image/png", size=len(PIXEL_BYTES))
    async def pixel() -> bytes:
        return PIXEL_BYTES

    @registry.resource(USER)
    async def profile(id: int) -> Profile:
        if id == 0:
            raise ResourceNotFound("users://0/profile")
        return Profile(id, f"user {id}")


def _add_changing_tools(registry: Registry) -> None:
    @registry.tool
    async def touch(uri: str, times: int = 1) -> int:
        """Say that a resource has changed."""
        for _ in range(times):
            registry.notify_resource_updated(uri)
        return times

    @registry.tool
    def touch_in_a_thread(uri: str, times: int = 1) -> str:
        """Say it in a worker thread."""
        for _ in range(times):
            registry.notify_resource_updated(uri)
        return threading.current_thread().name

    @registry.tool
    async def add(kind: str, name: str) -> None:
        """Add a tool, a resource or a prompt."""

        async def added() -> str:
            return name

        if kind == "tools":
            registry.add_tool(added, name=name)
        elif kind == "prompts":
            registry.add_prompt(added, name=name)
        else:
            registry.add_resource(name, added)

    @registry.tool
    async def remove(kind: str, name: str) -> None:
        """Take one out."""
        if kind == "tools":
            registry.remove_tool(name)
        elif kind == "prompts":
            registry.remove_prompt(name)
        else:
            registry.remove_resource(name)


async def main(directory: str | None = None) -> None:
    """Serve it on stdio, with so much grace that a test sees when it is used."""
    await serve(make(directory), limits=Limits(eof_grace=60.0, shutdown_grace=60.0))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
