"""A server made with the low level of the official Python SDK: every feature beside plain tools.

Its lists come page by page, it serves legacy subscriptions and log levels, it says for how long a
client may keep what it reads, and it asks several questions at once.
"""

import base64
import warnings
from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

warnings.simplefilter("ignore", MCPDeprecationWarning)
Context = ServerRequestContext[Any, Any]

PIXEL = base64.b64encode(b"\x89not really a picture").decode()
TITLES = {"books://1/title": "Emma", "books://2/title": "Middlemarch"}
RESOURCES = [
    types.Resource(
        uri="config://app",
        name="config",
        title="Settings",
        description="How the library is run.",
        mime_type="application/json",
        size=13,
        annotations=types.Annotations(audience=["assistant"], priority=0.5),
        _meta={"example.com/owner": "librarian"},
    ),
    types.Resource(uri="data://pixel", name="pixel", mime_type="image/png"),
    types.Resource(uri="books://1/title", name="Emma"),
]
TEMPLATES = [
    types.ResourceTemplate(uri_template="books://{id}/title", name="title"),
    types.ResourceTemplate(uri_template="notes://{user}/{note}", name="note"),
    types.ResourceTemplate(uri_template="more://{x}", name="more"),
]
PROMPTS = [
    types.Prompt(
        name="review",
        title="Review a text",
        description="Have a text reviewed.",
        arguments=[
            types.PromptArgument(name="text", description="The text.", required=True),
            types.PromptArgument(name="language", required=False),
        ],
    ),
    types.Prompt(name="introduce"),
    types.Prompt(name="empty"),
]
STRING, NUMBER = {"type": "string"}, {"type": "number"}
LEVELS = list(types.LoggingLevel.__args__)  # type: ignore[attr-defined]
PAGE = 2

bus = InMemorySubscriptionBus()
subscribed: set[str] = set()
level = "debug"


def page(items: Sequence[Any], params: types.PaginatedRequestParams | None) -> tuple[Any, Any]:
    start = int(params.cursor) if params and params.cursor else 0
    end = start + PAGE
    return list(items[start:end]), str(end) if end < len(items) else None


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def elicitation(message: str, **properties: Any) -> types.ElicitRequest:
    form = types.ElicitRequestFormParams(message=message, requested_schema=schema(**properties))
    return types.ElicitRequest(params=form)


async def answers_to(context: Context, params: Any, questions: dict[str, Any]) -> dict[str, Any]:
    """The answers to questions, as JSON; empty as long as a modern client has not given them."""
    kinds: dict[str, type[Any]] = {
        "elicitation/create": types.ElicitResult,
        "sampling/createMessage": types.CreateMessageResult,
        "roots/list": types.ListRootsResult,
    }
    if context.session.can_send_request:
        found: dict[str, Any] = {
            key: await context.session.send_request(each, kinds[each.method])
            for key, each in questions.items()
        }
    else:
        found = params.input_responses or {}
        assert found or params.request_state is None
        assert not found or params.request_state == "kept as it is: ünïcode"
    return {key: each.model_dump(by_alias=True, mode="json") for key, each in found.items()}


def asking(questions: dict[str, Any]) -> types.InputRequiredResult:
    state = "kept as it is: ünïcode"
    return types.InputRequiredResult(input_requests=questions, request_state=state)


# -- resources, prompts, completion ---------------------------------------------------------------


async def list_resources(context: Context, params: Any) -> types.ListResourcesResult:
    found, cursor = page(RESOURCES, params)
    return types.ListResourcesResult(resources=found, next_cursor=cursor)


async def list_templates(context: Context, params: Any) -> types.ListResourceTemplatesResult:
    found, cursor = page(TEMPLATES, params)
    return types.ListResourceTemplatesResult(resource_templates=found, next_cursor=cursor)


async def read(context: Context, params: Any) -> Any:
    uri = str(params.uri)
    if uri == "config://app":
        text = types.TextResourceContents(
            uri=uri, text='{"open":true}', mime_type="application/json"
        )
        return types.ReadResourceResult(contents=[text], ttl_ms=90_000, cache_scope="public")
    if uri == "data://pixel":
        blob = types.BlobResourceContents(uri=uri, blob=PIXEL, mime_type="image/png")
        return types.ReadResourceResult(contents=[blob])
    if uri in TITLES:
        title = types.TextResourceContents(uri=uri, text=TITLES[uri])
        return types.ReadResourceResult(contents=[title])
    if uri.startswith("notes://"):
        user, note = uri.removeprefix("notes://").split("/")
        message = f"Show {user}'s note {note}?"
        questions = {"consent": elicitation(message, value={"type": "boolean"})}
        answers = await answers_to(context, params, questions)
        if not answers:
            return asking(questions)
        text = types.TextResourceContents(
            uri=uri, text=f"{note}: {answers['consent']['content']['value']}"
        )
        return types.ReadResourceResult(contents=[text])
    code = -32002 if context.session.can_send_request else types.INVALID_PARAMS
    raise MCPError(code, "Resource not found", {"uri": uri})


