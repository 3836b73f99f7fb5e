"""A server made with the high level of the official Python SDK: every feature beside plain tools."""

import warnings
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import (
    AssistantMessage,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
    UserMessage,
)
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel

warnings.simplefilter("ignore", MCPDeprecationWarning)
server = MCPServer("official", version="2.0", log_level="CRITICAL")

Ctx = Context[Any, Any]
PIXEL = b"\x89not really a picture"
TITLES = {"1": "Emma", "2": "Middlemarch"}


class Reader(BaseModel):
    name: str
    age: int


class Consent(BaseModel):
    value: bool


async def ask(ctx: Ctx, message: str, schema: type[BaseModel]) -> types.InputRequiredResult | Any:
    """The answer to a question; to a modern client that has not given one, the question."""
    if ctx.protocol_version != "2026-07-28":
        answer = await ctx.elicit(message, schema)
        return answer.data.model_dump()  # type: ignore[union-attr]
    if ctx.input_responses:
        (found,) = ctx.input_responses.values()
        return found.content  # type: ignore[union-attr]
    form = types.ElicitRequestFormParams(
        message=message, requested_schema=schema.model_json_schema()
    )
    asked: dict[str, Any] = {"it": types.ElicitRequest(params=form)}
    return types.InputRequiredResult(input_requests=asked, request_state="kept")


# -- resources and prompts ------------------------------------------------------------------------


@server.resource("config://app", title="Settings", mime_type="application/json")
async def config() -> dict[str, Any]:
    """How the library is run."""
    return {"open": True}


@server.resource("data://pixel", mime_type="image/png")
async def pixel() -> bytes:
    return PIXEL


@server.resource("books://{id}/title")
async def title(id: str) -> str:
    """The title of a book."""
    if id not in TITLES:
        raise ResourceNotFoundError(f"no book {id}")
    return TITLES[id]


@server.resource("notes://{user}/{note}")
async def note(user: str, note: str, ctx: Ctx) -> Any:
    """A note, which its owner has to agree to."""
    answer = await ask(ctx, f"Show {user}'s note {note}?", Consent)
    return answer if isinstance(answer, types.InputRequiredResult) else f"{note}: {answer['value']}"


@server.prompt(title="Review a text")
async def review(text: str, language: str = "english") -> list[Any]:
    """Have a text reviewed."""
    return [UserMessage(f"Review this {language} text: {text}"), AssistantMessage("I will.")]


@server.prompt()
async def introduce(ctx: Ctx) -> Any:
    """A prompt that asks the user first."""
    answer = await ask(ctx, "Who are you?", Reader)
    return answer if isinstance(answer, types.InputRequiredResult) else f"I am {answer['name']}."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    if isinstance(ref, types.PromptReference):
        return types.Completion(values=["english", "german"], total=2, has_more=False)
    chosen = (context.arguments or {}).get("user", "nobody") if context else "nobody"
    return types.Completion(values=[f"{chosen}-{argument.value}"], total=7, has_more=True)


# -- saying and asking ----------------------------------------------------------------------------


@server.tool()
async def steps(count: int, ctx: Ctx) -> str:
    for number in range(1, count + 1):
        await ctx.report_progress(number, count, f"step {number}")
    return "done"


@server.tool()
async def speak(ctx: Ctx) -> str:
    await ctx.debug("quietly")
    await ctx.info({"said": "aloud"}, logger_name="library")
    await ctx.warning("loudly")
    return "spoken"


async def who() -> Elicit[Reader]:
    return Elicit("Who are you?", Reader)


async def greeting(reader: Annotated[Reader, Resolve(who)]) -> Sample:
    words = types.TextContent(text=f"Greet {reader.name}.")
    return Sample([types.SamplingMessage(role="user", content=words)], max_tokens=20)


async def places() -> ListRoots:
    return ListRoots()


@server.tool(structured_output=False)
async def register(
    reader: Annotated[Reader, Resolve(who)],
    written: Annotated[types.CreateMessageResult, Resolve(greeting)],
    roots: Annotated[types.ListRootsResult, Resolve(places)],
) -> str:
    """Ask questions of every kind, some of them because of an answer."""
    assert isinstance(written.content, types.TextContent)
    return f"{reader.name} {reader.age}; {written.content.text}; {roots.roots[0].uri}"


@server.tool(structured_output=False)
async def enquire(outcome: Annotated[ElicitationResult[Reader], Resolve(who)]) -> str:
    """Tell how a question was answered."""
    return outcome.action


# -- what changes ---------------------------------------------------------------------------------


@server.tool()
async def add(kind: str, ctx: Ctx) -> None:
    """Say that a list has changed."""
    session: Any = ctx.session
    tell = {
        "tools": (ctx.notify_tools_changed, session.send_tool_list_changed),
        "resources": (ctx.notify_resources_changed, session.send_resource_list_changed),
        "prompts": (ctx.notify_prompts_changed, session.send_prompt_list_changed),
    }
    modern, legacy = tell[kind]
    await (modern if ctx.protocol_version == "2026-07-28" else legacy)()


@server.tool()
async def touch(uris: list[str], ctx: Ctx) -> None:
    """Say that resources have changed."""
    for uri in uris:
        await ctx.notify_resource_updated(uri)


server.run("stdio")
