"""A server with everything that the server scenarios of the conformance suite ask for.

Names, texts and keys are the suite's; each thing is registered the way a user of the library would
do it.

    python -m tests.conformance.everything_server

It listens on a free port and prints its URL.
"""

from __future__ import annotations

import base64
import os
import struct
import zlib
from functools import partial
from typing import Annotated, Any, Literal

import trio
from attrs import frozen

from trio_mcp import (
    AudioContent,
    Context,
    EmbeddedResource,
    ImageContent,
    McpError,
    PromptMessage,
    Registry,
    TextContent,
    TextResourceContents,
    ToolError,
    serve_http,
)
from trio_mcp.extensions.skills import Skill, Skills
from trio_mcp.extensions.tasks import TaskOptions, Tasks, continue_as_task

SKILLS = Skills(
    *(
        Skill(
            path,
            {
                "SKILL.md": f"---\nname: {path.split('/')[-1]}\ndescription: Do {path}\n---\n\nDo it.\n",
                "references/FORMS.md": "# Forms\n",
            },
        )
        for path in ("pdf-processing", "acme/refunds")
    ),
    page_size=1,
)

STORE = os.environ.get("EVERYTHING_STORE")
"""What several of these processes share, if it is not the only one."""

registry = Registry(
    "everything",
    version="1.0.0",
    title="Everything",
    state_keys=[base64.urlsafe_b64encode(bytes(32))] if STORE else None,
    extensions=[SKILLS, Tasks(store=STORE)],
)

_PAUSE = 0.05  # seconds, between notifications that the client is to get one by one


# -- pictures and sounds -------------------------------------------------------------------------


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """A millisecond of silence."""
    samples = b"\x80" * 8
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + layout + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


PNG = _png()
IMAGE = ImageContent(base64.b64encode(PNG).decode(), "image/png")
SOUND = AudioContent(base64.b64encode(_wav()).decode(), "audio/wav")


# -- tools: results ------------------------------------------------------------------------------


@registry.tool
async def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@registry.tool
async def test_image_content() -> ImageContent:
    """Return a picture."""
    return IMAGE


@registry.tool
async def test_audio_content() -> AudioContent:
    """Return a sound."""
    return SOUND


@registry.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource with its contents."""
    return EmbeddedResource(
        TextResourceContents(
            "test://embedded-resource",
            "This is an embedded resource content.",
            mime_type="text/plain",
        )
    )


@registry.tool
async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return text, a picture and a resource."""
    data = '{"test":"data","value":123}'
    contents = TextResourceContents(
        "test://mixed-content-resource", data, mime_type="application/json"
    )
    return [TextContent("Multiple content types test:"), IMAGE, EmbeddedResource(contents)]


@registry.tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


# -- tools: what is said meanwhile -----------------------------------------------------------------


@registry.tool
async def test_tool_with_logging(context: Context) -> str:
    """Send log messages while it works."""
    await context.info("Tool execution started")
    await trio.sleep(_PAUSE)
    await context.info("Tool processing data")
    await trio.sleep(_PAUSE)
    await context.info("Tool execution completed")
    return "Three messages were logged."


@registry.tool
async def test_logging_tool(context: Context) -> str:
    """Send log messages of every level, to those who asked for them."""
    await context.debug("a detail")
    await context.info("some news")
    await context.error("a mistake")
    return "Three messages were logged."


@registry.tool
async def test_tool_with_progress(context: Context) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        await context.progress(done, total=100)
        await trio.sleep(_PAUSE)
    return "All of it is done."


@registry.tool
async def test_reconnection(context: Context) -> str:
    """Close the stream in the middle of the work, so that the client has to come back."""
    context.close_sse_stream()
    await trio.sleep(2 * _PAUSE)
    return "Reconnection test completed successfully"


# -- tools: questions -------------------------------------------------------------------------------


@frozen
class Person:
    """Who the user is."""

    username: Annotated[str, {"description": "User's response"}]
    email: Annotated[str, {"description": "User's email address"}]


@frozen
class Name:
    """A name."""

    name: str


@frozen
class Color:
    """A colour."""

    color: str


@frozen
class Deletion:
    """Yes or no."""

    confirm: bool


@frozen
class Confirmation:
    """Yes or no."""

    ok: bool


