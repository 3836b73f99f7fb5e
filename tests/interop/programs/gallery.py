"""A server with one tool for each kind of result, and of failure, that clients can meet."""

import base64
import math

import trio
from attrs import field, frozen

from trio_mcp import McpError, Registry, ToolError, serve
from trio_mcp.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from trio_mcp.wire.payloads import ToolAnnotations

registry = Registry(
    "gallery",
    version="1.2.3",
    title="A gallery",
    instructions="Look, but do not touch.",
    page_size=4,
)

PIXEL = base64.b64encode(b"not really a picture").decode()


@frozen
class Point:
    """A place in the plane."""

    x: float
    y: float
    labels: list[str] = field(factory=list)


@registry.tool(title="Say it", annotations=ToolAnnotations(read_only_hint=True))
async def text(words: str) -> str:
    """Return a text."""
    return words


@registry.tool
async def structured(x: float, y: float = 0.0) -> Point:
    """Return an object."""
    return Point(x, y, ["here", "ünïcode"])


@registry.tool
async def distance(point: Point) -> float:
    """Return a number, for an object."""
    return math.hypot(point.x, point.y)


@registry.tool
async def listed(count: int) -> list[int]:
    """Return a list."""
    return list(range(count))


@registry.tool
async def image() -> ImageContent:
    """Return a picture."""
    return ImageContent(PIXEL, "image/png")


@registry.tool
async def mixed() -> list[
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
]:
    """Return one block of each kind."""
    return [
        TextContent("first"),
        ImageContent(PIXEL, "image/png"),
        AudioContent(PIXEL, "audio/wav"),
        ResourceLink("file:///readme.txt", "readme", mime_type="text/plain"),
        EmbeddedResource(TextResourceContents("memo:1", "remember", mime_type="text/plain")),
    ]


@registry.tool
async def nothing() -> None:
    """Return nothing."""


@registry.tool
def in_a_thread(words: str) -> str:
    """Return a text from a worker thread."""
    return words


@registry.tool
async def refuse() -> str:
    """Fail with a text for the caller."""
    raise ToolError("Error: not today")


@registry.tool
async def crash() -> str:
    """Fail in a way that is nobody's business."""
    raise LookupError("the secret of the gallery")


@registry.tool
async def protocol_error() -> str:
    """Fail with a JSON-RPC error."""
    raise McpError(-32050, "The gallery is closed", {"opens": "tomorrow"})


@registry.tool(timeout=0.05)
async def slow() -> str:
    """Outrun its time limit."""
    await trio.sleep_forever()
    raise AssertionError


class Waiting:
    """The calls that wait, for those who want to see them gone."""

    calls = 0
    changed = trio.lowlevel.ParkingLot()


@registry.tool
async def wait() -> str:
    """Wait until cancelled."""
    Waiting.calls += 1
    Waiting.changed.unpark_all()
    try:
        await trio.sleep_forever()
    finally:
        Waiting.calls -= 1
        Waiting.changed.unpark_all()
    raise AssertionError


@registry.tool
async def until_waiting(calls: int) -> str:
    """Return as soon as so many calls wait."""
    while Waiting.calls != calls:
        await Waiting.changed.park()
    return "so it is"


if __name__ == "__main__":
    trio.run(serve, registry)
