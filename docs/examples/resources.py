"""Resources: what a model, or its user, can read by URI."""

from pathlib import Path

import trio

from trio_mcp import Registry, ResourceNotFound, serve

registry = Registry("museum", version="1.0")

PAINTINGS = {
    1503: "Mona Lisa",
    1632: "The Anatomy Lesson of Dr. Nicolaes Tulp",
    1665: "Girl with a Pearl Earring",
}


@registry.resource("museum://hours", title="Opening hours", cache_ttl=3600, cache_scope="public")
async def hours() -> dict[str, str]:
    """When the museum is open."""
    return {"weekdays": "10:00 to 18:00", "weekends": "9:00 to 20:00"}


@registry.resource("museum://ticket", mime_type="image/gif")
def ticket() -> bytes:
    """A picture of a ticket; a plain function, so it runs in a worker thread."""
    return bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")


@registry.resource("museum://paintings/{year}")
async def painting(year: int) -> str:
    """The painting of a year."""
    if year not in PAINTINGS:
        raise ResourceNotFound(f"museum://paintings/{year}")
    return PAINTINGS[year]


@registry.resource("museum://search{?words,limit}")
async def search(words: str, limit: int = 10) -> list[str]:
    """The paintings whose titles contain some words."""
    found = [title for title in PAINTINGS.values() if words.casefold() in title.casefold()]
    return found[:limit]


registry.add_directory("guides:///{+path}", Path(__file__).parents[1] / "guides")


if __name__ == "__main__":
    trio.run(serve, registry)
