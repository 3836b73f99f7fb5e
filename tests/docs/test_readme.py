"""What the documentation shows is true: its code runs, its tables say what the code does."""

import functools
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.docs.pages import LANGUAGES, Block, blocks_of
from tests.support.client import serving
from tests.support.processes import ENVIRONMENT, ROOT, call, lines, parse, run, text_of
from trio_mcp import Limits, McpError, Registry, ToolError, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.client import HttpOptions
from trio_mcp.wire.jsonrpc import MAX_DEPTH

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def written_in(*languages: str, servers: bool | None = None) -> list[Any]:
    """The blocks in some languages, as parameters of a test."""
    return [
        pytest.param(block, id=f"{block.page}:{block.line}")
        for block in BLOCKS
        if block.language in languages and servers in (None, block.is_server)
    ]


def run_block(containing: str) -> dict[str, Any]:
    """Run the one block of the README that contains a text; return its names."""
    (block,) = (b for b in BLOCKS if b.page == "README.md" and containing in b.text)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block.text, f"README.md:{block.line}", "exec", dont_inherit=True), names)
    return names


def table(page: Path, first_heading: str) -> list[list[str]]:
    """The cells of the rows of the table that begins with a heading."""
    _, _, rest = page.read_text().partition(f"\n| {first_heading} |")
    assert rest, f"{page.name} has no table {first_heading!r}"
    rows = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" |")] for row in rows]


# -- code blocks ------------------------------------------------------------------------------


def test_every_block_is_found_and_has_a_language_that_is_tested() -> None:
    assert {block.page for block in BLOCKS} >= {"README.md", "hosts.md", "architecture.md"}
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
    params = {"protocolVersion": "2025-11-25", "capabilities": {}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    requests = lines(hello, call(2, "add", a=2, b=0.5), call(3, "add", a=2, b="x"))
    done = await run([sys.executable, str(program)], requests)
    assert (done.returncode, done.stderr) == (0, b"")
    answers = {each["id"]: each for each in parse(done.stdout)}
    assert answers[1]["result"]["serverInfo"]["name"] == "calculator"
    assert text_of(answers[2]) == "2.5"
    assert "'b' must be a number" in text_of(answers[3])


def test_the_first_server_has_ten_lines() -> None:
    first = next(block for block in BLOCKS if block.language == "python")
    assert (first.page, first.is_server) == ("README.md", True)
    assert len([line for line in first.text.splitlines() if line]) <= 10


def test_no_part_of_a_registration_is_a_path_of_somebodys_machine() -> None:
    for block in BLOCKS:
        assert not re.search(r"/(home|root|tmp|Users)/", block.text)


@pytest.mark.parametrize("block", written_in("python", servers=False))
def test_other_programs_run_as_they_stand(block: Block) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block.text, f"{block.page}:{block.line}", "exec", dont_inherit=True), names)
    assert isinstance(names.get("registry"), Registry | None)


@pytest.mark.requirement("E1")
def test_the_client_prints_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run_block("async with connect([sys.executable")
    assert capsys.readouterr().out.splitlines() == [
        "2026-07-28 add subtract multiply divide",
        "3.0",
        "Error: Division by zero",
    ]


async def test_tools_take_and_return_what_is_said() -> None:
    names = run_block("class Trip")
    registry: Registry = names["registry"]
    trip = await registry.call("book", {"trip": {"to": "Graz", "day": "2030-01-31"}})
    assert trip == names["Trip"]("Graz", names["date"](2030, 1, 31), 1)
    assert len(await registry.call("search", {"words": "sea", "limit": 50})) == 50
    with pytest.raises(McpError, match="'limit'"):
        await registry.call("search", {"words": "sea", "limit": 51})
    text, image = await registry.call("picture")
    assert (text.text, image.mime_type) == ("A dot:", "image/gif")
    schema = registry.tools["book"].description.input_schema
    assert schema["properties"]["fare"]["description"] == "What to pay."


async def test_errors_are_told_as_is_said() -> None:
    registry: Registry = run_block('"No such book"')["registry"]
    with pytest.raises(ToolError, match="not for reading"):
        await registry.call("read", {"title": "secret"})
    with pytest.raises(McpError, match="No such book"):
        await registry.call("read", {"title": "lost"})
    answer = await ask(registry, lines(call(1, "read", title="missing")))
    assert answer["result"]["isError"] is True
    (row,) = (row for row in table(README, "A tool raises") if row[0] == "anything else")
    assert f'"{text_of(answer)}"' in row[1]


