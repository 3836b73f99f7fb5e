"""What all commands have in common: help, exit statuses, errors in one line, completion."""

import signal
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest
import trio

from tests.cli.support import COMMAND, SHOP, CommandLine
from tests.support.processes import ROOT, running
from trio_mcp.cli.app import make_app
from trio_mcp.cli.failures import FAILED, INTERRUPTED, Failure, Interrupted, Usage, report
from trio_mcp.cli.target import join_command, parse_target

COMMANDS = [
    *(
        "serve",
        "openapi",
        "new",
        "install",
        "uninstall",
        "tools",
        "call",
        "resources",
        "read",
        "prompts",
        "prompt",
    ),
    *("inspect", "doctor", "bench"),
]


def test_help_names_every_command_and_the_exit_statuses(cli: CommandLine) -> None:
    for words in ([], ["--help"], ["-h"]):
        outcome = cli(*words)
        assert (outcome.status, outcome.err) == (0, "")
        shown = outcome.out.split()
        assert set(COMMANDS) <= set(shown)
        assert "Exit status: 0 all is well, 1 it failed" in " ".join(shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, cli: CommandLine) -> None:
    outcome = cli(command, "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: trio-mcp {command} ")
    for word in ("--empty", "--no-", "default: False", "default: ()", "Exit status"):
        assert word not in outcome.out


def test_the_version(cli: CommandLine) -> None:
    outcome = cli("--version")
    assert outcome.status == 0
    assert outcome.out.strip().count(".") == 2


