"""`trio-mcp doctor`: which layers stand around the functions of a registry."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.support import CommandLine
from trio_mcp import Registry
from trio_mcp.cli.doctor.layers import chains_of, chains_of_target
from trio_mcp.compose.openapi import openapi
from trio_mcp.middleware import McpCall

SERVER = '''
from trio_mcp import Registry

print("imported")
registry = Registry("small", version="1.0")


@registry.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@registry.tool
async def double(a: int) -> int:
    """Double a number."""
    return 2 * a


@registry.tool
async def halve(a: int) -> int:
    """Halve a number."""
    return a // 2
'''


async def through(call: McpCall, call_next: Any) -> Any:
    return await call_next(call)


def shown(registry: Registry) -> dict[str, str]:
    return {" > ".join(each.layers): ", ".join(each.entries) for each in chains_of(registry)}


def test_entries_with_the_same_layers_are_shown_together() -> None:
    registry = Registry("test")

    @registry.tool
    def add(a: int, b: int) -> int:
        return a + b

    @registry.prompt
    def ask() -> str:
        return ""

    @registry.resource("a://b")
    async def read() -> str:
        return ""

    @registry.resource("a://{b}")
    async def read_some(b: str) -> str:
        return b

    assert shown(registry) == {
        "answering > converting > thread": "tool add, prompt ask",
        "answering > converting > function": "resource a://b, resource template a://{b}",
    }


def test_the_servers_layers_stand_outside_of_those_of_entries() -> None:
    inner = Registry("inner", middleware=[through])
    inner.log_handler()

    @inner.tool
    async def add(a: int, b: int) -> int:
        return a + b

    assert shown(inner) == {
        "answering > log_bridge > converting > middleware > function": "tool add"
    }
    assert shown(Registry("none")) == {}


@pytest.mark.usefixtures("importing")
def test_a_registry_that_cannot_be_imported_has_none(tmp_path: Path) -> None:
    (tmp_path / "broken_one.py").write_text("raise ValueError")
    assert trio.run(chains_of_target, str(tmp_path / "broken_one.py"), 3) == []


NOTES = {
    "openapi": "3.1.0",
    "info": {"title": "Notes", "version": "1"},
    "servers": [{"url": "https://notes.example"}],
    "paths": {
        "/notes": {"get": {"operationId": "list_notes"}},
        "/notes/{id}": {"get": {"operationId": "note"}},
    },
}


def test_what_is_mounted_and_what_a_document_describes_has_layers_too() -> None:
    notes = openapi(NOTES, resources="note")
    assert shown(notes) == {
        "answering > converting > function": "tool list_notes, resource template notes:///notes/{id}"
    }
    outer, inner = Registry("outer"), Registry("inner", middleware=[through])

    @inner.tool
    async def one() -> int:
        return 1

    outer.mount(inner, "i")
    outer.mount(notes, "n")
    assert repr(outer.tools["i_one"]) == (
        "<Tool i_one: forwarding > mounting > converting > mounting > middleware > function>"
    )
    assert repr(outer.tools["n_list_notes"]) == (
        "<Tool n_list_notes: forwarding > mounting > converting > function>"
    )
    assert shown(outer) == {
        "answering > forwarding > mounting > converting > mounting > middleware > function": "tool i_one",
        "answering > forwarding > mounting > converting > function": (
            "tool n_list_notes, resource template notes://n//notes/{id}"
        ),
    }


REMOTE = """
import sys
from trio_mcp import Registry, Remote

registry = Registry("outer")
registry.mount(Remote([sys.executable, "small_server.py"], name="small", wait=60), "s")
"""


@pytest.mark.long
@pytest.mark.usefixtures("importing")
def test_entries_of_a_server_elsewhere_are_shown_as_well(cli: CommandLine, tmp_path: Path) -> None:
    serving = "\nimport trio\nfrom trio_mcp import serve\ntrio.run(serve, registry)\n"
    (tmp_path / "small_server.py").write_text(SERVER + serving)
    (tmp_path / "remote_one.py").write_text(REMOTE)
    done = cli("doctor", "remote_one.py", "--json")
    assert json.loads(done.out)["chains"] == [
        {
            "layers": [
                *("answering", "forwarding", "mounting", "converting", "mounting", "function")
            ],
            "entries": ["tool s_add", "tool s_double", "tool s_halve"],
        }
    ]


@pytest.mark.long
@pytest.mark.usefixtures("importing")
def test_the_command_shows_them(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SERVER)
    done = cli("doctor", "small.py")
    assert done.status == 0
    assert "answering > converting > thread: tool add\n" in done.out
    assert "answering > converting > function: tool double, tool halve\n" in done.out
