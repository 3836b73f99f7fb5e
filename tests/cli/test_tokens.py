"""Bearer tokens: from the environment, never from the arguments."""

import io
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tests.cli.support import COMMAND, SHOP, CommandLine
from tests.support.processes import ENVIRONMENT

TOKEN = "open-sesame"


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The URL of the shop, for those who have its token."""
    command = [*COMMAND, "serve", SHOP, "--http", "127.0.0.1:0", "--token-env", "SHOP_TOKEN"]
    settings = {**ENVIRONMENT, "SHOP_TOKEN": TOKEN}
    with subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if " at http://" in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield line.split(" at ")[1].strip()
        process.terminate()


@pytest.mark.parametrize(
    "words",
    [
        ["tools"],
        ["call", "variable", "name=NONE"],
        ["resources"],
        ["read", "shop://stock"],
        ["prompts"],
        ["prompt", "review", "book=Emma"],
        ["inspect"],
        ["doctor"],
        pytest.param(
            ["bench", "variable", "name=NONE", "--seconds", "0.05", "--in-flight", "1"],
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda words: words[0],
)
def test_every_client_takes_a_token_from_the_environment(
    words: list[str], guarded: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("MY_TOKEN", f"{TOKEN}\n")
    line = [words[0], guarded, *words[1:]]
    refused = cli(*line)
    assert refused.status == 1
    assert refused.error.rstrip(")").endswith("--token-env VARIABLE passes a token")
    outcome = cli(*line, "--token-env", "MY_TOKEN")
    assert outcome.status == 0
    assert TOKEN not in outcome.out + outcome.err


@pytest.mark.long
@pytest.mark.usefixtures("importing")
def test_a_token_that_is_missing_is_told_as_a_server_tells_it(
    guarded: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "there is no token in the variable MY_TOKEN; set it and start again"
    for value in (None, "", " \n"):
        monkeypatch.delenv("MY_TOKEN", raising=False)
        if value is not None:
            monkeypatch.setenv("MY_TOKEN", value)
        for words in (["tools", guarded], ["serve", SHOP, "--http", "127.0.0.1:0"]):
            outcome = cli(*words, "--token-env", "MY_TOKEN")
            assert (outcome.status, outcome.error) == (1, told)


@pytest.mark.long
def test_a_token_that_no_header_can_have_is_not_repeated(
    guarded: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "open\nsesame")
    outcome = cli("tools", guarded, "--token-env", "MY_TOKEN")
    assert outcome.status == 2
    assert "has characters that no header may have" in outcome.error
    assert "sesame" not in outcome.err