@pytest.mark.parametrize("package", ["trio_mcp", "trio_mcp/cli"])
def test_a_package_is_run_as_the_command_line(
    package: str,
    cli: CommandLine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version = cli("--version").out
    monkeypatch.setattr(sys, "argv", ["trio-mcp", "--version"])
    with pytest.raises(SystemExit) as ended:
        run_path(str(ROOT / package / "__main__.py"), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr() == (version, "")


@pytest.mark.parametrize(
    "words",
    [
        ["dance"],
        ["tools"],
        ["call", SHOP],
        ["tools", SHOP, "a", "b"],
        ["tools", SHOP, "--unknown"],
        ["tools", SHOP, "--timeout", "0"],
        ["tools", SHOP, "--era", "old"],
        ["tools", SHOP, "--env", "NAME"],
        ["tools", SHOP, "--header", "A: b"],
        ["tools", "https://example.com", "--header", "none"],
        *([each, SHOP, "--header", "A: b"] for each in ("doctor", "bench")),
        *([each, SHOP, "--token-env", "PATH"] for each in ("tools", "doctor", "bench")),
        ["tools", "https://x.example", "--token-env", "PATH", "--header", "authorization: b"],
        ["tools", "--"],
        ["--", "python3"],
        ["bench", SHOP, "say", "--in-flight", "0"],
        ["proxy", SHOP, "--max-callers", "0"],
        ["gateway", "mcp.json", "--max-callers", "-3"],
    ],
    ids=str,
)
def test_a_wrong_command_line_is_told_in_one_line(words: list[str], cli: CommandLine) -> None:
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["shop.py"], "say what to do with shop.py, as in: trio-mcp tools shop.py"),
        (["call", SHOP, "say", "--words", "x"], "there is no option --words; arguments are writte"),
        (["call", SHOP, "say", "--words=x"], "there is no option --words; arguments are written"),
        (["bench", SHOP, "say", "-w", "x"], "there is no option -w; arguments are written KEY="),
        (["cal", SHOP], 'Unknown command "cal". Did you mean "call"?'),
    ],
    ids=str,
)
def test_a_wrong_command_line_is_told_what_was_meant(
    words: list[str], told: str, cli: CommandLine
) -> None:
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tools", "missing.py"], "there is no file missing.py"),
        (["tools", "missing"], "there is no module 'missing'; a file is given as FILE.py, and a"),
        (["tools", "./x"], "there is no module './x'"),
        *(
            (["tools", each], f"a URL begins with http:// or https://, as in http://{each}")
            for each in ("localhost:8000/mcp", "127.0.0.1:80", "mcp.example.com/mcp")
        ),
        *(
            ([command, "ftp://x/y"], "a URL begins with http:// or https://, not with ftp://")
            for command in ("tools", "doctor", "proxy")
        ),
        (["tools", "broken.py"], "broken.py cannot be imported: ZeroDivisionError"),
        (["tools", "--", "./no-such-program"], "./no-such-program cannot be started"),
        (["tools", "--", "false"], "the server exited with status 1 and left no word"),
        (
            ["tools", "--timeout", "0.5", "http://127.0.0.1:1/mcp"],
            "cannot reach http://127.0.0.1:1",
        ),
        (
            ["tools", "--timeout", "0.5", "--", sys.executable, "-c", "input(); input()"],
            "connecting: no answer within 0.5 s (--timeout SECONDS waits longer)",
        ),
    ],
    ids=str,
)
def test_what_fails_is_told_in_one_line(
    words: list[str], told: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(told)


def test_how_exceptions_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for error, status, told in [
        (Failure("no\x1b[31m luck\nat all"), 1, "trio-mcp: no␛[31m luck at all\n"),
        (Usage("what?"), 2, "trio-mcp: what?\n"),
        (Interrupted(), INTERRUPTED, ""),
        (KeyboardInterrupt(), INTERRUPTED, ""),
        (BaseExceptionGroup("", [Failure("x"), KeyboardInterrupt()]), INTERRUPTED, ""),
        (ExceptionGroup("", [ExceptionGroup("", [Usage("deep")])]), 2, "trio-mcp: deep\n"),
        (FileNotFoundError(2, "No such file", "a.json"), 1, "trio-mcp: a.json: No such file\n"),
        (
            LookupError("a mistake of ours"),
            FAILED,
            "trio-mcp: LookupError: a mistake of ours (set TRIO_MCP_DEBUG=1 to see where)\n",
        ),
    ]:
        assert report(error) == status
        assert capsys.readouterr().err == told


def test_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local.py").touch()
    words = join_command(["call", "add", "a=1", "--", "uvx", "a server", "--", "-x"])
    assert [words[0], *words[2:]] == ["call", "add", "a=1"]
    assert parse_target(words[1]).command == ("uvx", "a server", "--", "-x")
    assert parse_target("HTTPS://example.com").url == "HTTPS://example.com"
    assert parse_target("local:registry").registry == "local:registry"
    assert parse_target("json").registry == "json"
    assert parse_target("local.py").process is not None


@pytest.mark.parametrize(
    "shell",
    [
        "bash",
        pytest.param("zsh", marks=pytest.mark.long),
        pytest.param("fish", marks=pytest.mark.long),
    ],
)
def test_completion_can_be_installed(shell: str, tmp_path: Path) -> None:
    script = make_app().generate_completion(shell=shell)  # type: ignore[arg-type]
    assert all(command in script for command in COMMANDS)
    assert "claude-desktop" in script
    checker = {"bash": ["bash", "-n"]}.get(shell)
    if checker is not None:
        path = tmp_path / "completion"
        path.write_text(script)
        subprocess.run([*checker, str(path)], check=True)


def test_completion_is_installed_where_the_shell_looks(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert cli("--install-completion", "--shell", "bash").status == 0
    scripts = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert any("trio-mcp" in each.read_text() for each in scripts)
    assert ".bashrc" not in [each.name for each in scripts], "nobody asked for it to be edited"


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_a_command_in_good_order(number: int, status: int, shop: str) -> None:
    command = [*COMMAND, "call", shop, "slow", "seconds=60"]
    async with running(command) as process:
        await process.said(b"the second step")
        process.signal(number)
        with trio.fail_after(60):
            assert await process.exit() == status
        assert b"Traceback" not in process.stderr
