"""A stdio server is started anew for every client, so it imports only what it needs."""

import json
import subprocess
import sys

import pytest

from tests.support.processes import (
    ENVIRONMENT,
    EXAMPLES,
    call,
    complaints,
    lines,
    ping,
    python,
    run,
)

HEAVY = [
    "asyncio",
    "cattrs",
    "cryptography",
    "cyclopts",
    "http",
    "httpx2",
    "joserfc",
    "jsonschema",
    "jsonschema_rs",
    "mcp",
    "rich",
    "trio_mcp.auth",
    "trio_mcp.cli",
]
FOR_OAUTH = [
    "cryptography",
    "httpx2",
    "joserfc",
    "trio_mcp.auth.fetching",
    "trio_mcp.auth.server.authenticator",
    "trio_mcp.auth.server.resource",
]
OF_EXTRAS = ["coredis", "cryptography", "httptools", "httpx2", "joserfc", "keyring", "platformdirs"]
OF_EXTRAS += ["prometheus_client", "pydantic", "yaml"]
OVER_HTTP = """
import trio
from trio_mcp import HttpPolicy, Registry, http_app

async def main():
    async with http_app(Registry("x"), policy=HttpPolicy({policy})).running():
        pass

trio.run(main)
"""
NOT_FOR_TOOLS = [
    "trio_mcp.errors",
    "trio_mcp.registry.asking",
    "trio_mcp.registry.completions",
    "trio_mcp.registry.content_results",
    "trio_mcp.registry.direct",
    "trio_mcp.registry.directories",
    "trio_mcp.registry.files",
    "trio_mcp.registry.prompts",
    "trio_mcp.registry.resources",
    "trio_mcp.registry.uri_template",
    "trio_mcp.schema.bounds",
    "trio_mcp.schema.engine",
    "trio_mcp.schema.full",
    "trio_mcp.schema.parameters",
    "trio_mcp.schema.references",
    "trio_mcp.schema.refusals",
    "trio_mcp.server.conversation",
    "trio_mcp.server.legacy_conversation",
    "trio_mcp.server.modern_conversation",
    "trio_mcp.server.relayedcall",
    "trio_mcp.wire.content",
    "trio_mcp.wire.offers",
]
"""What a server with plain tools does not need, from its start to the answers of its tools."""

SESSION = lines(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "somebody", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    call(3, "add", a=1.5, b=2),
)


async def modules_after(script: str, of: list[str], input: bytes = b"") -> list[str]:
    """Run a script, and return which of the modules it has imported."""
    told = f"import sys, json; print(json.dumps([n for n in {of} if n in sys.modules]))"
    done = await run([sys.executable, "-c", f"{script}\n{told}"], input)
    assert complaints(done.stderr) == []
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def running(example: str, name: str) -> str:
    return f"import runpy; runpy.run_path({str(EXAMPLES / example)!r}, run_name={name!r})"


@pytest.mark.requirement("A1")
async def test_importing_the_package_loads_nothing_heavy() -> None:
    assert await modules_after("import trio_mcp", HEAVY) == []


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("example", ["calculator", "clock"])
async def test_registering_tools_loads_nothing_heavy(example: str) -> None:
    assert await modules_after(running(f"{example}.py", "tools"), HEAVY) == []


@pytest.mark.requirement("C1")
async def test_a_session_with_plain_tools_imports_nothing_that_they_do_not_need() -> None:
    served = running("calculator.py", "__main__")
    heavy = [each for each in HEAVY if each != "cattrs"]  # which writes the answer to initialize
    assert await modules_after(served, heavy + NOT_FOR_TOOLS, SESSION) == []


async def test_what_a_session_did_not_import_is_imported_by_what_needs_it() -> None:
    """Or else the lists above would name modules that nobody imports, or that are no more."""
    needed = "\n".join(f"import {module}" for module in NOT_FOR_TOOLS)
    assert await modules_after(needed, NOT_FOR_TOOLS) == NOT_FOR_TOOLS


@pytest.mark.long
@pytest.mark.parametrize("policy", ["", "tokens={'secret': 'alice'}"])
async def test_a_server_over_http_without_oauth_imports_nothing_for_it(policy: str) -> None:
    assert await modules_after(OVER_HTTP.format(policy=policy), FOR_OAUTH) == []


@pytest.mark.long
async def test_a_server_with_oauth_does() -> None:
    served = "auth=ResourceServer(resource='https://a.test/mcp', issuers=['https://b.test'])"
    script = "from trio_mcp.auth import ResourceServer" + OVER_HTTP.format(policy=served)
    assert await modules_after(script, FOR_OAUTH) == FOR_OAUTH


@pytest.mark.long
@pytest.mark.requirement("A1")
async def test_warnings_are_not_on_the_way() -> None:
    command = [sys.executable, "-W", "error", "-X", "dev", *python(EXAMPLES / "clock.py")[1:]]
    done = await run(command, lines(ping(1)))
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.long
@pytest.mark.requirement("A1")
async def test_the_interpreter_may_be_optimised() -> None:
    command = [sys.executable, "-OO", "-u", *python(EXAMPLES / "calculator.py")[1:]]
    done = await run(command, lines({**ping(1), "method": "tools/list"}))
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert len(answer["result"]["tools"]) == 4


@pytest.mark.long
def test_all_names_that_need_no_extra_can_be_imported_at_once() -> None:
    program = f"import sys; sys.modules.update(dict.fromkeys({OF_EXTRAS})); from trio_mcp import *"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(Registry, serve, connect_all)"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("package", "home", "name", "extra"),
    [
        ("httpx2", "trio_mcp.auth", "OAuth", "auth"),
        ("joserfc", "trio_mcp.auth", "OAuth", "auth"),
        ("httpx2", "trio_mcp.compose.openapi", "openapi", "openapi"),
        ("httptools", "trio_mcp", "serve_http", "http"),
    ],
)
def test_a_name_that_needs_more_packages_says_which_extra_brings_them(
    package: str, home: str, name: str, extra: str
) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from {home} import {name}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: {name} needs more packages: pip install 'trio-mcp[{extra}]'"
    )
