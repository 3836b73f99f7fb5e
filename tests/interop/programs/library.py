"""A server with every feature beside plain tools, that clients can meet."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import trio
from attrs import frozen

from trio_mcp import (
    Annotations,
    BlobResourceContents,
    Context,
    EmbeddedResource,
    ImageContent,
    ModelHint,
    ModelPreferences,
    PromptMessage,
    Registry,
    ResourceNotFound,
    TextResourceContents,
    serve,
)
from trio_mcp.wire.payloads import ToolDescription
from trio_mcp.wire.questions import ToolUseContent

registry = Registry("library", version="1.0", title="A library", page_size=2)

PIXEL = b"\x89not really a picture"
TITLES = {1: "Emma", 2: "Middlemarch"}


@frozen
class Reader:
    """Somebody who borrows books."""

    name: str
    age: int
    shelf: Literal["poetry", "prose"] = "prose"


# -- resources ------------------------------------------------------------------------------------


@registry.resource(
    "config://app",
    title="Settings",
    annotations=Annotations(audience=["assistant"], priority=0.5),
    meta={"example.com/owner": "librarian"},
)
async def config() -> dict[str, Any]:
    """How the library is run."""
    return {"open": True, "floors": 3}


@registry.resource("data://pixel", mime_type="image/png", size=len(PIXEL))
async def pixel() -> bytes:
    """A picture."""
    return PIXEL


@registry.resource("text://motto")
def motto() -> str:
    """A text, from a worker thread."""
    return "grüß dich\n\u2028😀"


class Visits:
    """How often a resource was read."""

    number = 0


@registry.resource("count://visits", cache_ttl=60, cache_scope="public")
async def visits() -> str:
    """How often this was read; it may be kept for a minute."""
    Visits.number += 1
    return str(Visits.number)


@registry.resource("books://both")
async def both_kinds() -> list[TextResourceContents | BlobResourceContents]:
    """Two pieces at once."""
    blob = base64.b64encode(PIXEL).decode()
    return [TextResourceContents("books://1", "Emma"), BlobResourceContents("books://2", blob)]


@registry.resource("books://{id}/title", title="Titles", mime_type="text/plain")
async def title_of(id: int) -> str:
    """The title of a book."""
    if id not in TITLES:
        raise ResourceNotFound(f"books://{id}/title")
    return TITLES[id]


@registry.resource("notes://{user}/{note}")
async def note_of(user: str, note: str, context: Context) -> str:
    """A note, which its owner has to agree to."""
    answer = await context.elicit(f"Show {user}'s note {note}?", bool)
    return f"{context.tool}: {answer.content}"


registry.add_directory("files:///{+path}", Path(__file__).parent)


@registry.completion(resource="books://{id}/title", argument="id")
async def ids(value: str) -> list[str]:
    return [str(number) for number in range(250) if str(number).startswith(value)]


@registry.completion(resource="notes://{user}/{note}", argument="note")
async def notes(value: str, arguments: dict[str, str]) -> list[str]:
    return [f"{arguments.get('user', 'nobody')}-{value}"]


# -- prompts --------------------------------------------------------------------------------------


@registry.prompt(title="Review a text")
async def review(
    text: str, language: Literal["english", "german"] = "english", depth: int = 1
) -> str:
    """Have a text reviewed.

    Args:
        text: The text.
        language: What it is written in.
        depth: How closely to look.
    """
    return f"Review this {language} text {depth + 1} times: {text}"


@registry.prompt
async def picture() -> list[Any]:
    """Blocks of several kinds, from both sides."""
    contents = TextResourceContents("text://motto", "hello", mime_type="text/plain")
    return [
        ImageContent(base64.b64encode(PIXEL).decode(), "image/png"),
        EmbeddedResource(contents),
        PromptMessage("assistant", "I see."),
    ]


@registry.prompt
async def introduce(context: Context) -> str:
    """A prompt that asks the user first."""
    reader = (await context.elicit("Who are you?", Reader)).value
    return f"I am {reader.name}, {reader.age}."


# -- saying ---------------------------------------------------------------------------------------


@registry.tool
async def steps(count: int, context: Context) -> str:
    """Report progress at each step."""
    for number in range(1, count + 1):
        await context.progress(number, total=count, message=f"step {number}")
    return "done"


@registry.tool
async def speak(context: Context) -> str:
    """Say something at each of three levels."""
    await context.debug("quietly")
    await context.info({"said": "aloud"}, logger="library")
    await context.warning("loudly")
    return "spoken"


# -- asking ---------------------------------------------------------------------------------------


@registry.tool
async def register(context: Context) -> str:
    """Ask one question after another, of every kind."""
    answer = await context.elicit("Who are you?", Reader)
    if not answer.accepted:
        return f"nobody: {answer.action}"
    reader = answer.value
    written = await context.sample(
        f"Greet {reader.name}.",
        max_tokens=20,
        system_prompt="Be brief.",
        model_preferences=ModelPreferences(hints=[ModelHint("small")], speed_priority=1.0),
    )
    roots = await context.roots()
    return (
        f"{reader.name} {reader.age} {reader.shelf}; {written.text}; {roots[0].uri} {roots[0].name}"
    )


@registry.tool
async def survey(context: Context) -> str:
    """Ask two questions side by side."""
    found: dict[str, str] = {}

    async def ask(about: str) -> None:
        found[about] = (await context.elicit(f"Your {about}?", str, key=about)).value

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "name")
        nursery.start_soon(ask, "town")
    return " from ".join(found[about] for about in ("name", "town"))


@registry.tool
async def pay(context: Context) -> str:
    """Send the user to a web page."""
    answer = await context.elicit_url("A fine is due.", "https://example.com/pay?bill=7")
    return answer.action


@registry.tool
async def consult(context: Context) -> str:
    """Let the client's model use a tool."""
    look_up = ToolDescription("look_up", {"type": "object"}, description="Look a book up.")
    written = await context.sample("Which book?", max_tokens=9, tools=[look_up], tool_choice="auto")
    blocks = written.content if isinstance(written.content, list) else [written.content]
    (use,) = (each for each in blocks if isinstance(each, ToolUseContent))
    return f"{use.name} {use.input} {written.stop_reason}"


# -- what changes ---------------------------------------------------------------------------------


async def latest() -> str:
    """Something that was not there before."""
    return "new"


ADDERS: dict[str, Callable[[], object]] = {
    "tools": lambda: registry.add_tool(latest),
    "resources": lambda: registry.add_resource("news://latest", latest),
    "prompts": lambda: registry.add_prompt(latest),
}


@registry.tool
async def add(kind: Literal["tools", "resources", "prompts"]) -> None:
    """Add one to a list."""
    ADDERS[kind]()


@registry.tool
async def touch(uris: list[str]) -> None:
    """Say that resources have changed."""
    for uri in uris:
        registry.notify_resource_updated(uri)


if __name__ == "__main__":
    trio.run(serve, registry)
