"""An office with FastMCP: a server in which others are mounted."""

from fastmcp import FastMCP

calendar = FastMCP("calendar")
files = FastMCP("files")
archive = FastMCP("archive")
office = FastMCP("office", version="1.0")

EVENTS: list[str] = []


@calendar.tool
def schedule(what: str, hour: int) -> str:
    """Put something into the calendar."""
    EVENTS.append(f"{hour}:00 {what}")
    return EVENTS[-1]


@calendar.resource("calendar://today", mime_type="text/plain")
def today() -> str:
    """All that happens today."""
    return "\n".join(EVENTS)


@calendar.prompt
def plan(day: str) -> str:
    """Plan a day."""
    return f"Plan {day}."


@files.tool
def search(words: str) -> list[str]:
    """Search for files."""
    return [f"{words}.txt"]


@files.resource("files://{name}/size", mime_type="text/plain")
def size(name: str) -> str:
    """How large a file is."""
    return f"{len(name)} bytes"


@archive.tool
def restore(name: str) -> bool:
    """Bring a file back."""
    return name.endswith(".txt")


@office.tool
def hello() -> str:
    """Say hello."""
    return "Hello."


files.mount(archive, namespace="archive")
office.mount(calendar, namespace="calendar")
office.mount(files)

if __name__ == "__main__":
    office.run(show_banner=False)
