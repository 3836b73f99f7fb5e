"""What all commands have in common: help, exit statuses, errors in one line, completion."""

import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from runpy import run_path

import pexpect
import pytest
import trio

from tests.cli.support import COMMAND, SHOP, TIME_LIMIT, CommandLine
from tests.support.processes import ROOT, running
from trio_mcp.cli.app import make_app
from trio_mcp.cli.commands import EXAMPLES
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
    for words in (["--help"], ["-h"]):
        outcome = cli(*words)
        assert (outcome.status, outcome.err) == (0, "")
        shown = outcome.out.split()
        assert set(COMMANDS) <= set(shown)
        assert "Exit status: 0 all is well, 1 it failed" in " ".join(shown)


def test_alone_it_names_three_commands_to_begin_with(cli: CommandLine, tmp_path: Path) -> None:
    def commands() -> list[str]:
        outcome = cli()
        assert (outcome.status, outcome.err) == (0, "")
        assert len(outcome.out.splitlines()) <= 15
        assert max(map(len, outcome.out.splitlines())) <= 60
        return [each.strip() for each in outcome.out.splitlines() if each.startswith("  ")]

    assert commands() == [
        "trio-mcp new my-server",
        "trio-mcp inspect --web server.py",
        "trio-mcp install server.py --host claude-desktop",
    ]
    (tmp_path / "a.py").write_text("import os\n")
    (tmp_path / "my tools.py").write_text("from trio_mcp import Registry\nmcp = Registry('mine')\n")
    assert commands()[1] == "trio-mcp inspect --web 'my tools.py'", "the server that is here"


