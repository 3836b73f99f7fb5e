"""What the pages on the command line show is what happens."""

import json
import re
import shlex
import sys
from typing import Any

import attrs
import pytest

from docs._ext import generated
from tests.cli.support import CommandLine
from tests.support.processes import ROOT
from trio_mcp.cli.app import make_app
from trio_mcp.cli.inspecting.session import COMMANDS
from trio_mcp.cli.install.hosts import HOSTS
from trio_mcp.cli.options import ConnectionOptions

PAGES = [ROOT / "docs" / "cli.md", *sorted((ROOT / "docs" / "cli").glob("*.md"))]
PAGE = "\n".join(page.read_text() for page in PAGES)
SECTION = re.MULTILINE | re.DOTALL
SHOWN = re.findall(r"```sh\n(trio-mcp [^\n]*)\n```\n(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins with a heading."""
    _, _, rest = PAGE.partition(f"\n| {heading} |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [re.split(r"(?<!\\) \|", line.strip("|")) for line in lines]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


@pytest.mark.long
@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[each[0] for each in SHOWN])
def test_commands_do_what_is_shown(
    command: str, output: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(command.removesuffix(" </dev/null"))
    done = cli(*(sys.executable if word == "python" else word for word in words[1:]))
    said = done.out or done.err
    if output:
        assert [line.rstrip() for line in said.splitlines()] == output.splitlines()
        assert done.status == int(output.startswith("trio-mcp: "))
    else:
        assert done.status == 0, said
    if words[1] in ("doctor", "bench"):
        check_shape(words[1], done.json)


def check_shape(command: str, told: Any) -> None:
    """Check that what a command writes has the shape that the page shows."""
    (shown,) = (
        json.loads(block)
        for block in re.findall(r"With `--json`:\n\n```text\n(.*?)```", PAGE, re.DOTALL)
        if ("findings" in block) == (command == "doctor")
    )
    if command == "bench":
        assert [each["inFlight"] for each in told["runs"]] == [1, 64]
        told["runs"] = told["runs"][:1]
        assert told["tool"] == shown["tool"]
    else:
        assert told["offers"].keys() <= shown["offers"].keys()
        shown["offers"] = told["offers"]
        told["findings"] = told["findings"][:1]
        assert told["chains"]
        told["chains"] = shown["chains"]
    assert shape(told) == shape(shown)


def shape(value: Any) -> Any:
    """A JSON value without its numbers and texts."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.long
def test_every_command_and_option_is_described(cli: CommandLine) -> None:
    commands = {name for row in rows("Command") for name in names(row[0])}
    assert commands == {each for each in make_app() if not each.startswith("-")}
    sections = dict(
        re.findall(r"^## trio-mcp ([\w-]+)$(.*?)(?=^## |\Z)", generated.commands(), SECTION)
    )
    assert commands == sections.keys() - {"--install-completion"}
    fields = {f"--{each.name.replace('_', '-')}" for each in attrs.fields(ConnectionOptions)}
    assert {each for each in fields if f"`{each}" not in sections["call"]} == set()
    for command in commands:
        options = set(re.findall(r"(?<=[ │*])--[a-z-]+", cli(command, "--help").out))
        assert {each for each in options if each not in sections[command]} == set()


def test_every_option_that_the_pages_name_is_one() -> None:
    known = set(re.findall(r"--[a-z][a-z-]*", generated.commands()))
    assert set(re.findall(r"`(--[a-z][a-z-]*)", PAGE)) <= known


def test_tables_are_complete() -> None:
    assert {name for row in rows("`--host`") for name in names(row[0])} == set(HOSTS)
    for (host, *cells), (name, known) in zip(rows("`--host`"), HOSTS.items(), strict=True):
        assert name in host
        project, user, urls = (each.strip() for each in cells)
        assert [bool(project), bool(user)] == ["project" in known.files, "user" in known.files]
        assert urls == ("yes" if known.urls else "no")
    typed = [next(iter(names(row[0]))).replace("\\|", "|") for row in rows("Typed")]
    assert typed == [each.usage for each in COMMANDS.values()]