async def list_prompts(context: Context, params: Any) -> types.ListPromptsResult:
    found, cursor = page(PROMPTS, params)
    return types.ListPromptsResult(prompts=found, next_cursor=cursor)


async def get_prompt(context: Context, params: Any) -> Any:
    def says(role: Any, text: str) -> types.PromptMessage:
        return types.PromptMessage(role=role, content=types.TextContent(text=text))

    given = params.arguments or {}
    if params.name == "review" and "text" in given:
        text = f"Review this {given.get('language', 'english')} text: {given['text']}"
        messages = [says("user", text), says("assistant", "I will.")]
        return types.GetPromptResult(description="Have a text reviewed.", messages=messages)
    if params.name == "introduce":
        questions = {"who": elicitation("Who are you?", name=STRING, age=NUMBER)}
        answers = await answers_to(context, params, questions)
        if not answers:
            return asking(questions)
        name = answers["who"]["content"]["name"]
        return types.GetPromptResult(messages=[says("user", f"I am {name}.")])
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt or missing argument: {params.name}")


async def complete(context: Context, params: Any) -> types.CompleteResult:
    if isinstance(params.ref, types.PromptReference):
        found = types.Completion(values=["english", "german"], total=2, has_more=False)
        return types.CompleteResult(completion=found)
    chosen = params.context.arguments["user"] if params.context else "nobody"
    values = [f"{chosen}-{params.argument.value}"]
    return types.CompleteResult(completion=types.Completion(values=values, total=7, has_more=True))


# -- saying and asking ----------------------------------------------------------------------------


async def steps(context: Context, params: Any) -> Any:
    count = params.arguments["count"]
    for number in range(1, count + 1):
        await context.session.report_progress(number, count, f"step {number}")
    return "done"


async def speak(context: Context, params: Any) -> Any:
    for each, data, logger in (
        ("debug", "quietly", None),
        ("info", {"said": "aloud"}, "library"),
        ("warning", "loudly", None),
    ):
        if LEVELS.index(each) >= LEVELS.index(level):
            await context.session.send_log_message(each, data, logger, context.request_id)  # type: ignore[arg-type]
    return "spoken"


async def set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    global level
    level = params.level
    return types.EmptyResult()


async def register(context: Context, params: Any) -> Any:
    words = types.SamplingMessage(role="user", content=types.TextContent(text="Greet Ada."))
    questions: dict[str, Any] = {
        "who": elicitation("Who are you?", name=STRING, age=NUMBER),
        "greeting": types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[words], max_tokens=20)
        ),
        "roots": types.ListRootsRequest(),
    }
    answers = await answers_to(context, params, questions)
    if not answers:
        return asking(questions)
    reader, text = answers["who"]["content"], answers["greeting"]["content"]["text"]
    return f"{reader['name']} {reader['age']}; {text}; {answers['roots']['roots'][0]['uri']}"


async def enquire(context: Context, params: Any) -> Any:
    questions = {"who": elicitation("Who are you?", name=STRING, age=NUMBER)}
    answers = await answers_to(context, params, questions)
    return answers["who"]["action"] if answers else asking(questions)


# -- what changes ---------------------------------------------------------------------------------


async def add(context: Context, params: Any) -> Any:
    session = context.session
    known: dict[str, tuple[Any, Any]] = {
        "tools": (ToolsListChanged(), session.send_tool_list_changed),
        "resources": (ResourcesListChanged(), session.send_resource_list_changed),
        "prompts": (PromptsListChanged(), session.send_prompt_list_changed),
    }
    event, tell = known[params.arguments["kind"]]
    if session.can_send_request:
        await tell()
    await bus.publish(event)
    return "added"


async def touch(context: Context, params: Any) -> Any:
    for uri in params.arguments["uris"]:
        if context.session.can_send_request and uri in subscribed:
            await context.session.send_resource_updated(uri)
        await bus.publish(ResourceUpdated(uri))
    return "touched"


async def subscribe(context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    subscribed.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(context: Context, params: Any) -> types.EmptyResult:
    subscribed.remove(str(params.uri))
    return types.EmptyResult()


TOOLS = {
    "steps": (steps, schema(count=NUMBER)),
    "speak": (speak, schema()),
    "register": (register, schema()),
    "enquire": (enquire, schema()),
    "add": (add, schema(kind=STRING)),
    "touch": (touch, schema(uris={"type": "array"})),
}


async def list_tools(context: Context, params: Any) -> types.ListToolsResult:
    tools = [types.Tool(name=name, input_schema=each) for name, (_, each) in TOOLS.items()]
    found, cursor = page(tools, params)
    return types.ListToolsResult(tools=found, next_cursor=cursor)


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
    function, _ = TOOLS[params.name]
    result = await function(context, params)
    if isinstance(result, types.InputRequiredResult):
        return result
    return types.CallToolResult(content=[types.TextContent(text=result)])


server = Server(
    "official",
    version="2.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_subscriptions_listen=ListenHandler(bus),
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=set_level,
    cache_hints={"resources/read": CacheHint(ttl_ms=1000)},
)


async def main() -> None:
    options = server.create_initialization_options(NotificationOptions(True, True, True))
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, options)


anyio.run(main)
