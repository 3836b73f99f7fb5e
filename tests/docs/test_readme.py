"""What the documentation shows is true: its code runs, its tables say what the code does."""

import functools
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from docs._ext import pictures
from tests.docs.pages import LANGUAGES, Block, blocks_of
from tests.interop.packages import FOLDER as NPM
from tests.support.client import serving
from tests.support.processes import ENVIRONMENT, ROOT, call, parse, run, running, text_of
from trio_mcp import Handlers, HttpOptions, Limits, Registry, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.errors import ToolFailed
from trio_mcp.wire.jsonrpc import MAX_DEPTH
from trio_mcp.wire.nested_arrays import MOST_ARRAYS

README = ROOT / "README.md"
DOCS = ROOT / "docs"
MEASURED = DOCS / "measured"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def written_in(*languages: str, servers: bool | None = None) -> list[Any]:
    """The blocks in some languages, as parameters of a test."""
    return [
        pytest.param(block, id=f"{block.page}:{block.line}")
        for block in BLOCKS
        if block.language in languages and servers in (None, block.is_server)
    ]


def run_block(page: str, containing: str) -> dict[str, Any]:
    """Run the one block of a page that contains a text; return its names."""
    (block,) = (b for b in BLOCKS if b.page == page and containing in b.text)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block.text, f"{page}:{block.line}", "exec", dont_inherit=True), names)
    return names


def table(page: Path, first_heading: str) -> list[list[str]]:
    """The cells of the rows of the table that begins with a heading."""
    _, _, rest = page.read_text().partition(f"\n| {first_heading} |")
    assert rest, f"{page.name} has no table {first_heading!r}"
    rows = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" |")] for row in rows]


# -- code blocks ------------------------------------------------------------------------------


def test_every_block_is_found_and_has_a_language_that_is_tested() -> None:
    assert {block.page for block in BLOCKS} >= {"README.md", "index.md", "hosts.md"}
    assert {block.language for block in BLOCKS} <= LANGUAGES
    fences = sum(page.read_text().count("```") for page in PAGES)
    assert fences == 2 * len(BLOCKS)


@pytest.mark.parametrize("block", written_in("json"))
def test_json_is_valid_and_registers_a_server(block: Block) -> None:
    (servers,) = json.loads(block.text).values()
    for server in servers.values():
        assert server["command"].endswith("/bin/python")
        assert server["args"] == [server["args"][0]]
        assert server.get("type", "stdio") == "stdio"


@pytest.mark.parametrize("block", written_in("python", servers=True))
async def test_servers_answer(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "calculator.py"
    program.write_text(block.text)
    serve = [sys.executable, "-m", "trio_mcp.cli", "serve", str(program)]
    params = {"protocolVersion": "2025-11-25", "capabilities": {}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    requests = (hello, call(2, "add", a=2, b=0.5), call(3, "add", a=2, b="x"))
    async with running(serve) as server:
        await server.client.send(*requests)
        answers = await server.client.receive_many(len(requests))
        assert await server.finish() == 0, server.stderr
    assert answers[1]["result"]["serverInfo"]["name"] == "calculator"
    assert text_of(answers[2]) == "2.5"
    assert "'b' must be a number" in text_of(answers[3])


@pytest.mark.requirement("T3")
def test_the_first_server_has_ten_lines() -> None:
    first = next(block for block in BLOCKS if block.language == "python")
    assert (first.page, first.is_server) == ("README.md", True)
    assert len([line for line in first.text.splitlines() if line]) <= 10


def test_no_part_of_a_registration_is_a_path_of_somebodys_machine() -> None:
    for block in BLOCKS:
        assert not re.search(r"/(home|root|tmp|Users)/", block.text)


@pytest.mark.parametrize(
    "block", [each for each in written_in("python", servers=False) if "README" not in str(each.id)]
)
def test_other_programs_run_as_they_stand(block: Block) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block.text, f"{block.page}:{block.line}", "exec", dont_inherit=True), names)
    assert isinstance(names.get("registry"), Registry | None)


@pytest.mark.requirement("E1")
def test_the_client_calls_the_first_server(beside_the_server: None, capfd: Any) -> None:
    run_block("README.md", "async with connect([")
    assert capfd.readouterr().out == "3.0\n"


