"""A stdio server is started anew for every client, so it imports only what it needs."""

import json
import sys

import pytest

from tests.support.processes import EXAMPLES, lines, ping, python, run

HEAVY = [
    "asyncio",
    "cattrs",
    "cyclopts",
    "http",
    "jsonschema",
    "jsonschema_rs",
    "mcp",
    "rich",
    "trio_mcp.cli",
]
PRINT_HEAVY = f"import sys, json; print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"


async def heavy_modules_after(script: str) -> list[str]:
    done = await run([sys.executable, "-c", f"{script}\n{PRINT_HEAVY}"])
    assert done.stderr == b""
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.requirement("A1")
async def test_importing_the_package_loads_nothing_heavy() -> None:
    assert await heavy_modules_after("import trio_mcp") == []


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("example", ["calculator", "clock"])
async def test_registering_tools_loads_nothing_heavy(example: str) -> None:
    path = str(EXAMPLES / f"{example}.py")
    assert await heavy_modules_after(f"import runpy; runpy.run_path({path!r})") == []


@pytest.mark.requirement("A1")
async def test_warnings_are_not_on_the_way() -> None:
    command = [sys.executable, "-W", "error", "-X", "dev", *python(EXAMPLES / "clock.py")[1:]]
    done = await run(command, lines(ping(1)))
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.requirement("A1")
async def test_the_interpreter_may_be_optimised() -> None:
    command = [sys.executable, "-OO", "-u", *python(EXAMPLES / "calculator.py")[1:]]
    done = await run(command, lines({**ping(1), "method": "tools/list"}))
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert len(answer["result"]["tools"]) == 4
