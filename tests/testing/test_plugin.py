"""The plugin for pytest, in runs of pytest within this one."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import cryptography.fernet  # a run within this one would forget it, and it loads only once
import pytest

from tests.support.processes import ENVIRONMENT

pytest_plugins = ["pytester"]
assert cryptography.fernet

SHOP = '''
from typing import Annotated
import trio
from trio_mcp import Context, Registry, ToolError, serve

registry = Registry("shop", version="1.0", instructions="Sells books.")

@registry.tool
async def price(book: Annotated[str, "Its title."]) -> int:
    """Say what a book costs."""
    return len(book)

@registry.tool
async def order(book: str, context: Context) -> str:
    """Order a book."""
    await context.info("looking")
    await context.progress(1, total=2, message="half")
    if book == "Ulysses":
        raise ToolError("sold out")
    answer = await context.elicit(f"Who gets {book}?", str)
    return f"for {answer.value}" if answer.action == "accept" else answer.action

@registry.tool
async def review(book: str, context: Context) -> str:
    """Have the model say something."""
    return (await context.sample(f"What of {book}?", max_tokens=10)).text

@registry.resource("shop://stock")
async def stock() -> str:
    return "3"

if __name__ == "__main__":
    trio.run(serve, registry)
'''

Pytester = pytest.Pytester


@pytest.fixture
def shop(pytester: Pytester, monkeypatch: pytest.MonkeyPatch) -> Pytester:
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # another one, of the command line's
    gc.freeze()  # or a run within this one would be told of what other tests have left behind
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\npythonpath = .\nfilterwarnings = error")
    return pytester


def outcome(shop: Pytester, test: str, *options: str, **expected: int) -> str:
    shop.makepyfile(test_it=f"import sys, pytest\nfrom shop import registry\n{test}")
    result = shop.runpytest_inprocess("-p", "no:cacheprovider", *options)
    result.assert_outcomes(**expected)
    return result.stdout.str()


EVERYTHING = """
from trio_mcp.testing import CANCEL, DECLINE

@pytest.fixture
def mcp_server():
    return registry

@pytest.mark.mcp_revisions
async def test_in_all_revisions(mcp):
    async with mcp.connect() as client:
        assert client.revision == mcp.revision
        assert await client.call_tool("price", {"book": "Emma"}, returns=int) == 4

@pytest.mark.mcp_revisions("2025-11-25", "2026-07-28")
async def test_questions_reports_and_errors(mcp):
    async with mcp.connect(answers=["Ada", DECLINE, {"value": "Bob"}, CANCEL]) as client:
        said = [(await client.call_tool("order", {"book": "Emma"})).text for _ in range(4)]
        assert said == ["for Ada", "decline", "for Bob", "cancel"]
        assert {each["message"] for each in mcp.asked} == {"Who gets Emma?"}
        mcp.log.clear()
        sold_out = await client.call_tool(
            "order", {"book": "Ulysses"}, on_progress=mcp.on_progress
        )
        assert mcp.failed(sold_out, "sold .ut") == "sold out"
        assert mcp.progress == [(1, 2, "half")]
        assert mcp.log == [("info", "looking", None)]
        with mcp.refused("nope", code=-32602):
            await client.request("prompts/get", {"name": "nope"})
    async with mcp.connect(answers={"Who gets Emma?": "Ada"}, samples=lambda text: text[::-1]) as client:
        assert (await client.call_tool("order", {"book": "Emma"})).text == "for Ada"
        assert (await client.call_tool("review", {"book": "Emma"})).text == "?ammE fo tahW"
"""


@pytest.mark.requirement("L8")
@pytest.mark.parametrize("mode", ["own", "trio_mode"])
def test_a_registry_with_questions_reports_and_errors(shop: Pytester, mode: str) -> None:
    options = ["-p", "no:trio"] if mode == "own" else ["-o", "trio_mode=true"]
    outcome(shop, EVERYTHING.replace("prompts/get", "tools/call"), *options, passed=7)


@pytest.mark.requirement("L8")
def test_under_anyio_it_is_the_client_of_the_loop_that_runs(shop: Pytester) -> None:
    test = """
@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.mark.anyio
async def test_a_client(mcp, anyio_backend):
    async with mcp.connect(registry, answers=["Ada"]) as client:
        assert ("aio" in type(client).__module__) == (anyio_backend == "asyncio")
        assert (await client.call_tool("order", {"book": "Emma"})).text == "for Ada"
        assert mcp.log == [("info", "looking", None)] * 2
        await mcp.snapshot(client, "offers")