async def test_the_lifespan_gives_state() -> None:
    registry: Registry = run_block("lifespan=shelf")["registry"]
    assert await registry.call("author", {"title": "Emma"}) == "Jane Austen"
    assert "context" not in registry.tools["author"].description.input_schema["properties"]


async def test_sockets_are_served() -> None:
    names = run_block("trio.serve_tcp")
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with names["registry"].running():
            nursery.start_soon(trio.serve_listeners, names["client"], [listener])
            stream = await trio.testing.open_stream_to_socket_listener(listener)
            async with stream:
                await stream.send_all(lines(call(1, "shout", words="hey")))
                (answer,) = parse(bytes(await stream.receive_some()))
        nursery.cancel_scope.cancel()
    assert text_of(answer) == "HEY"


async def test_embedding_works(capsys: pytest.CaptureFixture[str]) -> None:
    with trio.fail_after(5):
        await run_block("nursery.start(serve_stream")["main"]()
    assert '"name":"double"' in capsys.readouterr().out


async def test_command_lines_serve() -> None:
    shown = re.findall(r"^trio-mcp (serve .*)$", README.read_text(), re.MULTILINE)
    assert len(shown) == 2
    for arguments in map(shlex.split, shown):
        program = [sys.executable, "-c", "from trio_mcp.cli import main; main()"]
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        done = await run([*program, *arguments], lines(request), cwd=ROOT, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        (answer,) = parse(done.stdout)
        assert answer["result"]["tools"]


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


def test_links_lead_somewhere() -> None:
    links = [
        (page, link)
        for page in PAGES
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        if "://" not in link
    ]
    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


# -- tables -----------------------------------------------------------------------------------

UNITS = {"MiB": 1024 * 1024, "s": 1.0, "": 1}


def test_the_table_of_limits_is_complete_and_right() -> None:
    shown = {}
    for name, default, _ in table(README, "Field"):
        number, _, unit = default.partition(" ")
        shown[name.strip("`")] = float(number) * UNITS[unit]
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


BAD_LINES = [row for row in table(README, "The line") if row[0].startswith("`")]


@pytest.mark.requirement("A6", "A12")
@pytest.mark.parametrize("row", BAD_LINES, ids=lambda row: row[0].strip("`"))
async def test_bad_input_is_answered_as_the_table_says(
    row: list[str], calculator: Registry
) -> None:
    line, code, id, says = row
    answer = await ask(calculator, line.strip("`").encode() + b"\n")
    assert answer["error"]["code"] == int(code)
    assert answer["id"] == json.loads(id.strip("`"))
    assert re.split("[,:]", says)[0] in answer["error"]["message"]


@pytest.mark.requirement("A6")
async def test_invalid_utf8_and_deep_nesting_are_answered_as_the_table_says(
    calculator: Registry,
) -> None:
    told = {row[0]: row[1:] for row in table(README, "The line")}
    answer = await ask(calculator, b"\xff\n")
    assert [str(answer["error"]["code"]), f"`{json.dumps(answer['id'])}`"] == told["invalid UTF-8"][
        :2
    ]
    for levels in (MAX_DEPTH - 2, MAX_DEPTH - 1):  # message and params are two of them
        params = b'{"x":' + b"[" * levels + b"]" * levels + b"}"
        request = b'{"jsonrpc":"2.0","id":1,"method":"dance","params":' + params + b"}\n"
        answer = await ask(calculator, request)
        refused = answer["error"]["code"] == int(
            told[f"nested more than {MAX_DEPTH} levels deep"][0]
        )
        assert refused == (levels + 2 > MAX_DEPTH)
        assert answer["id"] == 1


@pytest.mark.requirement("F6")
@pytest.mark.parametrize(
    ("marker", "tool", "arguments", "said", "token"),
    [
        ("whisper", "whisper", {"words": "HEY"}, "hey", None),
        ("reading room", "title", {"number": 3}, "Book 3", "0c1f0e1d5b"),
    ],
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
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(names["main"], 0)
            await listening.wait()
            url = f"http://127.0.0.1:{port[0]}/mcp"
            async with connect(url, http=options) as client:
                assert (await client.call_tool(tool, arguments)).text == said
            nursery.cancel_scope.cancel()
