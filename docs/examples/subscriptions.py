"""Subscriptions: clients hear of what changes while they are connected."""

import trio

from trio_mcp import Registry, ToolError, serve

registry = Registry("board", version="1.0")

notes: dict[str, str] = {}


@registry.resource("board://notes")
async def all_notes() -> dict[str, str]:
    """All notes on the board."""
    return notes


@registry.tool
async def pin(name: str, text: str) -> None:
    """Pin a note to the board, or write another text on it."""
    is_new = name not in notes
    notes[name] = text
    if is_new:
        add_note(name)  # clients that listen to the list of resources are notified
    registry.notify_resource_updated(f"board://notes/{name}")
    registry.notify_resource_updated("board://notes")


def add_note(name: str) -> None:
    """Make a resource of a note."""

    async def note() -> str:
        return notes[name]

    registry.add_resource(f"board://notes/{name}", note, name=name)


@registry.tool
async def unpin(name: str) -> None:
    """Take a note away."""
    if name not in notes:
        raise ToolError(f"There is no note {name!r}")
    del notes[name]
    registry.remove_resource(f"board://notes/{name}")
    registry.notify_resource_updated("board://notes")


if __name__ == "__main__":
    trio.run(serve, registry)
