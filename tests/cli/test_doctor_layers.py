"""`trio-mcp doctor`: which layers stand around the functions of a registry."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import CommandLine
from trio_mcp import Registry
from trio_mcp.cli.doctor.layers import chains_of, chains_of_target
from trio_mcp.layers import spans
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


@pytest.fixture(autouse=True)
def _without_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans have a layer where OpenTelemetry is loaded, as other tests in the process may do."""
    monkeypatch.setattr(spans, "is_traced", lambda: False)


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
    assert chains_of_target(str(tmp_path / "broken_one.py")) == []


@pytest.mark.usefixtures("importing")
def test_the_command_shows_them(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SERVER)
    done = cli("doctor", "small.py")
    assert done.status == 0
    assert "answering > converting > thread: tool add\n" in done.out
    assert "answering > converting > function: tool double, tool halve\n" in done.out
    done = cli("doctor", "small.py", "--json")
    assert json.loads(done.out)["chains"] == [
        {"layers": ["answering", "converting", "thread"], "entries": ["tool add"]},
        {
            "layers": ["answering", "converting", "function"],
            "entries": ["tool double", "tool halve"],
        },
    ]
