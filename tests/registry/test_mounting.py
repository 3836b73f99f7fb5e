"""A registry in another one: what it offers is there, and is what it would be alone (L4)."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from tests.support.client import LEGACY, MODERN
from trio_mcp import (
    Client,
    Context,
    ControlRouter,
    Handlers,
    McpError,
    Registry,
    SchemaError,
    TextResourceContents,
    ToolDescription,
    ToolError,
    connect,
    handle_message,
)
from trio_mcp.compose import Provider, forwarded_entry
from trio_mcp.errors import LifespanError, ResourceNotFound
from trio_mcp.extensions.apps import UI, App, Apps, Page
from trio_mcp.extensions.skills import Skills
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.middleware import McpCall, McpRequest
from trio_mcp.registry import catalogue_of
from trio_mcp.wire.content import ResourceLink

pytestmark = pytest.mark.requirement("L4")

LOGGER = logging.getLogger("garden")


def garden(**options: Any) -> Registry:
    """A registry with everything that a registry may have."""

    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[list[str]]:
        yield ["a spade"]

    registry = Registry("garden", lifespan=lifespan, **options)

    @registry.tool(title="Dig", annotations={"readOnlyHint": False}, timeout=3.0)
    async def dig(depth: int, context: Context) -> dict[str, Any]:
        """Dig a hole."""
        await context.progress(1, depth, "digging")
        await context.info("earth")
        LOGGER.warning("a stone")
        return {"called": context.tool, "state": context.lifespan, "depth": depth}

    @registry.tool
    def wait(times: int) -> int:
        """Wait in a thread."""
        return times

    @registry.tool
    async def fail(how: str) -> str:
        """Fail in one of several ways."""
        raise {"told": ToolError("no rain"), "code": McpError(-32011, "closed", {"until": "May"})}[
            how
        ]

    @registry.tool
    async def ask(context: Context) -> str:
        """Ask."""
        return (await context.elicit("Which bed?", str)).value

    @registry.tool
    async def link() -> list[ResourceLink]:
        """Link to a bed, and to a page."""
        return [
            ResourceLink("beds://north", "north"),
            ResourceLink("https://example.com/beds", "a page"),
        ]

    @registry.resource("beds://{name}")
    async def bed(name: str, context: Context) -> Any:
        """A bed."""
        if name == "nowhere":
            raise ResourceNotFound(context.tool)
        return [TextResourceContents(context.tool, f"{name} with {context.lifespan}")]

    @registry.resource("plan:today", cache_ttl=5)
    async def plan() -> str:
        """What to do."""
        return "sow"

    @registry.prompt
    async def advise(plant: str, when: str = "now") -> str:
        """Ask for advice."""
        return f"How do I grow {plant} {when}?"

    registry.add_completion(["rose", "rue", "oak"], prompt="advise", argument="plant")
    registry.add_completion(["north", "south"], resource="beds://{name}", argument="name")
    return registry


def alone(part: Registry) -> Registry:
    return part


def prefixed(part: Registry) -> Registry:
    registry = Registry("house")
    registry.mount(part, "g")
    return registry


def bare(part: Registry) -> Registry:
    registry = Registry("house")
    registry.mount(part)
    return registry


def deep(part: Registry) -> Registry:
    inner = Registry("inner")
    inner.mount(part, "b")
    outer = Registry("outer")
    outer.mount(inner, "a")
    return outer


PLACES: dict[Callable[[Registry], Registry], tuple[str, str]] = {
    alone: ("", ""),
    bare: ("", ""),
    prefixed: ("g_", "g/"),
    deep: ("a_b_", "a/b/"),
}
each_place = pytest.mark.parametrize("place", list(PLACES))
each_end = pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1], MODERN[-1]])


# -- the same in every place ------------------------------------------------------------------

Scene = Callable[[Client, str, str, list[Any]], Awaitable[Any]]


async def calls(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """A call, with what it says on the way."""
    progress: list[Any] = []
    result = await client.call_tool(
        f"{name}dig", {"depth": 2}, on_progress=lambda *told: progress.append(told[:2])
    )
    await wait_all_tasks_blocked()
    return result.value(dict), progress, list(heard)


async def refusals(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """Arguments that do not fit, and failures."""
    threaded = (await client.call_tool(f"{name}wait", {"times": 3})).text
    told = (await client.call_tool(f"{name}fail", {"how": "told"})).error
    with pytest.raises(McpError) as closed:
        await client.call_tool(f"{name}fail", {"how": "code"})
    with pytest.raises(McpError) as missing:
        await client.request("tools/call", {"name": "dug", "arguments": {}})
    return threaded, told, closed.value.code, closed.value.data, missing.value.code


async def links(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """Links lead to what can be read."""
    result = await client.request("tools/call", {"name": f"{name}link", "arguments": {}})
    if client.revision == LEGACY[0]:  # which has no links
        return None
    bed, page = result["content"]
    contents = (await client.read_resource(bed["uri"])).contents
    return bed["uri"].replace(uri, "", 1), page["uri"], len(contents)


async def reads(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """Resources, templates, and what is not there."""
    listed = [resource.uri for resource in await client.list_resources()]
    templates = [template.uri_template for template in await client.list_resource_templates()]
    plan = (await client.read_resource(f"plan:{uri}today")).contents
    bed = (await client.read_resource(f"beds://{uri}north")).contents
    with pytest.raises(ResourceNotFound):
        await client.read_resource(f"beds://{uri}nowhere")
    told = [
        (contents.uri.replace(uri, "", 1), getattr(contents, "text", None))
        for contents in (*plan, *bed)
    ]
    return [item.replace(uri, "", 1) for item in listed + templates], told


async def prompts(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """Prompts and completions."""
    (listed,) = await client.list_prompts()
    written = await client.get_prompt(f"{name}advise", {"plant": "rue"})
    if client.revision == LEGACY[0]:
        return listed.arguments, written.messages
    plants = await client.complete("plant", "r", prompt=f"{name}advise")
    whens = await client.complete("when", "", prompt=f"{name}advise")
    beds = await client.complete("name", "n", resource=f"beds://{uri}{{name}}")
    return listed.arguments, written.messages, plants.values, whens.values, beds.values


async def changes(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """News of resources and of lists."""
    registry, told = heard[0], []
    watched = client.subscribe(resources=[f"plan:{uri}today"], lists=["tools", "prompts"])
    async with watched as stream:
        registry.notify_resource_updated("plan:today")
        told.append(await anext(stream))
        registry.add_tool(nothing)
        told.append(await anext(stream))
        await client.refresh_tools()
        there = f"{name}nothing" in client.tools
        registry.remove_tool("nothing")
        told.append(await anext(stream))
        registry.add_prompt(nothing)
        registry.remove_prompt("advise")
        told.append(await anext(stream))
        gone = [prompt.name.removeprefix(name) for prompt in await client.list_prompts()]
    told = [
        evolve(change, uri="plan:today") if hasattr(change, "uri") else change for change in told
    ]
    return told, there, gone


async def questions(client: Client, name: str, uri: str, heard: list[Any]) -> Any:
    """A question, and its answer."""
    if client.revision == LEGACY[0]:
        return None
    return (await client.call_tool(f"{name}ask", {})).text


async def nothing() -> str:
    return ""


async def answer(params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": "north"}}


@each_end
@pytest.mark.parametrize("scene", [calls, refusals, links, reads, prompts, changes, questions])
async def test_it_is_what_it_would_be_alone(scene: Scene, revision: str) -> None:
    gave = []
    for place, (name, uri) in PLACES.items():
        part = garden()
        heard: list[Any] = [part] if scene is changes else []
        handler = part.log_handler()
        LOGGER.addHandler(handler)
        try:
            async with connect(
                place(part),
                revision=revision,
                handlers=Handlers(elicitation=answer),
                on_log=lambda *told, heard=heard: heard.append(told),
                log_level="info",
            ) as client:
                gave.append(await scene(client, name, uri, heard))
        finally:
            LOGGER.removeHandler(handler)
    assert gave[1:] == gave[:1] * (len(PLACES) - 1)


def shown(registry: Registry) -> list[Any]:
    return [
        *registry.tools.values(),
        *registry.resources.values(),
        *registry.resource_templates.values(),
        *registry.prompts.values(),
    ]


def test_all_that_it_offers_is_there_in_its_order() -> None:
    part = garden(scopes=["garden"], tool_timeout=7.0)
    registry = prefixed(part)
    names = ["g_dig", "g_wait", "g_fail", "g_ask", "g_link"]
    assert list(registry.tools) == names
    assert list(registry.resources) == ["plan:g/today"]
    assert list(registry.resource_templates) == ["beds://g/{name}"]
    assert list(registry.prompts) == ["g_advise"]
    assert catalogue_of(registry).offers == catalogue_of(part).offers
    assert [tool.timeout for tool in registry.tools.values()] == [3.0, 7.0, 7.0, 7.0, 7.0]
    assert {entry.scopes for entry in shown(registry)} == {frozenset({"garden"})}
    assert catalogue_of(registry).has_scopes
    title = registry.tools["g_dig"].description.title
    assert (title, registry.resources["plan:g/today"].cache_ttl) == ("Dig", 5)


# -- places ------------------------------------------------------------------------------------


@pytest.mark.requirement("Q7")
@pytest.mark.parametrize("deep", [False, True])
async def test_lists_have_the_order_of_the_mounts_whichever_was_there_first(deep: bool) -> None:
    def tools(*names: str) -> list[Any]:
        async def answer(params: Any, context: Context) -> Any: ...

        return [
            forwarded_entry(ToolDescription(name, {"type": "object"}), answer) for name in names
        ]

    registry = Registry("house")
    far = [Provider(name) for name in ("a", "b", "c")]
    for provider in far:
        registry.mount(provider, provider.name)
    for provider in reversed(far):
        await provider.replace("tools", tools("y", "x"))
    registry.add_tool(nothing)
    if deep:
        inner, registry = registry, Registry("street")
        last = Provider("d")
        await last.replace("tools", tools("z"))
        registry.mount(inner)
        registry.mount(last)
    async with connect(registry) as client:
        own = ["nothing", "a_y", "a_x", "b_y", "b_x", "c_y", "c_x"]
        assert list(client.tools) == [*own, *(["z"] if deep else [])]


def test_names_that_are_taken_are_refused_and_nothing_is_half_there() -> None:
    part, registry = garden(), Registry("house")
    registry.add_tool(nothing, name="fail")
    with pytest.raises(SchemaError) as refused:
        registry.mount(part)
    assert str(refused.value) == (
        "Tool 'fail' of 'garden' cannot be 'fail' in 'house', which has one of that name already; "
        "mount 'garden' with another prefix, or give it another name"
    )
    assert list(registry.tools) == ["fail"]
    assert not registry.resources
    registry.mount(part, "g")
    with pytest.raises(SchemaError, match=r"which has one of that name from 'garden' already"):
        registry.mount(part, "g")
    registry.mount(part, "h")
    assert len(registry.tools) == 1 + 2 * len(part.tools)
    registry.add_tool(nothing, name="h_later")
    with pytest.raises(SchemaError, match=r"'later' of 'garden' cannot be 'h_later' in 'house'"):
        part.add_tool(nothing, name="later")
    assert "later" not in part.tools
    assert "g_later" not in registry.tools
    with pytest.raises(SchemaError, match="'g_dig' is registered already"):
        registry.add_tool(nothing, name="g_dig")


def test_the_same_part_twice_without_a_prefix_has_no_room_for_what_comes() -> None:
    part, registry = Registry("part"), Registry("house")
    registry.mount(part)
    registry.mount(part)
    with pytest.raises(SchemaError, match="'nothing' would be in 'house' twice"):
        part.add_tool(nothing)
    assert not part.tools


def test_circles_are_refused() -> None:
    first, second, third = Registry("first"), Registry("second"), Registry("third")
    first.mount(second)
    second.mount(third)
    for inner, outer in ((first, first), (first, third), (second, third)):
        with pytest.raises(SchemaError, match="it would contain itself"):
            outer.mount(inner, "x")


@pytest.mark.parametrize("prefix", ["", "a b", "a/b", 7, "{x}"])
def test_prefixes_that_are_none(prefix: Any) -> None:
    with pytest.raises(SchemaError, match="it needs one or more of A-Z"):
        Registry("house").mount(garden(), prefix)


def test_names_that_become_too_long() -> None:
    registry, part = Registry("house"), Registry("part")
    registry.mount(part, "p" * 100)
    with pytest.raises(SchemaError, match="128 characters are allowed"):
        part.add_tool(nothing, name="n" * 28)
    part.add_tool(nothing, name="n" * 27)


def test_what_is_no_part() -> None:
    with pytest.raises(TypeError, match="mount takes a Registry"):
        Registry("house").mount("https://example.com/mcp")  # type: ignore[arg-type]


def test_what_a_part_has_is_removed_there() -> None:
    registry = prefixed(garden())
    with pytest.raises(ValueError, match="remove it there"):
        registry.remove_tool("g_dig")
    with pytest.raises(ValueError, match="remove it there"):
        registry.remove_resource("plan:g/today")
    with pytest.raises(KeyError):
        registry.remove_tool("dig")


def test_unmounting_takes_everything_out_and_frees_it() -> None:
    part = garden()
    registry = deep(part)
    (mount,) = catalogue_of(registry).mounts
    inner = mount.provider.registry
    registry.add_tool(nothing)
    dead = [weakref.ref(item) for item in (part, inner, mount, registry.tools["a_b_dig"])]
    inner.unmount(part)
    assert shown(registry) == [registry.tools["nothing"]]
    inner.mount(part, "again")
    registry.unmount(inner)
    assert shown(registry) == [registry.tools["nothing"]]
    with pytest.raises(ValueError, match="'inner' is not mounted in 'outer'"):
        registry.unmount(inner)
    part.add_tool(nothing)
    assert list(registry.tools) == ["nothing"]
    del part, inner, mount
    gc.collect()
    assert [reference() for reference in dead] == [None] * 4


async def test_a_call_goes_on_when_its_part_is_taken_out() -> None:
    part, registry = Registry("part"), Registry("house")
    go_on = trio.Event()

    @part.tool
    async def wait() -> str:
        await go_on.wait()
        return "done"

    registry.mount(part, "p")
    async with connect(registry) as client, trio.open_nursery() as nursery:

        async def call() -> None:
            assert (await client.call_tool("p_wait", {})).text == "done"

        nursery.start_soon(call)
        await wait_all_tasks_blocked()
        registry.unmount(part)
        with pytest.raises(McpError, match="tools/call handler not registered"):
            await client.call_tool("p_wait", {})
        go_on.set()


# -- lifespans ----------------------------------------------------------------------------------


def logged(name: str, log: list[str], fails: str = "") -> Any:
    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[str]:
        log.append(f"+{name}")
        if fails == "opening":
            raise LookupError(name)
        try:
            yield name
        finally:
            log.append(f"-{name}")

    return lifespan


async def state_of(context: Context) -> str:
    return str(context.lifespan)


async def test_lifespans_are_opened_once_and_closed_in_reverse() -> None:
    log: list[str] = []
    parts = {name: Registry(name, lifespan=logged(name, log)) for name in "abcd"}
    for registry in parts.values():
        registry.add_tool(state_of)
    outer, shared = parts["a"], parts["d"]
    for name in "bc":
        outer.mount(parts[name], name)
        parts[name].mount(shared, "d")
    outer.mount(shared, "d")
    async with connect(outer) as client:
        assert log == ["+a", "+b", "+c", "+d"]
        names = ["state_of", "b_state_of", "b_d_state_of", "c_d_state_of", "d_state_of"]
        states = [(await client.call_tool(tool, {})).text for tool in names]
    assert states == ["a", "b", "d", "d", "d"]
    assert log == ["+a", "+b", "+c", "+d", "-d", "-c", "-b", "-a"]


async def test_a_part_that_runs_already_is_not_opened_again() -> None:
    log: list[str] = []
    part = Registry("part", lifespan=logged("part", log))
    part.add_tool(state_of)
    registry = Registry("house")
    registry.mount(part, "p")
    assert catalogue_of(registry).needs_running
    async with part.running():
        assert not catalogue_of(registry).needs_running
        assert await registry.call("p_state_of") == "part"
    assert log == ["+part", "-part"]


async def test_mounting_while_serving() -> None:
    log: list[str] = []
    registry, part = Registry("house"), Registry("part", lifespan=logged("part", log))
    part.add_tool(state_of)
    async with connect(registry) as client:
        with pytest.raises(RuntimeError, match=r"async with provider.running\(\)"):
            registry.mount(part, "p")
        async with part.running():
            registry.mount(part, "p")
            await client.refresh_tools()
            assert (await client.call_tool("p_state_of", {})).text == "part"


async def test_a_part_that_cannot_be_opened() -> None:
    log: list[str] = []
    registry = Registry("house", lifespan=logged("house", log))
    registry.mount(Registry("part", lifespan=logged("part", log, "opening")))
    with pytest.raises(LifespanError, match="the lifespan of part failed"):
        async with connect(registry):
            pass
    assert log == ["+house", "+part", "-house"]


# -- middleware, logs, extensions ---------------------------------------------------------------


async def test_middleware_sees_what_its_own_registry_knows() -> None:
    seen: list[Any] = []

    def noting(name: str) -> Any:
        async def note(call: McpCall, call_next: Any) -> Any:
            seen.append((name, call.name, call.target, call.context.lifespan))
            return await call_next(call)

        return note

    log: list[str] = []
    outer, middle, inner = (
        Registry(each, lifespan=logged(each, log), middleware=around)
        for each, around in (("o", [noting("o")]), ("m", []), ("i", [noting("i")]))
    )
    inner.add_tool(state_of)
    middle.add_tool(state_of)

    async def read(id: int, context: Context) -> str:
        return f"{context.tool} {context.lifespan}"

    inner.add_resource("x://{id}", read)
    inner.add_completion(["1"], resource="x://{id}", argument="id")
    middle.mount(inner, "i")
    outer.mount(middle, "m")
    async with connect(outer) as client:
        assert (await client.call_tool("m_i_state_of", {})).text == "i"
        assert (await client.call_tool("m_state_of", {})).text == "m"
        (contents,) = (await client.read_resource("x://m/i/7")).contents
        await client.complete("id", "", resource="x://m/i/{id}")
    assert getattr(contents, "text", None) == "x://7 i"
    assert seen == [
        ("o", "m_i_state_of", "m_i_state_of", "o"),
        ("i", "state_of", "state_of", "i"),
        ("o", "m_state_of", "m_state_of", "o"),
        ("o", "x://m/i/{id}", "x://m/i/7", "o"),
        ("i", "x://{id}", "x://7", "i"),
        ("o", "id of x://m/i/{id}", "id of x://m/i/{id}", "o"),
        ("i", "id of x://{id}", "id of x://{id}", "i"),
    ]


async def test_the_log_handlers_of_all_registries_that_a_call_comes_through_count() -> None:
    part = garden()
    registry = prefixed(part)
    other = Registry("other")
    said: list[Any] = []
    handlers = [one.log_handler() for one in (registry, part, other)]
    for handler in handlers:
        LOGGER.addHandler(handler)
    try:
        async with connect(
            registry, on_log=lambda *told: said.append(told), log_level="warning"
        ) as client:
            await client.call_tool("g_dig", {"depth": 1})
            await wait_all_tasks_blocked()
    finally:
        for handler in handlers:
            LOGGER.removeHandler(handler)
    assert len(said) == 2


def test_an_extension_of_the_served_registrys_own_serves_its_parts() -> None:
    part = Registry("part", extensions=[Tasks()])
    part.add_tool(nothing, task=True)
    registry = Registry("house", extensions=[Tasks()])
    registry.mount(part, "p")
    assert registry.tools["p_nothing"].extensions == part.tools["nothing"].extensions
    with pytest.raises(SchemaError, match="is mounted; add extensions before"):
        part.add_extension(Apps())


async def test_a_call_that_is_a_task_runs_in_its_part() -> None:
    log: list[str] = []
    part = Registry("part", extensions=[Tasks()], lifespan=logged("part", log))
    part.add_tool(state_of, task=True)
    registry = Registry("house", extensions=[Tasks()])
    registry.mount(part, "p")
    created: list[str] = []
    tasks = TasksClient(on_created=lambda id, tool: created.append(tool))
    async with connect(registry, extensions=[tasks], era="modern") as client:
        assert (await client.call_tool("p_state_of", {})).text == "part"
    assert created == ["p_state_of"]


async def test_it_is_served_without_a_connection() -> None:
    part = garden()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "g_dig", "arguments": {"depth": 1}}
    message = {**call, "params": params}
    control = {"subtype": "mcp_message", "server_name": "house", "message": message}
    async with ControlRouter({"house": prefixed(part)}) as router:
        told = await router.handle(
            {"type": "control_request", "request_id": "1", "request": control}
        )
    line = await handle_message(prefixed(part), json.dumps(message).encode())
    assert json.loads(line or b"")["result"]["structuredContent"]["state"] == ["a spade"]
    assert "a spade" in str(told)


def test_skills_and_middleware_around_requests_are_not_lost_silently(tmp_path: Any) -> None:
    part = Registry("part", extensions=[Skills(tmp_path)])
    with pytest.raises(SchemaError, match=r"what its extension .* serves would be lost"):
        Registry("house", extensions=[Skills(tmp_path)]).mount(part, "p")

    async def pass_on(request: McpRequest, call_next: Any) -> Any:
        return await call_next(request)

    with pytest.raises(SchemaError, match="it has middleware around requests"):
        Registry("house").mount(Registry("part", middleware=[pass_on]))


async def test_a_tool_still_finds_its_page() -> None:
    part = Registry("part", extensions=[Apps(Page("ui://face", "<!doctype html><p>"))])
    part.add_tool(nothing, extensions={UI: App("ui://face")})
    registry = Registry("house", extensions=[Apps()])
    registry.mount(part, "p")
    meta = registry.tools["p_nothing"].description.meta or {}
    assert catalogue_of(registry).find_resource(meta["ui"]["resourceUri"])


# -- quantities ---------------------------------------------------------------------------------


def registry_with(tools: int, name: str = "part") -> Registry:
    registry = Registry(name)
    for number in range(tools):
        registry.add_tool(nothing, name=f"t{number}")
    return registry


async def test_a_thousand_parts() -> None:
    registry, part = Registry("house"), registry_with(1)
    for number in range(1000):
        registry.mount(part, f"p{number}")
    part.add_tool(nothing)
    assert len(registry.tools) == 2000
    assert await registry.call("p999_nothing") == ""
    registry.unmount(part)
    assert not registry.tools
    assert not catalogue_of(part).followers


@pytest.mark.long
async def test_a_hundred_thousand_tools_through_two_levels() -> None:
    part = registry_with(100_000)
    registry = deep(part)
    assert len(registry.tools) == 100_000
    part.remove_tool("t99999")
    assert "a_b_t99999" not in registry.tools
    assert await registry.call("a_b_t50000") == ""
    registry.unmount(catalogue_of(registry).mounts[0].provider.registry)
    assert not registry.tools


@pytest.mark.long
async def test_ten_thousand_changes_keep_the_two_in_step() -> None:
    part = garden()
    registry = deep(part)
    before = list(registry.tools)

    def change() -> None:
        for _ in range(5000):
            part.add_tool(nothing)
            part.remove_tool("nothing")

    async with connect(registry) as client:
        await trio.to_thread.run_sync(change)
        await client.refresh_tools()
        assert list(client.tools) == before == list(registry.tools)
