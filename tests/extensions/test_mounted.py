"""A part that has an extension: what it adds is there where the part is mounted (L4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.extensions.later import LATER, NUDGE, Later, LaterClient, make
from tests.extensions.ways import client_of, each_era
from tests.support.tools import echo
from trio_mcp import Context, McpError, Registry, SchemaError, connect
from trio_mcp.extending import ExtensionMethod, ExtensionRequest, Method, ServerExtension
from trio_mcp.extensions.skills import Skill, Skills, SkillsClient
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.registry import catalogue_of

pytestmark = pytest.mark.requirement("L4")
GREETING = "---\nname: greeting\ndescription: How to greet people\n---\nSay hello."


def house(*parts: tuple[Registry, str | None]) -> Registry:
    """A registry with a tool of its own, and some parts."""
    registry = Registry("house")
    registry.add_tool(echo)
    for part, prefix in parts:
        registry.mount(part, prefix)
    return registry


@each_era
@pytest.mark.parametrize("way", ["in-process", "http"])
@pytest.mark.parametrize("deep", [False, True])
async def test_everything_that_it_adds_is_there(way: str, deep: bool, era: Any) -> None:
    ours, theirs = LaterClient(), Later()
    registry = house((make(theirs), "p"))
    if deep:
        between, registry = registry, Registry("outer")
        registry.mount(between)
    async with client_of(registry, way, era, extensions=[ours]) as client:
        assert client.capabilities["extensions"] == {LATER: {"most": 10}}
        assert client.tools["p_paint"].details["_meta"][LATER] == {"always": False}
        assert await client.call_tool("p_paint", {"thing": "door"}, returns=str) == "door is blue"
        counted = await client.request("later/count")
        assert (counted["count"], counted["settings"]) == (1, {"patience": 3})
        assert (await client.request("later/ask"))["colour"] == "blue"
        assert ours.told[-1] == {"colour": "blue"}
        await client.notify(NUDGE, {"how": "hard"})
        await client.ping()
        assert theirs.nudges == ["hard"]
    assert theirs.life == ["opened", "closed"]


async def test_it_runs_around_the_calls_of_its_own_part_alone() -> None:
    async with client_of(
        house((make(), "p")), "in-process", "modern", extensions=[LaterClient()]
    ) as client:
        now = await client.call_tool("p_add", {"a": 1, "b": 2})
        assert now.meta is not None
        assert LATER in now.meta
        other = await client.call_tool("echo", {"text": "x"})
        assert LATER not in (other.meta or {})


class Who(ServerExtension):
    """Tells whose state it works with."""

    identifier = "com.example/who"

    def methods(self) -> list[ExtensionMethod]:
        row = Method(name="who/is", repeatable=True)
        return [
            ExtensionMethod(row=row, handler=self.tell, scopes=["who"], open_to_all=True),
        ]

    async def tell(self, request: ExtensionRequest) -> dict[str, Any]:
        return {"request": request.registry_state, "serving": request.state}

    @asynccontextmanager
    async def lifespan(self, serving: Any) -> AsyncIterator[Any]:
        yield serving.state


def named(name: str, **options: Any) -> Registry:
    """A registry whose lifespan yields its name."""

    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[str]:
        yield name

    return Registry(name, lifespan=lifespan, **options)


async def test_it_works_with_the_state_the_scopes_and_the_time_of_its_part() -> None:
    part = named("part", extensions=[Who()], scopes=["part"], tool_timeout=7)
    registry = named("front")
    registry.mount(part)
    async with connect(registry) as client:
        told = await client.request("who/is")
    assert (told["request"], told["serving"]) == ("part", "part")
    extensions = catalogue_of(registry).extensions
    assert extensions is not None
    method = extensions.methods["who/is"]
    assert (method.scopes, method.timeout) == ({"who", "part"}, 7)


class Clashes(ServerExtension):
    """Answers with a result of a type that another extension has."""

    identifier = "com.example/clashes"
    result_types = ("later",)


async def test_tasks_of_a_part_are_tasks() -> None:
    async def state_of(context: Context) -> str:
        return str(context.lifespan)

    parts = [named(name, extensions=[Tasks()]) for name in ("one", "two")]
    for part in parts:
        part.add_tool(state_of, task=True)
    registry = house((parts[0], "one"), (parts[1], "two"))
    created: list[str] = []
    tasks = TasksClient(on_created=lambda id, tool: created.append(tool))
    async with connect(registry, extensions=[tasks], era="modern") as client:
        assert (await client.call_tool("one_state_of")).text == "one"
        assert (await client.call_tool("two_state_of")).text == "two"
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert created == ["one_state_of", "two_state_of"], "one extension serves both"


async def test_skills_of_a_part_are_served(tmp_path: Path) -> None:
    part = Registry("part", extensions=[Skills(Skill("greeting", {"SKILL.md": GREETING}))])
    skills = SkillsClient("house")
    async with connect(house((part, None)), extensions=[skills]):
        assert [each.name for each in await skills.list()] == ["greeting"]
        loaded = await skills.load("skill://greeting/SKILL.md")
        assert "Say hello." in loaded.text


def test_what_cannot_be_there_is_refused_with_words() -> None:
    part = Registry("part", extensions=[Skills(Skill("greeting", {"SKILL.md": GREETING}))])
    with pytest.raises(SchemaError, match=r"URIs of its own; leave the prefix out"):
        house((part, "p"))
    other = Registry("other", extensions=[Skills()])
    with pytest.raises(SchemaError, match=r"serves would be lost, as there is one here already"):
        house((part, None), (other, None))
    mounted = Registry("mounted")
    house((mounted, None))
    with pytest.raises(SchemaError, match=r"which is mounted itself: .* mount it before"):
        mounted.mount(part)
    registry = house((make(), "p"))
    with pytest.raises(SchemaError, match="another extension has the result type 'later' already"):
        registry.mount(Registry("clashing", extensions=[Clashes()]))
    assert [mount.provider.name for mount in catalogue_of(registry).mounts] == ["jobs"]


async def test_what_comes_while_it_is_served_is_refused_and_what_goes_ends_with_it() -> None:
    part = make()
    registry = house((part, "p"))
    late = Registry("late", extensions=[Tasks()])
    async with connect(registry, extensions=[LaterClient()]) as client, late.running():
        with pytest.raises(SchemaError, match=r"which is being served: .* mount it before"):
            registry.mount(late)
        registry.unmount(part)
        assert (await client.request("later/count"))["count"] == 0
    async with connect(registry, extensions=[LaterClient()]) as client:
        assert "extensions" not in client.capabilities
        with pytest.raises(McpError, match="later/count"):
            await client.request("later/count")