@pytest.fixture
def beside_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the first server, as the README has it written there."""
    first = next(block for block in BLOCKS if block.is_server)
    (tmp_path / "calculator.py").write_text(first.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.mark.parametrize(("agreed", "said"), [(True, "to='Graz', seats=2"), (False, "not want")])
async def test_the_trip_is_booked_if_the_user_agrees(agreed: bool, said: str) -> None:
    names = run_block("index.md", "class Trip")

    async def answer(params: Any) -> Any:
        return {"action": "accept", "content": {"value": agreed}}

    async with connect(names["registry"], handlers=Handlers(elicitation=answer)) as client:
        trip = {"trip": {"to": "Graz", "seats": 2}}
        try:
            booked = repr(await client.call_tool("book", trip, returns=names["Trip"]))
        except ToolFailed as error:
            booked = str(error)
        assert said in booked
        left = (await client.read_resource("travel://Graz/seats")).text
        assert left == ("0" if agreed else "2")
        full = await client.call_tool("book", {"trip": {"to": "Oslo"}})
        assert full.error == "There are not 1 seats to Oslo."


@pytest.mark.long
async def test_the_first_server_can_be_installed(tmp_path: Path) -> None:
    (command,) = re.findall(r"^trio-mcp (install .*)$", README.read_text(), re.MULTILINE)
    first = next(block for block in BLOCKS if block.is_server)
    (tmp_path / "calculator.py").write_text(first.text)
    program = [sys.executable, "-m", "trio_mcp.cli", *shlex.split(command), "--dry-run"]
    environment = ENVIRONMENT | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = await run(program, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "calculator.py") in done.stdout.decode()


async def test_the_pipe_without_a_handshake_is_answered() -> None:
    (shown,) = re.findall(r"echo '(.*)' \|", (ROOT / "docs" / "hosts.md").read_text())
    server = [sys.executable, str(ROOT / "docs" / "examples" / "calculator.py")]
    done = await run(server, shown.encode() + b"\n")
    assert (done.returncode, len(parse(done.stdout)[0]["result"]["tools"])) == (0, 4)


def test_make_knows_every_target_that_is_named() -> None:
    named = set(re.findall(r"^make (\w+)$|`make (\w+)`", README.read_text(), re.MULTILINE))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = {one or other for one, other in named}
    assert wanted == {"demo", "test", "bench"}
    assert wanted <= targets


@pytest.mark.requirement("T3")
def test_the_readme_is_short_and_does_not_begin_with_trio() -> None:
    text = README.read_text()
    assert len(text.split()) <= 800
    assert "trio" not in next(b for b in BLOCKS if b.is_server).text.replace("trio_mcp", "")


@pytest.mark.requirement("T3")
def test_the_figures_of_the_readme_are_those_of_the_records() -> None:
    counted = json.loads((MEASURED / "functions.json").read_text())["counted"]["rows"]
    shown = table(README, "Your tool")
    assert [row[1:] for row in shown] == [row[1:3] for row in counted]
    assert [row[0].partition(":")[0] for row in shown] == ["Trio", "asyncio", "Neither"]
    for kind, row in zip(["Trio", "asyncio", "thread"], counted, strict=True):
        assert kind in row[0]
    contests = json.loads((MEASURED / "benchmarks.json").read_text())["contests"]
    work = {row[0]: row for row in contests["work"]["tables"][0]["rows"] if len(row) > 1}
    figures = [
        next(row[2] for name, row in work.items() if name.startswith(library))
        for library in ("trio-mcp", "FastMCP 4", "Python SDK 2", "TypeScript SDK 2")
    ]
    assert f"| Calls per second, echo on stdio | {' | '.join(figures)} |" in README.read_text()
    alone = {
        row[0]: float(row[2].replace(",", ""))
        for row in contests["stdio"]["tables"][0]["rows"]
        if row[1:]
    }
    theirs = next(p50 for name, p50 in alone.items() if name.startswith("TypeScript SDK 2"))
    assert ("sooner" in README.read_text()) == (theirs < alone["trio-mcp"])
    targets = {row[0]: row[2] for row in contests["stdio"]["tables"][1]["rows"]}
    times = float(targets["requests/s @64 to the Python SDK"])
    assert f"{times:.0f} times as many calls per second" in README.read_text()


@pytest.mark.long
@pytest.mark.requirement("T3")
def test_the_terminal_shows_what_the_commands_print(tmp_path: Path) -> None:
    assert set(pictures.COMMANDS[1:2]) <= set(README.read_text().splitlines())
    drawn = pictures.terminal(pictures.session(tmp_path))
    kept = (DOCS / "_static" / "terminal.svg").read_text()
    assert kept == drawn, "`python -m docs._ext.pictures` draws it again"


@pytest.mark.requirement("T3")
@pytest.mark.needs("node", "chromium")
@pytest.mark.parametrize(
    ("scene", "page"), [("calls", README), ("asking", DOCS / "guides" / "explorer.md")]
)
def test_the_page_does_what_its_pictures_show(tmp_path: Path, scene: str, page: Path) -> None:
    folder, taken = tmp_path / "server", tmp_path / "taken"
    folder.mkdir()
    taken.mkdir()
    pictures.explorer(folder, scene, NPM / "node_modules", str(shutil.which("chromium")), taken)
    names = {each.name for each in taken.iterdir()}
    assert names == {f"explorer-{scene}-light.png", f"explorer-{scene}-dark.png"}
    assert all((DOCS / "_static" / name).stat().st_size < 150_000 for name in names)
    assert all(f"_static/{name}" in page.read_text() for name in names)


# -- tables -----------------------------------------------------------------------------------

UNITS = {"KiB": 1024, "MiB": 1024 * 1024, "s": 1.0, "": 1}


def test_the_table_of_limits_is_complete_and_right() -> None:
    shown = {}
    for name, default, _ in table(DOCS / "limits.md", "Field"):
        number, _, unit = default.partition(" ")
        shown[name.strip("`")] = float(number.replace(",", "")) * UNITS[unit]
    assert shown == {each.name: each.default for each in attrs.fields(Limits)}


async def ask(registry: Registry, line: bytes) -> Any:
    """The answer of a registry to a line."""
    async with serving(registry) as (client, _):
        client.judging = False  # a bad line makes answers that no request explains
        await client.send_bytes(line)
        return await client.receive()


@pytest.fixture(scope="module")
def calculator() -> Registry:
    return load_registry(str(ROOT / "docs" / "examples" / "calculator.py"))


BAD_LINES = [row for row in table(DOCS / "bad-input.md", "The line") if row[0].startswith("`")]


@pytest.mark.requirement("A6", "A12")
@pytest.mark.parametrize("row", BAD_LINES, ids=lambda row: row[0].strip("`"))
async def test_bad_input_is_answered_as_the_table_says(
    row: list[str], calculator: Registry
) -> None:
    line, code, id, says = row
    answer = await ask(calculator, line.strip("`").encode() + b"\n")
    assert answer["error"]["code"] == int(code)
    assert answer["id"] == json.loads(id.strip("`"))
    assert says.partition(",")[0] in answer["error"]["message"]


@pytest.mark.requirement("A6")
async def test_invalid_utf8_and_deep_nesting_are_answered_as_the_table_says(
    calculator: Registry,
) -> None:
    told = {row[0]: row[1:] for row in table(DOCS / "bad-input.md", "The line")}
    answer = await ask(calculator, b"\xff\n")
    assert [str(answer["error"]["code"]), f"`{json.dumps(answer['id'])}`"] == told["invalid UTF-8"][
        :2
    ]
    for levels in (MAX_DEPTH - 2, MAX_DEPTH - 1):  # message and params are two of them
        params = b'{"x":' * (levels + 1) + b"0" + b"}" * (levels + 1)
        request = b'{"jsonrpc":"2.0","id":1,"method":"dance","params":' + params + b"}\n"
        answer = await ask(calculator, request)
        refused = answer["error"]["code"] == int(
            told[f"nested more than {MAX_DEPTH} levels deep"][0]
        )
        assert refused == (levels + 2 > MAX_DEPTH)
        assert answer["id"] == 1
    row = f"more than {MOST_ARRAYS} nested arrays, each the last item of the one around it (`[[[…]]]`)"
    for levels in (MOST_ARRAYS, MOST_ARRAYS + 1):
        params = b'{"x":' + b"[" * levels + b"0" + b"]" * levels + b"}"
        request = b'{"jsonrpc":"2.0","id":1,"method":"dance","params":' + params + b"}\n"
        answer = await ask(calculator, request)
        assert (answer["error"]["code"] == int(told[row][0])) == (levels > MOST_ARRAYS)
        assert answer["id"] == 1


@pytest.mark.requirement("F6")
@pytest.mark.parametrize(
    ("marker", "tool", "arguments", "said", "token"),
    [("reading room", "title", {"number": 3}, "Book 3", "0c1f0e1d5b")],
)
async def test_what_is_served_over_http_answers(marker, tool, arguments, said, token) -> None:
    (block,) = (each for each in BLOCKS if marker in each.text and "serve_http" in each.text)
    names: dict[str, Any] = {"__name__": "docs"}
    exec(compile(block.text, f"{block.page}:{block.line}", "exec", dont_inherit=True), names)
    listening = trio.Event()
    serve_http = names["serve_http"]
    port: list[int] = []

    async def serve(registry: Registry, **options: Any) -> None:
        async with trio.open_nursery() as inner:
            handle = await inner.start(functools.partial(serve_http, registry, **options))
            port.append(handle.port)
            listening.set()

    names["serve_http"] = serve
    options = HttpOptions(headers={"Authorization": f"Bearer {token}"} if token else {})
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(names["main"], 0)
            await listening.wait()
            url = f"http://127.0.0.1:{port[0]}/mcp"
            async with connect(url, http=options) as client:
                assert (await client.call_tool(tool, arguments)).text == said
            nursery.cancel_scope.cancel()
