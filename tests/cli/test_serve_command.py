"""`trio-mcp serve`: the registry that a command line names, served on stdio."""

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.support import COMMAND, CommandLine
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
from trio_mcp import HttpOptions, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.errors import Unauthorized

CALCULATOR = str(EXAMPLES / "calculator.py")

TWO = """
from trio_mcp import Registry
one = Registry("first")
two = Registry("second")
number = 3

def make(name="made"):
    return Registry(name)

def needs(name, *, size):
    return Registry(name)

def fails():
    return {}["Rose"]

def count():
    return 3

async def wait():
    return one
"""


def serve(*arguments: str) -> list[str]:
    return [*COMMAND, "serve", *arguments]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


@pytest.fixture
def here(importing: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory to import from."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.long
@pytest.mark.requirement("A1", "A8", "D5")
async def test_a_registry_in_a_file() -> None:
    async with running(serve(f"{CALCULATOR}:registry")) as server:
        assert (await server.client.initialize())["result"]["serverInfo"]["name"] == "calculator"
        assert text_of(await server.client.call("add", a=1, b=2)) == "3.0"
        assert await server.finish() == 0


@pytest.mark.usefixtures("here")
def test_targets(two: Path) -> None:
    package = two.parent / "package"
    package.mkdir()
    (package / "inner.py").write_text(TWO)
    assert load_registry(CALCULATOR).name == "calculator"
    assert load_registry(f"{two}:two").name == "second"
    assert load_registry("two:two").name == "second"
    assert load_registry("package.inner:one").name == "first"
    assert load_registry(f"{two}:make").name == "made"
    assert load_registry("two:make").name == "made"


@pytest.mark.usefixtures("importing")
def test_a_file_imports_its_neighbours(two: Path) -> None:
    (two.parent / "server.py").write_text("from two import one as registry\n")
    assert load_registry(str(two.parent / "server.py")).name == "first"


@pytest.mark.usefixtures("importing")
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
    registry = load_registry(str(tmp_path / "server.py"))
    async with connect(registry) as client:
        assert (await client.call_tool("mirror", {"point": {"x": 3}})).structured_content == {
            "x": -3
        }


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("target", "told"),
    [
        (
            "shop_site.py",
            "shop_site.py has a FastAPI application, and no Registry; make one of it: reg",
        ),
        (
            "shop_site.py:app",
            "shop_site.py:app is a FastAPI, not a Registry; make one of it: registry =",
        ),
    ],
)
def test_an_application_says_how_it_is_made_a_registry(
    target: str, told: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "shop_site.py").write_text("class FastAPI:\n    pass\n\napp = FastAPI()\n")
    outcome = cli("serve", target)
    assert outcome.status == 1
    assert told in outcome.error


@pytest.mark.usefixtures("here", "two")
@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("missing.py", "there is no file missing.py"),
        ("missing.py:registry", "there is no file missing.py"),
        ("missing_module:registry", "there is no module 'missing_module'"),
        ("two:missing", "two has no 'missing' (it has: one, two)"),
        ("two:number", "two:number is a int, not a Registry (it has: one, two)"),
        ("two", "two has 2 registries; say which: two:REGISTRY (it has: one, two)"),
        ("two:needs", "two:needs is a function that needs name, size; one that makes a registry"),
        ("two:fails", "two:fails failed: KeyError: 'Rose' ("),
        ("two:count", "what two:count returns is a int, not a Registry"),
        ("two:wait", "two:wait is async; a function that makes a registry must not be"),
        ("two:Registry", "two:Registry is a type, not a Registry"),
        ("json", "json makes no Registry"),
        ("https://example.com/mcp", "what is served is FILE.py:REGISTRY or MODULE:REGISTRY"),
    ],
)
def test_a_wrong_target_is_told_in_one_line(cli: CommandLine, target: str, told: str) -> None:
    outcome = cli("serve", target)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(told)


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
        ["serve", CALCULATOR, "--http", "nowhere"],
        ["serve", CALCULATOR, "--http", "127.0.0.1:99999"],
        ["unknown"],
    ],
)
def test_a_wrong_command_line_is_refused(cli: CommandLine, arguments: list[str]) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2
    assert outcome.out == "", "stdout belongs to the protocol"
    assert outcome.error


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("a = 1\n\na / 0\n", "ZeroDivisionError: division by zero", 3),
        ("a = 1\nb = (\n", "SyntaxError: '(' was never closed", 2),
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named", 1),
        ("import helper\n", "LookupError: helper", 1),
    ],
)
@pytest.mark.usefixtures("importing")
def test_a_module_that_fails_shows_where(
    tmp_path: Path, cli: CommandLine, text: str, what: str, line: int
) -> None:
    (tmp_path / "helper.py").write_text("raise LookupError('helper')\n")
    (tmp_path / "broken.py").write_text(text)
    outcome = cli("serve", "broken.py")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith("broken.py cannot be imported: ")
    assert what in outcome.error
    assert f"{'helper' if 'helper' in text else 'broken'}.py, line {line})" in outcome.error


