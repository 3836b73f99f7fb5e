"""The pages on deployment: they show the files that are tested, and their figures are those of the code."""

from __future__ import annotations

import re
import resource
import shlex
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import yaml

from tests.docs.pages import blocks_of
from tests.docs.recipes import NAME, RECIPES, address_of, agree, ours
from tests.docs.test_readme import table
from tests.support.processes import ENVIRONMENT, EXAMPLES, ROOT, python, running
from trio_mcp import Handlers, HttpLimits, HttpOptions, HttpPolicy, Limits, SessionOptions, connect
from trio_mcp.transports.http.metrics import FAMILIES

pytestmark = pytest.mark.requirement("T6")

GUIDES = ROOT / "docs" / "guides"
HUB = GUIDES / "deployment.md"
PAGES = [HUB, GUIDES / "telemetry.md", *sorted((GUIDES / "deploy").glob("*.md"))]
MANY = RECIPES / "many.py"


def test_every_recipe_is_shown_from_its_file() -> None:
    shown = set()
    for page in PAGES:
        for path in re.findall(r"^:::\{literalinclude\} (\S+)$", page.read_text(), re.MULTILINE):
            assert (page.parent / path).exists()
            shown.add((page.parent / path).resolve())
    files = {path for path in RECIPES.iterdir() if path.is_file()}
    assert shown == files - {RECIPES / "press.py"}
    assert "examples/deploy/press.py" in HUB.read_text()


def test_the_limits_to_set_have_the_defaults_that_stand_there() -> None:
    known = {each.__name__: each() for each in (HttpLimits, HttpPolicy, Limits, SessionOptions)}
    program = MANY.read_text()
    rows = table(HUB, "Setting")
    for setting, default, chosen, _ in rows:
        owner, _, name = setting.strip("`").partition(".")
        value = getattr(known[owner], name)
        assert default.removesuffix(" s") == ("none" if value is None else f"{value:g}")
        (given,) = re.findall(rf"{name}=([\d.]+)", program)
        assert float(given) == float(chosen.removesuffix(" s"))
    assert len(rows) == 5


@pytest.mark.long
async def test_the_server_for_many_people_serves_and_wants_a_token() -> None:
    async with running(python(MANY, "127.0.0.1:0"), env=ENVIRONMENT) as server:
        await server.said(b"Serving press at")
        (url,) = re.findall(rb"Serving press at (\S+)", bytes(server.stderr))
        with pytest.raises(Exception, match=NAME):  # it is for that URL alone
            async with connect(url.decode(), http=HttpOptions(trust_env=False)):
                raise AssertionError("nobody is let in without a token")
        server.process.terminate()
        assert await server.exit() == 0


COMMANDS = sorted(
    {
        line
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "sh"
        for line in block.text.splitlines()
        if "trio-mcp serve press.py " in line
    }
)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
async def test_the_commands_of_the_pages_serve(command: str, tmp_path: Path) -> None:
    """Those that need a Redis have another store here."""
    words = shlex.split(command.partition("trio-mcp serve press.py ")[2])
    words[words.index("--http") + 1] = "127.0.0.1:0"
    store = f"sqlite:///{tmp_path / 'store'}"
    words = [store if word.startswith("redis://") else word for word in words]
    start = ours(["trio-mcp", "serve", str(RECIPES / "press.py"), *words, "--log-format", "json"])
    async with running(start, env=ENVIRONMENT) as server:
        _, _, port = (await address_of(server)).rpartition(":")
        status, _ = await ask(int(port), "POST", HELLO, forwarded="192.0.2.7")
        assert status == 200
        await server.said(b'"client_address":"')
        assert (b'"192.0.2.7"' in server.stderr) is ("--trust-proxy" in words)


