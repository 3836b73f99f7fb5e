"""`trio-mcp serve`: the registry that a command line names, served on stdio."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import (
    ENVIRONMENT,
    EXAMPLES,
    ROOT,
    call,
    lines,
    parse,
    ping,
    run,
    running,
    text_of,
)
from trio_mcp.cli import main
from trio_mcp.cli.target import load_registry

COMMAND = [sys.executable, "-c", "from trio_mcp.cli import main; main()"]
CALCULATOR = str(EXAMPLES / "calculator.py")

TWO = """
from trio_mcp import Registry
one = Registry("first")
two = Registry("second")
number = 3
"""


def serve(*arguments: str) -> list[str]:
    return [*COMMAND, "serve", *arguments]


async def served_name(*arguments: str, **options: Any) -> str:
    """The name of the server that a command line starts."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    done = await run(serve(*arguments), lines(request), **options)
    assert done.returncode == 0
    (answer,) = parse(done.stdout)
    return str(answer["result"]["serverInfo"]["name"])


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


CommandLine = Callable[..., SystemExit]

in_this_process = pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[CommandLine]:
    """Run the command line in this process, in a folder of its own; return how it exits."""

    def run_here(*arguments: str) -> SystemExit:
        monkeypatch.setattr(sys, "argv", ["trio-mcp", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        return exit.value

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(logging.getLogger(), "handlers", logging.getLogger().handlers.copy())
    yield run_here
    for name in ("two", "calculator", "package", "package.inner"):
        sys.modules.pop(name, None)


@pytest.mark.requirement("A1", "D5")
async def test_a_registry_in_a_file() -> None:
    async with running(serve(f"{CALCULATOR}:registry")) as server:
        await server.client.initialize()
        assert text_of(await server.client.call("add", a=1, b=2)) == "3.0"
        assert await server.finish() == 0


@pytest.mark.requirement("A8")
async def test_a_registry_in_a_module_of_the_working_directory(two: Path) -> None:
    assert await served_name("two:one", cwd=two.parent) == "first"


async def test_a_file_imports_its_neighbours(two: Path) -> None:
    (two.parent / "server.py").write_text("from two import one as registry\n")
    assert await served_name(str(two.parent / "server.py"), cwd="/") == "first"


@pytest.mark.usefixtures("command_line")
def test_targets(two: Path) -> None:
    package = two.parent / "package"
    package.mkdir()
    (package / "inner.py").write_text(TWO)
    assert load_registry(CALCULATOR).name == "calculator"
    assert load_registry(f"{two}:two").name == "second"
    assert load_registry("two:two").name == "second"
    assert load_registry("package.inner:one").name == "first"


async def test_a_file_with_types_that_are_looked_up_in_its_module(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "from __future__ import annotations\n"
        "from attrs import frozen\n"
        "from trio_mcp import Registry\n"
        "registry = Registry('postponed')\n"
        "@frozen\n"
        "class Point:\n"
        "    x: int\n"
        "@registry.tool\n"
        "def mirror(point: Point) -> Point:\n"
        "    return Point(-point.x)\n"
    )
    request = lines(call(1, "mirror", point={"x": 3}))
    done = await run(serve(str(tmp_path / "server.py")), request)
    (answer,) = parse(done.stdout)
    assert answer["result"]["structuredContent"] == {"x": -3}


@in_this_process
@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("missing.py", "there is no file missing.py"),
        ("missing.py:registry", "there is no file missing.py"),
        ("missing_module:registry", "there is no module 'missing_module'"),
        ("two:missing", "two has no 'missing' (it has: one, two)"),
        ("two:number", "two:number is a int, not a Registry (it has: one, two)"),
        ("two", "two has 2 registries; say which: two:REGISTRY (it has: one, two)"),
        ("json", "json has no registries"),
    ],
)
def test_a_wrong_target_is_told_in_one_line(
    command_line: CommandLine, two: Path, target: str, told: str
) -> None:
    message = command_line("serve", target).code
    assert isinstance(message, str)
    assert message.startswith(f"trio-mcp: {told}")
    assert "\n" not in message


async def test_a_wrong_target_ends_the_process_before_anything_is_served() -> None:
    done = await run(serve("missing.py:registry"), lines(ping(1)))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"trio-mcp: there is no file missing.py\n"