@pytest.mark.usefixtures("importing")
@pytest.mark.parametrize(
    ("code", "status"), [("3", "3"), ("", "0"), ("'no key'", "1: no key")], ids=str
)
def test_a_module_that_exits(tmp_path: Path, cli: CommandLine, code: str, status: str) -> None:
    (tmp_path / "exits.py").write_text(f"raise SystemExit({code})\n")
    (tmp_path / "made.py").write_text(f"def make():\n    raise SystemExit({code})\n")
    for target, what in [
        ("exits", "exits cannot be imported"),
        ("exits.py", "exits.py cannot be imported"),
        ("made:make", "made:make failed"),
    ]:
        outcome = cli("serve", target)
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.error.startswith(f"{what}: it exited with status {status} ({tmp_path}")


@pytest.mark.usefixtures("importing")
def test_a_traceback_is_there_for_those_who_ask(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.setenv("TRIO_MCP_DEBUG", "1")
    *trace, last = cli("serve", "broken.py").err.splitlines()
    assert any("Traceback" in each for each in trace)
    assert last.startswith("trio-mcp: broken.py cannot be imported")


@pytest.mark.long
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
    options = ("--tool-timeout", "0.05", "--log-level", "error")
    async with running(serve("slow.py", *options), cwd=tmp_path) as server:
        answer = await server.client.call("wait")
        assert text_of(answer) == "Tool wait timed out after 0.05 s"
        assert await server.finish() == 0
        assert server.stderr == b"", "nothing of it is an error"


@pytest.mark.long
@pytest.mark.requirement("G1", "B6", "B11", "A13")
async def test_the_log_as_one_json_object_a_line(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "from trio_mcp import Registry\n"
        "registry = Registry('failing')\n"
        "@registry.tool\n"
        "def add(a: float, b: float) -> float:\n"
        "    return a + b\n"
        "@registry.tool\n"
        "def boom() -> None:\n"
        "    raise LookupError('first\\nsecond')\n"
        "@registry.resource('shelf:{row}')\n"
        "def shelf(row: str) -> str:\n"
        "    return row\n"
        "@registry.prompt\n"
        "def greet() -> str:\n"
        "    return 'Hello'\n"
    )
    secret = 424242.5
    read = {"method": "resources/read", "params": {"uri": f"shelf:{secret}"}}
    get = {"method": "prompts/get", "params": {"name": "greet"}}
    others = [{"jsonrpc": "2.0", "id": method["method"], **method} for method in (read, get)]
    requests = lines(call("one", "add", a=secret, b=1), call(2, "boom"), *others)
    done = await run(serve("server.py", "--log-format", "json"), requests, cwd=tmp_path)
    assert done.returncode == 0
    assert len(parse(done.stdout)) == 4
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, entries))
    calls = {each["tool"]: each for each in entries if "tool" in each and "outcome" in each}
    assert {name: entry["outcome"] for name, entry in calls.items()} == {
        "add": "ok",
        "boom": "exception",
    }
    assert calls["add"]["request_id"] == "one"
    assert calls["boom"]["request_id"] == 2
    (resource,) = (each for each in entries if "resource" in each)
    (prompt,) = (each for each in entries if "prompt" in each)
    assert (resource["resource"], resource["outcome"]) == ("shelf:{row}", "ok")
    assert (prompt["prompt"], prompt["request_id"]) == ("greet", "prompts/get")
    assert len({entry["connection_id"] for entry in calls.values()}) == 1
    assert all(0 <= entry["duration"] < 10 for entry in calls.values())
    assert entries[-1]["message"].startswith("Client disconnected (EOF)")
    (failure,) = (each for each in entries if each["level"] == "error")
    assert failure["tool"] == "boom"
    assert "LookupError: first\nsecond" in failure["exception"]
    assert str(secret) not in done.stderr.decode()
    assert b"LookupError" not in done.stdout
    assert b"server.py" not in done.stdout