SHARE = """
from functools import partial
import logging, sys, trio
from press import registry
from trio_mcp import HttpLimits, HttpPolicy, SessionOptions, serve_http
logging.basicConfig(level=logging.INFO)
logging.getLogger("trio_mcp.http").addFilter(lambda record: "Serving" in record.getMessage())
sessions, connections = map(int, sys.argv[1:])
trio.run(partial(
    serve_http, registry, port=0, own_process=True,
    sessions=SessionOptions(max_sessions=sessions),
    http_limits=HttpLimits(max_connections=connections),
    policy=HttpPolicy(max_concurrent_each=connections),  # they all come from one address here
))
"""
"""A server with the bounds of the program for many people, and no tokens."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Enough open files for the test, and for the server that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
@pytest.mark.usefixtures("many_files")
async def test_an_instance_has_room_for_its_share_of_the_people(tmp_path: Path) -> None:
    program = MANY.read_text()
    (sessions,) = re.findall(r"max_sessions=(\d+)", program)
    (connections,) = re.findall(r"max_connections=(\d+)", program)
    (people,) = re.findall(r"5,000 / 3 = ([\d,]+) sessions", HUB.read_text())
    (promised,) = re.findall(r"takes less than (\d+) MB", HUB.read_text())
    command = [sys.executable, "-c", SHARE, sessions, connections]
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ROOT}:{RECIPES}"}
    async with running(command, env=environment) as server, AsyncExitStack() as streams:
        await server.said(b"Serving press at")
        (port,) = re.findall(rb"Serving press at http://127.0.0.1:(\d+)", bytes(server.stderr))
        before = server.memory()
        crowd = trio.CapacityLimiter(50)

        async def come() -> None:
            async with crowd:
                _, headers = await ask(int(port), "POST", HELLO)
                found = re.search(r"(?i)^mcp-session-id: (\S+)", headers, re.MULTILINE)
                assert found, headers
                status, _ = await ask(int(port), "GET", "", found[1], streams)
                assert status == 200

        async with trio.open_nursery() as nursery:
            for _ in range(int(people.replace(",", ""))):
                nursery.start_soon(come)
        assert server.memory() - before < int(promised) * 1_000_000


HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    '"capabilities":{},"clientInfo":{"name":"one of many","version":"1"}}}'
)


async def ask(
    port: int,
    method: str,
    body: str,
    session: str = "",
    streams: AsyncExitStack | None = None,
    forwarded: str = "",
) -> tuple[int, str]:
    """Make a request of an older client; keep its connection open in the stack, if there is one."""
    lines = [
        f"{method} /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        "Accept: application/json, text/event-stream",
    ]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] * (method == "POST")
    lines += [f"Mcp-Session-Id: {session}", "Mcp-Protocol-Version: 2025-11-25"] * bool(session)
    lines += [f"X-Forwarded-For: {forwarded}"] * bool(forwarded)
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all("\r\n".join([*lines, "", body]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive_some()
    if streams is None:
        await stream.aclose()
    else:
        streams.push_async_callback(stream.aclose)
    return int(head.split()[1]), head.decode()


def test_alerts_ask_for_what_there_is() -> None:
    (group,) = yaml.safe_load((RECIPES / "alerts.yaml").read_text())["groups"]
    pages = [ROOT / "docs" / "reference" / "telemetry.md", GUIDES / "failures.md"]
    said = "".join(page.read_text() for page in pages)
    for rule in group["rules"]:
        asked = re.findall(r"\b(mcp_\w+)\{(.*?)\}", rule["expr"])
        assert asked or rule["expr"].startswith("up{")
        for name, selectors in asked:
            bare = re.sub(r"_(bucket|count|sum)$", "", name)
            assert bare in FAMILIES
            for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selectors):
                assert label == "job" or all(f"`{each}`" in said for each in value.split("|"))
    (most,) = re.findall(r"max_connections=(\d+)", MANY.read_text())
    assert f"0.8 * {most}" in group["rules"][-1]["expr"]


@pytest.mark.long
async def test_the_app_runs_under_hypercorn_as_the_guide_says(tmp_path: Path) -> None:
    page = GUIDES / "deploy" / "other-ways.md"
    (module,) = (each for each in blocks_of(page) if each.file == "press_app.py")
    (tmp_path / "press_app.py").write_text(module.text)
    (command,) = re.findall(r"^hypercorn (.*)$", page.read_text(), re.MULTILINE)
    words = command.replace(":8001", ":0").split()
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ROOT}:{EXAMPLES / 'deploy'}:{tmp_path}"}
    async with running([sys.executable, "-m", "hypercorn", *words], env=environment) as server:
        await server.said(b"Running on")
        (url,) = re.findall(rb"Running on (\S+)", bytes(server.stderr))
        handlers = Handlers(elicitation=agree)
        http = HttpOptions(trust_env=False)
        async with connect(f"{url.decode()}/mcp", http=http, handlers=handlers) as client:
            assert (await client.call_tool("order", {"title": "Emma"})).text == "Emma is ordered."
        server.process.terminate()
        assert await server.exit() == 0