@in_this_process
@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", CALCULATOR, "--log-level", "loud"],
        ["serve", CALCULATOR, "--log-format", "xml"],
        ["serve", CALCULATOR, "--tool-timeout", "soon"],
        ["serve", CALCULATOR, "--tool-timeout", "0"],
        ["serve", CALCULATOR, "--unknown"],
        ["serve", CALCULATOR, "too", "many"],
        ["unknown"],
    ],
)
def test_a_wrong_command_line_is_refused(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert command_line(*arguments).code not in (0, None)
    assert capsys.readouterr().out == "", "stdout belongs to the protocol"


async def test_a_module_that_fails_shows_where(tmp_path: Path) -> None:
    """That is for the person who wrote it, so the traceback is what helps."""
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = await run(serve("broken.py"), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"ZeroDivisionError" in done.stderr
    assert b"broken.py" in done.stderr


async def test_help_names_the_command() -> None:
    done = await run([*COMMAND, "--help"])
    assert done.returncode == 0
    assert b"serve" in done.stdout


@pytest.mark.requirement("B1")
async def test_the_tool_timeout_is_obeyed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import trio\n"
        "from trio_mcp import Registry\n"
        "registry = Registry('slow')\n"
        "@registry.tool\n"
        "async def wait() -> None:\n"
        "    await trio.sleep_forever()\n"
    )
    async with running(serve("slow.py", "--tool-timeout", "0.05"), cwd=tmp_path) as server:
        answer = await server.client.call("wait")
        assert text_of(answer) == "Tool wait timed out after 0.05 s"


@pytest.mark.requirement("G1", "B11", "A13")
async def test_the_log_as_one_json_object_a_line() -> None:
    secret = 424242.5
    requests = lines(call("one", "add", a=secret, b=1), call(2, "divide", a=secret, b=0))
    done = await run(serve(CALCULATOR, "--log-format", "json"), requests)
    assert done.returncode == 0
    assert len(parse(done.stdout)) == 2
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, entries))
    calls = {each["tool"]: each for each in entries if "tool" in each}
    assert {name: entry["outcome"] for name, entry in calls.items()} == {
        "add": "ok",
        "divide": "error",
    }
    assert calls["add"]["request_id"] == "one"
    assert calls["divide"]["request_id"] == 2
    assert len({entry["connection_id"] for entry in calls.values()}) == 1
    assert all(0 <= entry["duration"] < 10 for entry in calls.values())
    assert entries[-1]["message"].startswith("Client disconnected (EOF)")
    assert str(secret) not in done.stderr.decode()


@pytest.mark.requirement("B6", "G1")
async def test_an_exception_is_one_json_object_too(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "from trio_mcp import Registry\n"
        "registry = Registry('failing')\n"
        "@registry.tool\n"
        "def boom() -> None:\n"
        "    raise LookupError('first\\nsecond')\n"
    )
    command = serve("server.py", "--log-format", "json", "--log-level", "error")
    done = await run(command, lines(call(1, "boom")), cwd=tmp_path)
    (entry,) = map(json.loads, done.stderr.splitlines())
    assert entry["level"] == "error"
    assert entry["tool"] == "boom"
    assert "LookupError: first\nsecond" in entry["exception"]
    assert b"LookupError" not in done.stdout
    assert b"server.py" not in done.stdout


@pytest.mark.requirement("G1", "A13")
async def test_the_log_as_text_and_its_level() -> None:
    requests = lines(call(1, "add", a=1, b=1))
    told = await run(serve(CALCULATOR, "--log-level", "info"), requests)
    quiet = await run(serve(CALCULATOR, "--log-level", "warning"), requests)
    assert b" INFO trio_mcp.calls: Tool add: ok in " in told.stderr
    assert quiet.stderr == b""
    assert told.stdout == quiet.stdout


async def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "cyclopts.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'cyclopts'\", name='cyclopts')\n"
    )
    settings = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = await run(serve(CALCULATOR), env=settings)
    assert done.returncode not in (0, None)
    assert done.stderr == (
        b"trio-mcp: the command line needs more packages: pip install 'trio-mcp[cli]'\n"
    )