@pytest.mark.long
@pytest.mark.requirement("G1", "A13")
async def test_the_log_as_text() -> None:
    done = await run(serve(CALCULATOR), lines(call(1, "add", a=1, b=1)))
    assert b" INFO trio_mcp.calls: Tool add: ok in " in done.stderr
    assert len(parse(done.stdout)) == 1


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


@pytest.mark.long
async def test_serving_on_stdio_imports_nothing_that_only_others_need() -> None:
    look = (
        "import sys; from trio_mcp.cli.app import run; status = run(sys.argv[1:]);"
        "names = {name.split('.')[0] for name in sys.modules};"
        "names |= {name for name in sys.modules if name.startswith('trio_mcp.')};"
        "print(status, *sorted(names), file=sys.stderr)"
    )
    command = [sys.executable, "-c", look, "serve", CALCULATOR, "--log-level", "error"]
    done = await run(command, lines(ping(1)))
    status, *names = done.stderr.decode().split()
    assert (status, len(parse(done.stdout))) == ("0", 1)
    unwanted = {"rich", "prompt_toolkit", "httpx2", "httptools", "jsonschema", "trio_mcp.client"}
    assert unwanted & set(names) == set()
    assert "trio_mcp.transports.http" not in names


@pytest.mark.long
@pytest.mark.requirement("F1", "F4")
async def test_serving_over_http(tmp_path: Path) -> None:
    arguments = ["--http", "127.0.0.1:0", "--path", "/rpc", "--token-env", "SHOP_TOKEN"]
    settings = {**ENVIRONMENT, "SHOP_TOKEN": "open-sesame"}
    async with running(serve(CALCULATOR, *arguments), env=settings) as server:
        await server.said(b"Serving calculator at http://127.0.0.1:")
        url = server.stderr.partition(b" at ")[2].split()[0].decode()
        assert url.endswith("/rpc")
        assert server.stderr.count(b"\n") == 1
        headers = {"Authorization": "Bearer open-sesame"}
        async with connect(url, http=HttpOptions(headers=headers)) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3.0"
        with pytest.raises(Unauthorized):
            async with connect(url):
                raise AssertionError("nobody is let in without the token")
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0


UNGUARDED = """
import trio
from trio_mcp import Registry, {serve}
registry = Registry("unguarded")
trio.run({serve}, registry)
"""


@pytest.mark.parametrize("serve_name", ["serve", "serve_http"])
@pytest.mark.parametrize("options", [[], ["--http", "127.0.0.1:0"]], ids=["stdio", "http"])
@pytest.mark.usefixtures("importing")
def test_a_file_that_serves_while_it_is_imported(
    serve_name: str, options: list[str], tmp_path: Path, cli: CommandLine
) -> None:
    path = tmp_path / "unguarded.py"
    path.write_text(UNGUARDED.format(serve=serve_name))
    outcome = cli("serve", str(path), *options)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error == (
        "unguarded serves while it is imported; put that under "
        f'`if __name__ == "__main__":`, or it serves when it is imported ({path}, line 5)'
    )


async def test_serving_while_it_is_imported_by_others(tmp_path: Path) -> None:
    """It is served all the same: a program may mean it."""
    (tmp_path / "unguarded.py").write_text(UNGUARDED.format(serve="serve"))
    command = [sys.executable, "-c", "import unguarded"]
    done = await run(command, lines(ping(1)), cwd=tmp_path)
    assert (done.returncode, len(parse(done.stdout))) == (0, 1)
    (told,) = done.stderr.decode().splitlines()
    assert told.startswith("unguarded serves while it is imported; put that under `if __name__")


@pytest.mark.long
@pytest.mark.requirement("A13")
async def test_what_is_printed_while_importing_is_not_for_the_client(tmp_path: Path) -> None:
    path = tmp_path / "chatty.py"
    path.write_text(
        "import os, subprocess, sys\n"
        "from trio_mcp import Registry\n"
        "print('printed')\n"
        "os.write(1, b'written\\n')\n"
        "subprocess.run(['echo', 'echoed'], check=True)\n"
        "print('read', sys.stdin.read())\n"
        "def make():\n"
        "    print('made')\n"
        "    return Registry('chatty')\n"
    )
    done = await run(serve(f"{path}:make", "--log-level", "error"), lines(ping(1)))
    assert parse(done.stdout) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    for word in (b"printed", b"written", b"echoed", b"read", b"made"):
        assert word in done.stderr


def test_a_place_is_told_once(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("registry = (\n")
    assert cli("serve", "broken.py").error.count("line 1") == 1