@frozen
class Usage:
    """What a prompt is for."""

    context: str


@frozen
class Profile:
    """A form whose fields are all filled in."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


OPTIONS = ["option1", "option2", "option3"]
CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
    "required": [],
}


@registry.tool
async def test_sampling(prompt: str, context: Context) -> str:
    """Have the client's model write something."""
    return f"LLM response: {(await context.sample(prompt, max_tokens=100)).text}"


@registry.tool
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user who they are."""
    answer = await context.elicit(message, Person)
    return f"User response: {answer.action}, {answer.content}"


@registry.tool
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the user to fill in a form that has defaults."""
    answer = await context.elicit("Please review your profile.", Profile)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@registry.tool
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask the user to choose, in every way that there is."""
    answer = await context.elicit("Please choose.", CHOICES)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@registry.tool
async def test_streaming_elicitation(context: Context) -> str:
    """Ask the user something while the response streams."""
    await context.progress(0, total=1)
    return f"Hello, {(await context.elicit('What is your name?', Name)).value.name}!"


@registry.tool
async def test_missing_capability(context: Context) -> str:
    """Need a client that samples."""
    return (await context.sample("Say something.", max_tokens=10)).text


@registry.tool
async def test_input_required_result_elicitation(context: Context) -> str:
    """Ask for a name."""
    answer = await context.elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.value.name}!"


@registry.tool
async def test_input_required_result_sampling(context: Context) -> str:
    """Ask the client's model for a capital."""
    question = "What is the capital of France?"
    return (await context.sample(question, max_tokens=100, key="capital_question")).text


@registry.tool
async def test_input_required_result_list_roots(context: Context) -> list[str]:
    """Ask the client for its roots."""
    return [root.uri for root in await context.roots(key="client_roots")]


@registry.tool
async def test_input_required_result_request_state(context: Context) -> str:
    """Ask for a confirmation, with a state that comes back."""
    answer = await context.elicit("Please confirm", Confirmation, key="confirm")
    return f"state-ok: {answer.value.ok}"


@registry.tool
async def test_input_required_result_tampered_state(context: Context) -> str:
    """Ask for a confirmation, with a state that nobody may change."""
    answer = await context.elicit("Please confirm", Confirmation, key="confirm")
    return f"untouched: {answer.value.ok}"


@registry.tool
async def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask three questions at once."""
    heard = {}

    async def ask_name() -> None:
        answer = await context.elicit("What is your name?", Name, key="user_name")
        heard["name"] = answer.value.name

    async def ask_model() -> None:
        answer = await context.sample("Generate a greeting", max_tokens=50, key="greeting")
        heard["greeting"] = answer.text

    async def ask_roots() -> None:
        heard["roots"] = str(len(await context.roots(key="client_roots")))

    async with trio.open_nursery() as nursery:
        for each in (ask_name, ask_model, ask_roots):
            nursery.start_soon(each)
    return f"{heard['greeting']} {heard['name']}, roots: {heard['roots']}"


@registry.tool
async def test_input_required_result_multi_round(context: Context) -> str:
    """Ask one question after the other."""
    name = (await context.elicit("Step 1: What is your name?", Name, key="step1")).value.name
    question = "Step 2: What is your favorite color?"
    color = (await context.elicit(question, Color, key="step2")).value.color
    return f"{name} likes {color}."


@registry.tool
async def test_input_required_result_capabilities(context: Context) -> str:
    """Ask whoever can be asked: the user, or else the model."""
    if context.supports("elicitation", "form"):
        return (await context.elicit("What is your name?", Name, key="user_name")).value.name
    return (await context.sample("Invent a name.", max_tokens=20, key="invented_name")).text


# -- tools: tasks ----------------------------------------------------------------------------------


@registry.tool
async def greet(name: str) -> str:
    """Greet somebody; never a task."""
    return f"Hello, {name}!"


@registry.tool(task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time."""
    await trio.sleep(seconds)
    return f"computed {label}"


@registry.tool(task=TaskOptions(required=True))
async def failing_job() -> str:
    """Fail in a second, as a task only."""
    await trio.sleep(1)
    raise ToolError("This job always fails")


@registry.tool(task=True)
async def protocol_error_job() -> str:
    """Fail by an error of the protocol."""
    raise McpError(-32603, "This job always breaks")