"""
    outcome(shop, test, "--mcp-snapshot-update", passed=2)
    by_asyncio, by_trio = sorted(shop.path.glob("test_it.*.offers.json"))
    assert by_asyncio.read_text() == by_trio.read_text()


@pytest.mark.long
@pytest.mark.requirement("L8")
def test_a_process_and_a_url(shop: Pytester) -> None:
    test = """
@pytest.fixture(params=["process", "http"])
def over(request):
    return request.param

async def test_a_client(mcp, over):
    target = {"server": [sys.executable, "shop.py"]} if over == "process" else {
        "server": registry, "over": "http"}
    async with mcp.connect(**target, connect_timeout=60) as client:
        assert await client.call_tool("price", {"book": "Emma"}, returns=int) == 4

async def test_noise(mcp):
    code = "import os; os.write(1, b'hello\\\\n'); exec(open('shop.py').read())"
    async with mcp.connect([sys.executable, "-c", code], connect_timeout=60):
        pass
"""
    said = outcome(shop, test, passed=2, failed=1)
    assert "the server wrote to stdout what is not a message: b'hello'" in said


SNAPSHOT = """
@pytest.mark.mcp_revisions("2026-07-28")
async def test_offers(mcp):
    async with mcp.connect(registry) as client:
        await mcp.snapshot(client)
"""


@pytest.mark.long
@pytest.mark.requirement("L8")
def test_what_a_server_offers_is_compared_with_a_file_beside_the_test(shop: Pytester) -> None:
    assert "there is no snapshot test_it.test_offers-2026-07-28.json yet: pytest --mcp-" in (
        outcome(shop, SNAPSHOT, failed=1)
    )
    outcome(shop, SNAPSHOT, "--mcp-snapshot-update", passed=1)
    written = json.loads((shop.path / "test_it.test_offers-2026-07-28.json").read_text())
    assert [each["name"] for each in written["tools"]] == ["price", "order", "review"]
    assert written["instructions"] == "Sells books."
    assert written["resources"][0]["uri"] == "shop://stock"
    outcome(shop, SNAPSHOT, passed=1)
    shop.makepyfile(shop=SHOP.replace("Its title.", "The title of a book."))
    said = outcome(shop, SNAPSHOT, failed=1)
    assert '-            "description": "Its title.",' in said
    assert '+            "description": "The title of a book.",' in said
    assert "if that is meant, pytest --mcp-snapshot-update writes it" in said


WRONG = {
    "async with mcp.connect(): pass": "has no server to connect to; make a fixture mcp_serv",
    "async with mcp.connect(registry, answers=['x']): pass": "1 of the answers were not asked",
    "async with mcp.connect(registry, answers=[]) as client:\n"
    "        await client.call_tool('order', {'book': 'Emma'})": (
        "there is none of the answers for 'Who gets Emma?'"
    ),
    "async with mcp.connect(registry) as client:\n"
    "        mcp.failed(await client.call_tool('price', {'book': 'Emma'}))": (
        "the tool has not failed, but returned: 4"
    ),
    "async with mcp.connect(registry) as client:\n"
    "        with mcp.refused(code=1): await client.request('no/such')": "-32601 is not 1",
}
"""By what a test does: what it is told."""


@pytest.mark.requirement("L8")
def test_what_is_wrong_is_told(shop: Pytester) -> None:
    tests = [f"async def test_{n}(mcp):\n    {test}\n" for n, test in enumerate(WRONG)]
    said = outcome(shop, "\n".join(tests), failed=len(WRONG))
    assert [why for why in WRONG.values() if why not in said] == []


def test_a_revision_that_there_is_not_is_named(shop: Pytester) -> None:
    test = '@pytest.mark.mcp_revisions("1999-01-01")\nasync def test_it(mcp): pass'
    assert "there is no revision '1999-01-01'" in outcome(shop, test, errors=1)


@pytest.mark.requirement("L8")
def test_who_does_not_use_it_pays_for_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, pytest, trio_mcp.testing.plugin\n"
        "ours = {each for each in sys.modules if each.startswith('trio_mcp')}\n"
        "assert ours == {'trio_mcp', 'trio_mcp.public', 'trio_mcp.version', 'trio_mcp.testing', "
        "'trio_mcp.testing.plugin'}, ours\n"
        "assert not {'trio', 'attrs', 'orjson'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, cwd=tmp_path, check=True)
