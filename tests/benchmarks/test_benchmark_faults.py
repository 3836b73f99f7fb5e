"""What libraries do when things go wrong: what was recorded is what they do."""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve

from benchmarks.endless import MIB
from benchmarks.eras import MODERN
from benchmarks.faults import clients, servers
from benchmarks.faults.answers import PYTHON_ONLY, QUESTIONS, Question
from benchmarks.faults.outcomes import Growth, cell
from benchmarks.faults.run import Library, libraries
from benchmarks.faults.session import talking
from benchmarks.peers import OURS, TYPESCRIPT, find_typescript
from benchmarks.processes import Command
from docs._ext.records import Peers, Table, load
from tests.docs.test_readme import README, table
from tests.interop.packages import FOLDER
from tests.support.processes import ROOT

COMMAND = "python -m benchmarks.faults --record docs/measured/peers.json"
pytestmark = pytest.mark.requirement("T5")

RECORD = load(ROOT / "docs" / "measured" / "peers.json", Peers, COMMAND)


def column(of: Table, library: str) -> Mapping[str, str]:
    """What a library did, by what happened."""
    (place,) = (at for at, title in enumerate(of.headers) if title.startswith(library))
    return {row[0]: row[place] for row in of.rows}


@pytest.fixture(scope="module")
def found() -> Mapping[str, Library]:
    return {each.server.name: each for each in libraries(install=False)}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (["the result"] * 3, "the result"),
        (["a", "b", "a"], "a (2 of 3); b (1 of 3)"),
        ([Growth(3 * MIB), Growth(5 * MIB), Growth(4 * MIB)], "4 MiB more"),
        ([Growth(MIB, "no answer")], "1 MiB more; no answer"),
        ([Growth(MIB, "no answer"), "lost"], "1 MiB more; no answer (1 of 2); lost (1 of 2)"),
        ([], "not measured"),
    ],
)
def test_a_cell_says_how_often_what_was_seen(seen, said):
    assert cell(seen) == said


def test_all_that_can_be_tried_is_in_the_record():
    for of, tried in (
        (RECORD.servers, servers.FAULTS),
        (RECORD.guests, servers.ANYWHERE),
        (RECORD.clients, clients.FAULTS),
        (RECORD.answers, QUESTIONS),
    ):
        assert [row[0] for row in of.rows] == list(tried)
        assert not any("not measured" in text for row in of.rows for text in row)


# -- answers --------------------------------------------------------------------------------------


async def same_answers(library: Library) -> None:
    recorded = column(RECORD.answers, library.server.name)
    async with talking(library.server.command, MODERN) as session:
        for name, question in QUESTIONS.items():
            if recorded[name] != "–":
                assert (name, await question.ask(session)) == (name, recorded[name])


async def test_our_answers_are_those_of_the_record(found):
    await same_answers(found[OURS])


@pytest.mark.needs("sdk-server")
async def test_the_answers_of_the_sdk_are_those_of_the_record(found):
    await same_answers(found["Python SDK"])


@pytest.mark.needs("fastmcp")
async def test_the_answers_of_fastmcp_are_those_of_the_record(found):
    await same_answers(found["FastMCP"])


@pytest.mark.needs("node")
async def test_the_answers_in_typescript_are_those_of_the_record(found, tmp_path: Path):
    (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
    (tmp_path / "package.json").write_text('{"dependencies": {}}')  # the peers are installed
    script = "typescript_sdk_faults.mjs"
    shutil.copy(ROOT / "benchmarks" / "servers" / script, tmp_path)
    server = find_typescript(tmp_path, install=False, script=script)
    await same_answers(evolve(found[TYPESCRIPT], server=server))


def test_only_what_typescript_does_not_have_is_left_out():
    left = {
        name
        for name, question in QUESTIONS.items()
        if isinstance(question, Question) and question.tool in PYTHON_ONLY
    }
    dashes = [name for name, said in column(RECORD.answers, TYPESCRIPT).items() if said == "–"]
    assert set(dashes) == left


# -- faults ---------------------------------------------------------------------------------------

LONG = {*servers.ONCE, *(name for name in servers.FAULTS if re.search("results of|200 MB", name))}
"""What takes a minute, or hundreds of megabytes."""


@pytest.mark.long
@pytest.mark.parametrize("name", [each for each in servers.FAULTS if each not in LONG])
async def test_our_server_still_does_what_the_record_says(found, name: str):
    async with talking(found[OURS].server.command) as session:
        assert await servers.FAULTS[name](session) == column(RECORD.servers, OURS)[name]


@pytest.mark.long
@pytest.mark.parametrize("name", clients.FAULTS)
async def test_our_client_still_does_what_the_record_says(found, name: str):
    seen = await clients.seen(found[OURS].client, clients.FAULTS[name])
    assert without_time(seen) == without_time(column(RECORD.clients, OURS)[name])


def without_time(seen: str) -> str:
    """What became of a call; a busy machine takes longer than the one of the record."""
    return re.sub(r" (at once|after \d+ s)$", "", seen)


async def test_a_server_that_does_not_start_is_an_error():
    with pytest.RaisesGroup(TimeoutError):
        async with talking(Command([sys.executable, "-c", ""], {})):
            raise AssertionError


def test_the_bounds_are_those_of_the_record():
    rows = {row[0]: row[1:] for row in RECORD.servers.rows}
    assert rows["A tool that never ends"][0] == "an error for the model after 60 s"
    assert rows["500 calls at once"][0] == "128 run at once"
    for name in LONG - servers.ONCE:
        ours, *others = rows[name]
        grown = int(ours.partition(" MiB")[0])
        assert grown < 64
        for other in others:
            lost = "the connection is lost" in other
            assert lost or int(other.partition(" MiB")[0]) > grown


def test_the_time_limits_in_the_readme_are_those_of_the_record():
    rows = {row[0]: row[1:] for row in table(README, "| trio-mcp")}
    (never,) = servers.ONCE
    said = (
        re.search(r"after (\d+ s)", column(RECORD.servers, library)[never])
        for library in (OURS, "FastMCP", "Python SDK", TYPESCRIPT)
    )
    assert rows["Default time limit of a tool"] == [each[1] if each else "none" for each in said]