@registry.tool(task=True)
async def confirm_delete(filename: str, context: Context) -> str:
    """Ask before something is deleted."""
    answer = await context.elicit(f"Delete {filename}?", Deletion)
    return f"deleted {filename}" if answer.accepted and answer.value.confirm else "kept"


@registry.tool(task=True)
async def ask_later(seconds: float, context: Context) -> str:
    """Take some time, and ask."""
    await trio.sleep(seconds)
    return (await context.elicit("Who?", Name)).value.name


@registry.tool(task=True)
async def multi_input(context: Context) -> str:
    """Ask two things at once."""
    answers = {}

    async def ask(what: str) -> None:
        answers[what] = (await context.elicit(f"Which {what}?", Name, key=what)).value.name

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "first")
        nursery.start_soon(ask, "second")
    return f"{answers['first']} and {answers['second']}"


@registry.tool(task=TaskOptions(required=True, at_once=False))
async def test_tool_with_task(context: Context) -> str:
    """Ask first, and go on as a task."""
    answer = await context.elicit("What is your name?", Name, key="user_name")
    await continue_as_task()
    return f"Hello, {answer.value.name}!"


# -- tools: schemas -------------------------------------------------------------------------------


@registry.tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(**person: Any) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return f"{', '.join(person)} came."


@registry.tool(name="test_x_mcp_header")
async def travel(
    region: Annotated[str, {"x-mcp-header": "Region"}],
    priority: Annotated[int, {"x-mcp-header": "Priority"}] = 0,
) -> str:
    """Take arguments that travel in headers as well."""
    return f"{region}, {priority}"


# -- tools: changes -------------------------------------------------------------------------------


async def test_extra_tool() -> str:
    """Be there for a moment."""
    return "Here I am."


async def test_extra_prompt() -> str:
    """Be there for a moment."""
    return "Here I am."


@registry.tool
async def test_trigger_tool_change() -> str:
    """Add a tool, or take it out again; both at once where other instances are to have the same."""
    if "test_extra_tool" not in registry.tools:
        registry.add_tool(test_extra_tool)
        if not STORE:
            return "There is one more tool."
    registry.remove_tool("test_extra_tool")
    return "The list of tools has changed."


@registry.tool
async def test_trigger_prompt_change() -> str:
    """Add a prompt, or take it out again, likewise."""
    if "test_extra_prompt" not in registry.prompts:
        registry.add_prompt(test_extra_prompt)
        if not STORE:
            return "There is one more prompt."
    registry.remove_prompt("test_extra_prompt")
    return "The list of prompts has changed."


# -- resources ------------------------------------------------------------------------------------


@registry.resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that stays as it is."""
    return "This is the content of the static text resource."


@registry.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture that stays as it is."""
    return PNG


@registry.resource("test://watched-resource")
async def watched_resource() -> str:
    """A text that may be subscribed to."""
    return "This is the content of the watched resource."


@registry.resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> dict[str, Any]:
    """Data for any id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# -- prompts --------------------------------------------------------------------------------------


@registry.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@registry.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument.
        arg2: Second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


registry.add_completion(
    ["paris", "park", "party"], prompt="test_prompt_with_arguments", argument="arg1"
)


@registry.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:
    """A prompt with a resource in it.

    Args:
        resourceUri: URI of the resource to embed.
    """
    contents = TextResourceContents(
        resourceUri, "Embedded resource content for testing.", mime_type="text/plain"
    )
    return [
        PromptMessage("user", EmbeddedResource(contents)),
        PromptMessage("user", TextContent("Please process the embedded resource above.")),
    ]


@registry.prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt with a picture in it."""
    return [
        PromptMessage("user", IMAGE),
        PromptMessage("user", TextContent("Please analyze the image above.")),
    ]


@registry.prompt
async def test_input_required_result_prompt(context: Context) -> str:
    """A prompt that needs to know more before it is written."""
    question = "What context should the prompt use?"
    usage = (await context.elicit(question, Usage, key="user_context")).value
    return f"Use this context: {usage.context}"


async def main() -> None:
    """Serve until cancelled."""
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, store=STORE)
        handle = await nursery.start(serve, registry, "127.0.0.1", 0)
        print(handle.url, flush=True)


if __name__ == "__main__":
    trio.run(main)
