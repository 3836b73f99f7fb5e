"""`trio-mcp install`: one entry more in a host's configuration, and nothing else."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import trio
from platformdirs import windows
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from tests.cli.support import SHOP, CommandLine
from trio_mcp import connect
from trio_mcp.cli.install.editing import BrokenJson, Document
from trio_mcp.cli.install.hosts import HOSTS
from trio_mcp.transports.process import ProcessOptions

URL = "https://mcp.example.com/mcp"


def changed(text: str, path: list[str], value: Any, **options: bool) -> str:
    document = Document(text, **options)
    document.set(path, value)
    return document.text


# -- editing -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "servers": {\n    "new": 1\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "new": 1\n  }\n}'),
        ("{\n}\n", '{\n  "servers": {\n    "new": 1\n  }\n}\n'),
        (
            '{\n    "b": 1.0,\n    "a": [1,2]\n}\n',
            '{\n    "b": 1.0,\n    "a": [1,2],\n    "servers": {\n        "new": 1\n    }\n}\n',
        ),
        (
            '{\n\t"servers": {\n\t\t"old": {"x": 1e5}\n\t},\n\t"z": 0\n}',
            '{\n\t"servers": {\n\t\t"old": {"x": 1e5},\n\t\t"new": 1\n\t},\n\t"z": 0\n}',
        ),
        (
            '{\r\n  "servers": {}\r\n}\r\n',
            '{\r\n  "servers": {\r\n    "new": 1\r\n  }\r\n}\r\n',
        ),
        ('{"servers": {"old": 1}}', '{"servers": {"old": 1, "new": 1}}'),
        ('{"servers": {}, "b": 3}\n', '{"servers": {"new": 1}, "b": 3}\n'),
        ('{"servers": {"new": {"a": 2}}, "b": 3}', '{"servers": {"new": 1}, "b": 3}'),
        (
            '{"servers": 1, "servers": {"o\\"ld": "}"}}',
            '{"servers": 1, "servers": {"o\\"ld": "}", "new": 1}}',
        ),
    ],
)
def test_one_value_changes_and_nothing_else(before: str, after: str) -> None:
    assert changed(before, ["servers", "new"], 1) == after
    assert changed(after, ["servers", "new"], 1) == after


def test_one_line_stays_one_line() -> None:
    after = changed('{"servers": {"old": {"command": "x"}}}', ["servers", "new"], {"args": ["a"]})
    assert after == '{"servers": {"old": {"command": "x"}, "new": {"args": ["a"]}}}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"s": {"x": 1}}', '{"s": {}}'),
        ('{"s": {"x": 1, "y": 2}}', '{"s": {"y": 2}}'),
        ('{"s": {"y": 2, "x": {"a": "}"}}, "z": 3}', '{"s": {"y": 2}, "z": 3}'),
        ('{\n  "s": {\n    "x": 1\n  }\n}\n', '{\n  "s": {}\n}\n'),
        (
            '{\n  "s": {\n    "x": {\n      "a": 1\n    },\n    "y": 2\n  }\n}\n',
            '{\n  "s": {\n    "y": 2\n  }\n}\n',
        ),
        (
            '{\n  "s": {\n    "y": 2, // mine\n    "x": 1,\n  }\n}\n',
            '{\n  "s": {\n    "y": 2,\n  }\n}\n',
        ),
    ],
)
def test_one_value_goes_and_nothing_else(before: str, after: str) -> None:
    document = Document(before, comments=True)
    document.remove(["s", "x"])
    assert document.text == after


def test_comments_stay_where_they_are_allowed() -> None:
    before = (
        "// mine\n"
        "{\n"
        '  "servers": {\n'
        '    /* the "first": one */\n'
        '    "old": {"url": "http://x//y"}, // keep it\n'
        "    // the end\n"
        "  },\n"
        "}\n"
    )
    after = changed(before, ["servers", "new"], {"a": 1}, comments=True)
    assert after == before.replace(
        "    // the end\n",
        '    // the end\n    "new": {\n      "a": 1\n    }\n',
    )
    assert Document(after, comments=True).get(["servers", "old", "url"]) == "http://x//y"
    with pytest.raises(BrokenJson, match="line 1, column 1"):
        Document(before)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "it is not JSON: Expecting ',' delimiter (line 3, column 3)"),
        ("[]", "it is not a JSON object"),
        ('{"a": 1,}', "it is not JSON"),
        ('{"a": NaN}', "it is not JSON: NaN is no number"),
        ('{"a": -Infinity}', "it is not JSON: -Infinity is no number"),
        ("{" + '"a":{' * 100_000, "it is"),
    ],
)
def test_what_is_broken_is_refused(text: str, told: str) -> None:
    with pytest.raises(BrokenJson) as caught:
        Document(text)
    assert str(caught.value).startswith(told)


def test_what_should_be_an_object_and_is_none() -> None:
    with pytest.raises(BrokenJson, match=r"servers is not an object \(line 2, column 14\)"):
        changed('{\n  "servers": []\n}', ["servers", "new"], 1)


# -- hosts -------------------------------------------------------------------------------


PLATFORMS = {"darwin": MacOS, "linux": Unix, "win32": windows.Windows}


@pytest.mark.parametrize(
    ("platform", "host", "place"),
    [
        (
            "darwin",
            "claude-desktop",
            "home/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("linux", "claude-desktop", "home/.config/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "roaming/Claude/claude_desktop_config.json"),
        ("linux", "claude-code", ".mcp.json"),
        ("linux", "cursor", ".cursor/mcp.json"),
        ("linux", "vscode", ".vscode/mcp.json"),
        ("linux", "generic", "mcp.json"),
        ("linux", "claude-code user", "home/.claude.json"),
        ("linux", "cursor user", "home/.cursor/mcp.json"),
        ("linux", "vscode user", "home/.config/Code/User/mcp.json"),
        ("darwin", "vscode user", "home/Library/Application Support/Code/User/mcp.json"),
    ],
)
def test_where_hosts_look(
    platform: str,
    host: str,
    place: str,
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(platformdirs, "PlatformDirs", PLATFORMS[platform])
    folders = {"CSIDL_APPDATA": str(tmp_path / "roaming")}
    monkeypatch.setattr(windows, "get_win_folder", folders.__getitem__)
    name, _, scope = host.partition(" ")
    found = HOSTS[name].file(scope or None)  # type: ignore[index, arg-type]
    assert found == tmp_path / place


@pytest.mark.parametrize(
    ("host", "key", "entry"),
    [
        ("claude-desktop", "mcpServers", {}),
        ("claude-code", "mcpServers", {"type": "stdio"}),
        ("cursor", "mcpServers", {"type": "stdio"}),
        ("vscode", "servers", {"type": "stdio"}),
        ("generic", "mcpServers", {"type": "stdio"}),
    ],
)
def test_a_command_for_each_host(
    host: str, key: str, entry: dict[str, str], cli: CommandLine, tmp_path: Path
) -> None:
    outcome = cli(
        *("install", "--host", host, "--name", "mine", "--env", "A=b", "--yes"),
        *("--file", "config.json", "--", "python3", "-m", "server", "--flag"),
    )
    assert outcome.status == 0
    written = json.loads((tmp_path / "config.json").read_text())
    command = written[key]["mine"].pop("command")
    assert Path(command).is_absolute()
    assert Path(command).name == "python3"
    args = ["-m", "server", "--flag"]
    assert written == {key: {"mine": {**entry, "args": args, "env": {"A": "b"}}}}


@pytest.mark.parametrize(
    ("host", "key", "entry"),
    [
        ("claude-code", "mcpServers", {"type": "http"}),
        ("cursor", "mcpServers", {}),
        ("vscode", "servers", {"type": "http"}),
        ("generic", "mcpServers", {"type": "http"}),
    ],
)
def test_a_url_for_each_host(
    host: str, key: str, entry: dict[str, str], cli: CommandLine, tmp_path: Path
) -> None:
    words = ["--host", host, "--yes", "--file", "config.json", "--header", "X-Key: a: b"]
    assert cli("install", URL, *words).status == 0
    assert json.loads((tmp_path / "config.json").read_text()) == {
        key: {"mcp.example.com": {**entry, "url": URL, "headers": {"X-Key": "a: b"}}}
    }


def test_a_host_that_knows_no_urls(cli: CommandLine) -> None:
    outcome = cli("install", URL, "--host", "claude-desktop", "--yes")
    assert outcome.status == 1
    assert outcome.error.startswith("Claude Desktop starts commands only")
    assert f"-- trio-mcp proxy {URL}" in outcome.error


# -- the command -------------------------------------------------------------------------


@pytest.mark.long
def test_what_is_written_starts_the_server_from_anywhere(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "wares.py").write_text(
        "from trio_mcp import Registry\n"
        "registry = Registry('wares')\n"
        "@registry.tool\n"
        "def hello() -> str:\n"
        "    return 'here'\n"
    )
    for target, name in (("wares.py", "wares"), ("wares:registry", "module")):
        assert cli("install", target, "--host", "generic", "--yes", "--name", name).status == 0

    async def call_all() -> None:
        for entry in json.loads((tmp_path / "mcp.json").read_text())["mcpServers"].values():
            options = ProcessOptions(cwd="/", env=entry.get("env", {}))
            command = [entry["command"], *entry["args"]]
            async with connect(command, process_options=options) as client:
                assert (await client.call_tool("hello")).text == "here"

    trio.run(call_all)


def test_what_is_there_stays_and_is_kept(cli: CommandLine, tmp_path: Path) -> None:
    before = '{\n  "theme": "dark",\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n'
    real = tmp_path / "real.json"
    real.write_text(before)
    real.chmod(0o600)
    config = tmp_path / "config.json"
    config.symlink_to(real)
    words = ["install", URL, "--host", "generic", "--name", "new", "--file", "config.json"]

    shown = cli(*words, "--dry-run")
    assert (shown.status, real.read_text()) == (0, before)
    assert '+    "new": {' in shown.out
    assert "-  " not in shown.out.replace('-    "other"', "")

    assert cli(*words, "--yes").status == 0
    after = json.loads(real.read_text())
    assert list(after) == ["theme", "mcpServers"]
    assert list(after["mcpServers"]) == ["other", "new"]
    assert config.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    kept = tmp_path / "home" / ".local" / "state" / "trio-mcp" / "backups"
    (backup,) = kept.glob("real.json.*.bak")
    assert backup.read_text() == before
    assert backup.stat().st_mode & 0o777 == 0o600

    again = cli(*words, "--yes")
    assert (again.status, again.out) == (0, "")
    assert again.err.endswith("has it already: nothing to do.\n")
    assert len(list(kept.iterdir())) == 1
    assert not list(tmp_path.glob("*.bak")), "a project's folder is not for backups"
    assert not list(tmp_path.glob(".*json*"))


def test_an_entry_is_brought_up_to_date(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(
        '{"mcpServers": {"new": {"type": "http", "disabled": true, "url": "https://old.example.com",'
        ' "headers": {"X-Old": "1"}}}}'
    )
    words = ["install", "--host", "generic", "--name", "new", "--yes"]
    before = config.read_text()
    refused = cli(*words, URL)
    assert refused.status == 1
    assert refused.error.endswith(
        "has another server 'new': --replace changes it, --name NAME adds this one beside it"
    )
    assert config.read_text() == before
    words.append("--replace")
    assert cli(*words, URL, "--header", "X-New: 2").status == 0
    (entry,) = json.loads(config.read_text())["mcpServers"].values()
    headers = {"X-Old": "1", "X-New": "2"}
    assert entry == {"type": "http", "disabled": True, "url": URL, "headers": headers}
    assert cli(*words, "--", "true").status == 0
    (entry,) = json.loads(config.read_text())["mcpServers"].values()
    assert entry.keys() == {"type", "command", "args"}, "what was a URL is a command now"


def test_what_was_installed_is_uninstalled(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    before = '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n'
    config.write_text(before)
    assert cli("install", URL, "--host", "generic", "--name", "mine", "--yes").status == 0
    words = ["uninstall", "mine", "--host", "generic"]
    shown = cli(*words, "--dry-run")
    assert '-    "mine": {' in shown.out
    assert cli(*words).error.startswith("there is no terminal to ask on")
    assert cli(*words, "--yes").status == 0
    assert config.read_text() == before
    outcome = cli("uninstall", "othre", "--host", "generic", "--yes")
    assert outcome.status == 1
    assert outcome.error == f"{config} has no server 'othre'; did you mean 'other'?"
    config.unlink()
    assert cli(*words, "--yes").error == f"{config} has no server 'mine': it has none at all"


def test_broken_configurations_are_left_alone(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    for text, told in (
        (b'{\n  "mcpServers": {,}\n}', "line 2, column 18"),
        (b"[]", "it is not a JSON object"),
        (b'{"mcpServers": 3}', "mcpServers is not an object (line 1, column 16)"),
        (b'{"a": "\xff"}', "is not UTF-8 (byte 7)"),
    ):
        config.write_bytes(text)
        outcome = cli("install", URL, "--host", "generic", "--yes")
        assert (outcome.status, outcome.out) == (1, "")
        assert told in outcome.error
        assert str(config) in outcome.error
        assert config.read_bytes() == text
    assert not list(tmp_path.rglob("*.bak"))


def test_a_byte_order_mark_stays(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert cli("install", URL, "--host", "generic", "--yes").status == 0
    assert config.read_bytes().startswith(b'\xef\xbb\xbf{"a": 1')


def test_nobody_is_there_to_say_yes(cli: CommandLine, tmp_path: Path) -> None:
    outcome = cli("install", URL, "--host", "generic")
    assert outcome.status == 1
    assert (
        outcome.error == "there is no terminal to ask on: --yes writes it, --dry-run only shows it"
    )
    assert not (tmp_path / "mcp.json").exists()


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["missing.py", "--host", "generic"], 1, "there is no file missing.py"),
        (["broken.py", "--host", "generic"], 1, "cannot be imported: ZeroDivisionError"),
        (["--host", "generic", "--", "no-such-program"], 1, "there is no program"),
        (["--host", "generic", "--", "python3", "-m"], 2, "--name NAME"),
        ([URL, "--host", "generic", "--name", "a b"], 2, "a name has letters"),
        ([URL, "--host", "generic", "--env", "A=b"], 2, "--env is for a command"),
        ([SHOP, "--host", "generic", "--header", "A: b"], 2, "--header is for a URL"),
        ([SHOP, "--host", "generic", "--env", "A"], 2, "a variable is written KEY=VALUE"),
        ([URL, "--host", "generic", "--header", "secret"], 2, "a header is written"),
        ([URL, "--host", "generic", "--scope", "user"], 2, "knows no scope 'user'"),
        ([URL, "--host", "emacs"], 2, "Invalid value"),
        ([URL], 2, "--host"),
    ],
)
def test_wrong_command_lines(
    words: list[str], status: int, told: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    outcome = cli("install", "--dry-run", *words)
    assert outcome.status == status
    assert told in outcome.error
    assert "secret" not in outcome.error


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-filesystem", "."], "filesystem"),
        (["uvx", "mcp-server-time"], "time"),
        (["python3", "my_server.py"], "my_server"),
        (["uv", "run", "server.py"], "server"),
    ],
)
def test_names_that_suggest_themselves(
    command: list[str], name: str, cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = tmp_path / command[0]
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "my_server.py").touch()
    assert cli("install", "--host", "generic", "--yes", "--", *command).status == 0
    ((called, entry),) = json.loads((tmp_path / "mcp.json").read_text())["mcpServers"].items()
    assert called == name
    assert entry["command"] == str(program)
    for word in entry["args"]:
        assert word not in (".", "my_server.py"), "hosts start servers elsewhere"


def test_a_file_that_changes_meanwhile_is_not_overwritten(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trio_mcp.cli.install import command

    config = tmp_path / "mcp.json"
    read = command.read_config

    def meanwhile(path: Path) -> Any:
        found = read(path)
        config.write_text('{"theirs": 1}')
        return found

    monkeypatch.setattr(command, "read_config", meanwhile)
    outcome = cli("install", URL, "--host", "generic", "--yes")
    assert outcome.status == 1
    assert outcome.error.endswith("has changed meanwhile; start again")
    assert config.read_text() == '{"theirs": 1}'


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files on Windows")
@pytest.mark.parametrize("kind", ["fifo", "directory", "loop", "device"])
@pytest.mark.parametrize("command", [["install", URL, "--name", "x"], ["uninstall", "x"]])
def test_only_regular_files_are_read_and_replaced(
    cli: CommandLine, tmp_path: Path, kind: str, command: list[str]
) -> None:
    config = tmp_path / "config"
    match kind:
        case "fifo":
            os.mkfifo(config)
        case "directory":
            config.mkdir()
        case "loop":
            config.symlink_to(config)
        case "device":
            config.symlink_to("/dev/null")
    before = config.lstat()
    # The one that is not safe to try is not written in any case.
    how = "--dry-run" if kind == "device" else "--yes"
    outcome = cli(*command, "--host", "generic", "--file", str(config), how)
    assert (outcome.status, outcome.out) == (1, "")
    told = os.strerror(errno.ELOOP) if kind == "loop" else "it is not a regular file"
    assert outcome.error == f"{os.path.realpath(config)}: {told}"
    after = config.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_a_file_without_end_is_read_up_to_a_bound(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.touch()
    os.truncate(config, 64 * 1024 * 1024 + 1)
    outcome = cli("install", URL, "--host", "generic", "--yes")
    assert (outcome.status, outcome.error) == (1, f"{config} has more than 67,108,864 bytes")


def test_numbers_of_any_length_stay_as_they_are(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    long = "1" * 5000
    config.write_text(f'{{"long": {long}, "mcpServers": {{"a": {{"x": [-{long}]}}}}}}')
    words = ["--host", "generic", "--yes"]
    assert cli("install", URL, "--name", "mine", *words).status == 0
    assert config.read_text().count(long) == 2
    assert cli("uninstall", "a", *words).status == 0
    assert config.read_text().count(long) == 1
    assert URL in config.read_text()


@pytest.mark.skipif(os.name == "nt", reason="a mode says nothing on Windows")
def test_a_new_file_is_for_its_owner_alone(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    token = ["--header", "Authorization: Bearer t"]
    words = ["install", URL, *token, "--host", "generic", "--yes"]
    assert cli(*words).status == 0
    assert config.stat().st_mode & 0o777 == 0o600
    config.chmod(0o640)
    assert cli(*words, "--name", "another").status == 0
    assert config.stat().st_mode & 0o777 == 0o640, "what was there keeps its mode"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"mcpServers": {"x": 1, "y": 2, "x": 3}}', '{"mcpServers": {"y": 2}}'),
        (
            '{"mcpServers": {"x": 1}, "mcpServers": {"x": 2, "y": 3}}',
            '{"mcpServers": {}, "mcpServers": {"y": 3}}',
        ),
    ],
)
def test_a_server_that_stands_there_twice_is_uninstalled_twice(
    cli: CommandLine, tmp_path: Path, before: str, after: str
) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(before)
    assert cli("uninstall", "x", "--host", "generic", "--yes").status == 0
    assert config.read_text() == after


@pytest.mark.parametrize("begin", ["/*", '"\\"', '"\\', "/**/,", "//"])
def test_what_has_no_end_is_looked_for_once(begin: str) -> None:
    """That it is looked for again at each place would show in the suite's time."""
    with pytest.raises(BrokenJson):
        Document(begin * 200_000, comments=True)