def test_examples_are_command_lines_that_can_be_typed() -> None:
    app = make_app()
    for command, example in EXAMPLES.items():
        name, *_ = app.parse_args([command, *shlex.split(example)], print_error=False)
        assert callable(name)


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
        (
            ["cal", "shop.py", "a b"],
            "there is no command 'cal'; did you mean: trio-mcp call shop.py 'a b'",
        ),
        (
            ["run", "shop.py", "--header", "A: secret"],
            "there is no command 'run'; did you mean: trio-mcp serve shop.py",
        ),
        (["dance"], "there is no command 'dance' (trio-mcp --help lists them)"),
        (
            ["--verson"],
            "there is no option --verson; did you mean '--version'? (see trio-mcp --help)",
        ),
        (["new"], "new needs NAME, as in: trio-mcp new my-server"),
        (["tools"], "tools needs TARGET, as in: trio-mcp tools server.py"),
        (["call", "--json"], "call needs TARGET, as in: trio-mcp call server.py TOOL KEY=VALUE"),
        (
            ["call", "shop.py"],
            "call needs NAME, as in: trio-mcp call shop.py TOOL KEY=VALUE (trio-mcp tools shop.py lists them)",
        ),
        (
            ["install", "shop.py"],
            "install needs --host, as in: trio-mcp install shop.py --host claude-desktop",
        ),
        (["serve", "shop.py", "--http"], "--http needs a value (see trio-mcp serve --help)"),
        (
            ["serve", "shop.py", "--port", "8000"],
            "there is no option --port; write --http PORT, as in --http 8000",
        ),
        (
            ["proxy", "shop.py", "--host=0.0.0.0"],
            "there is no option --host; write --http HOST:PORT, as in --http 0.0.0.0:8000",
        ),
        (["serve", "shop.py", "--wrong"], "Unknown option: --wrong. (see trio-mcp serve --help)"),
    ],
    ids=str,
)
def test_a_wrong_command_line_is_told_what_was_meant(
    words: list[str], told: str, cli: CommandLine
) -> None:
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(told)
    assert "secret" not in outcome.error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tools", "missing.py"], "there is no file missing.py"),
        (["tools", "missing"], "there is no module 'missing'; a file is given as FILE.py, and a"),
        (["tools", "./x"], "there is no module './x'"),
        (["tools", "brokn.py"], "there is no file brokn.py; did you mean 'broken.py'?"),
        (["tools", "empty"], "empty is a directory; give a file in it, as in empty/server.py"),
        (["serve", "empty"], "empty is a directory; give a file in it, as in empty/server.py"),
        (["tools", "full"], "full is a directory; give a file in it, as in full/mine.py"),
        (
            ["tools", "note.txt"],
            "note.txt is not a Python file; a command comes after --, as in: -- ./no",
        ),
        (["tools", "sh"], "sh is a program; a command comes after --, as in: -- sh server.py"),
        (["tools", "none.py"], "none.py makes no Registry, as in: mcp = Registry('my-server')"),
        (
            ["tools", "peer.py"],
            "peer.py is a server for FastMCP or the official SDK: trio-mcp port peer.",
        ),
        *(
            (["tools", each], f"a URL begins with http:// or https://, as in http://{each}")
            for each in ("localhost:8000/mcp", "127.0.0.1:80", "mcp.example.com/mcp")
        ),
        *(
            ([command, "ftp://x/y"], "a URL begins with http:// or https://, not with ftp://")
            for command in ("tools", "doctor", "proxy")
        ),
        (["tools", "broken.py"], "broken.py cannot be imported: ZeroDivisionError"),
        (
            ["tools", "typo.py"],
            "typo.py cannot be imported: AttributeError: 'Registry' object has no attribute 'tol'; did you mean 'tool'? (",
        ),
        (
            ["tools", "other.py"],
            "other.py cannot be imported: ModuleNotFoundError: No module named 'fastmcp'; trio-mcp port FILE says what to write instead (",
        ),
        (["tools", "--", "./no-such-program"], "./no-such-program cannot be started: No such"),
        (["tools", "--", "false"], "the server exited with status 1 and left no word"),
        (
            ["tools", "--timeout", "60", "http://127.0.0.1:1/mcp"],
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
    (tmp_path / "typo.py").write_text("from trio_mcp import Registry\nRegistry('shop').tol\n")
    (tmp_path / "other.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'fastmcp'\", name='fastmcp.server')\n"
    )
    (tmp_path / "none.py").write_text("import os\n")
    (tmp_path / "peer.py").write_text(
        "mcp = type('FastMCP', (), {'__module__': 'fastmcp.server'})()\n"
    )
    (tmp_path / "note.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.py").write_text("mcp = Registry('mine')\n")
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


def test_errors_are_red_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for variable, shown in (("", "\x1b[31mtrio-mcp: no\x1b[0m\n"), ("1", "trio-mcp: no\n")):
        monkeypatch.setenv("NO_COLOR", variable)
        assert report(Failure("no")) == FAILED
        assert capsys.readouterr().err == shown


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


BASH = """source {script}
COMP_WORDS=({words}) COMP_CWORD={last}
_trio_mcp
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = """source {script}
complete --do-complete '{line}'
"""


def completions(shell: str, script: Path, line: str) -> set[str]:
    """What a shell offers at the end of a command line."""
    words = line.split(" ")
    quoted = shlex.join(words)
    program = {"bash": BASH, "fish": FISH}[shell]
    command = program.format(script=script, words=quoted, last=len(words) - 1, line=line)
    done = subprocess.run(
        [shell, "-c", command], cwd=script.parent, capture_output=True, text=True, check=True
    )
    return {each.split("\t")[0] for each in done.stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", pytest.param("fish", marks=pytest.mark.needs("fish"))])
def test_shells_complete_commands_options_choices_and_files(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(make_app().generate_completion(shell=shell))  # type: ignore[arg-type]
    (tmp_path / "shop.py").touch()
    offered = partial(completions, shell, script)
    assert {*COMMANDS} <= offered("trio-mcp ")
    assert offered("trio-mcp too") == {"tools"}
    assert offered("trio-mcp tools sh") == {"shop.py"}
    assert offered("trio-mcp openapi sh") == {"shop.py"}
    assert offered("trio-mcp tools shop.py --er") == {"--era"}
    assert offered("trio-mcp install shop.py --host claude-d") == {"claude-desktop"}


@pytest.mark.needs("zsh")
def test_zsh_completes(tmp_path: Path) -> None:
    script = make_app().generate_completion(shell="zsh")
    (tmp_path / "_cyclopts_trio-mcp").write_text(script)  # where cyclopts installs it
    (tmp_path / "shop.py").touch()
    zsh = pexpect.spawn(
        "zsh",
        ["-f", "-i"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "dumb"},  # it writes nothing but what is typed
        timeout=TIME_LIMIT,
        encoding="utf-8",
    )
    zsh.sendline(  # the prompt in two parts, so that this line itself is not taken for one
        f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; PS1='rea''dy> '"
    )
    for typed, completed in [
        ("trio-mcp too", "trio-mcp tools "),
        ("trio-mcp tools sh", "trio-mcp tools shop.py "),
        (
            "trio-mcp install shop.py --host claude-d",
            "trio-mcp install shop.py --host claude-desktop ",
        ),
    ]:
        zsh.expect_exact("ready> ")
        zsh.send(f"{typed}\t")
        zsh.expect_exact(completed)
        zsh.sendline()
    zsh.close(force=True)


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
