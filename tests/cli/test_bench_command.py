"""`trio-mcp bench`: figures that are figures, of any server."""

from pathlib import Path

import pytest

from tests.cli.support import SHOP, CommandLine, faulty
from trio_mcp.cli.bench.load import Run, calls_of, outcome

SHORT = ["--seconds", "0.1", "--in-flight", "1", "--in-flight", "8"]


@pytest.mark.long
def test_a_process(cli: CommandLine) -> None:
    told = cli("bench", SHOP, "say", "words=3", *SHORT, "--json").json
    assert (told["target"], told["tool"], told["era"]) == (SHOP, "say", "modern")
    assert told["startSeconds"] > 0
    assert [each["inFlight"] for each in told["runs"]] == [1, 8]
    for each in told["runs"]:
        assert each["failed"] == 0
        assert each["calls"] >= each["inFlight"]
        assert 0 < each["p50Ms"] <= each["p99Ms"]
        assert each["callsPerSecond"] == pytest.approx(each["calls"] / each["seconds"], rel=0.1)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_url(era: str, cli: CommandLine, shop: str) -> None:
    outcome = cli("bench", shop, "wrap", "paper=plain", "--era", era, *SHORT)
    assert (outcome.status, outcome.err) == (0, "")
    heading, titles, one, eight = outcome.out.splitlines()
    assert heading == f"wrap of {shop} ({era})"
    assert titles.split() == ["In", "flight", "Calls/s", "p50", "ms", "p99", "ms", "Failed"]
    assert [line.split()[0] for line in (one, eight)] == ["1", "8"]
    assert [line.split()[-1] for line in (one, eight)] == ["0", "0"]
    assert all(float(line.split()[1].replace(",", "")) > 0 for line in (one, eight))


def test_arguments_from_stdin(cli: CommandLine, shop: str) -> None:
    outcome = cli("bench", shop, "say", "-", *SHORT[:4], stdin='{"words": "hi"}')
    assert (outcome.status, outcome.err) == (0, "")


def test_a_process_of_the_legacy_era(cli: CommandLine) -> None:
    command = ["bench", "echo", "--era", "legacy", *SHORT[:2], "--in-flight", "2"]
    outcome = cli(*command, "--", *faulty("takes-any-tool"))
    assert outcome.out.partition("(")[2].startswith("legacy, first answer after ")
    assert outcome.out.splitlines()[-1].split()[-1] == "0"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say which tool to call (it really is called): order, pay"),
        (["sya"], "the server has no tool 'sya'; did you mean 'say'?"),
        (["say"], "tool 'say': Missing required argument 'words'"),
        (["fail"], "a call of tool 'fail' fails: It failed: no reason and there is more"),
        (["order", "book=a", "count=1"], "a call of tool 'order' fails: "),
    ],
    ids=str,
)
def test_a_call_that_cannot_be(words: list[str], told: str, cli: CommandLine, shop: str) -> None:
    outcome = cli("bench", shop, *words)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(told)


@pytest.mark.parametrize(
    ("words", "fault", "told"),
    [
        ([], "failing-list", "the server does not list its tools"),
        (["--era", "legacy"], "modern-only", "the server refuses the handshake"),
        ([], "crash", "the server exited with status 1: RuntimeError: no database"),
    ],
)
def test_a_server_that_cannot_be_measured(
    words: list[str], fault: str, told: str, cli: CommandLine
) -> None:
    outcome = cli("bench", "x", *words, "--", *faulty(fault))
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(told)


@pytest.mark.long
def test_a_server_that_dies_under_the_load(cli: CommandLine, tmp_path: Path) -> None:

    (tmp_path / "frail.py").write_text(
        "import os\n"
        "from trio_mcp import Registry\n"
        "registry = Registry('frail')\n"
        "calls = 0\n"
        "@registry.tool\n"
        "async def once() -> None:\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls > 20:\n"
        "        os._exit(1)\n"
    )
    outcome = cli("bench", "frail.py", "once")
    assert outcome.status == 1
    assert outcome.error.startswith("the server ")


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    run = Run(1, 1.0, [each / 1e3 for each in values], 0)
    assert [run.percentile(each) for each in (1, 50, 99, 100)] == [1.0, 50.0, 99.0, 100.0]
    assert Run(1, 1.0, [0.007], 0).percentile(50) == 7.0
    assert Run(1, 1.0, [], 0).percentile(50) == 0.0
    assert Run(1, 0.0, [], 0).rate == 0.0


def test_calls_differ_in_their_ids_only() -> None:
    calls = calls_of({"name": "a", "arguments": {"id": 0}})
    (first, one), (second, other) = next(calls), next(calls)
    assert second == first + 1
    assert one.replace(str(first).encode(), b"") == other.replace(str(second).encode(), b"")
    assert outcome(b'{"id":1,"result":{}}') == (1, True)
    assert outcome(b'{"id":1,"result":{"isError":true}}') == (1, False)
    assert outcome(b'{"id":1,"error":{}}') == (1, False)
    assert outcome(b'{"method":"notifications/progress"}') is None
    assert outcome(b"noise") is None
