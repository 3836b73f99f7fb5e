"""What `trio-mcp` says alone, and to a wrong command line: a command to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from cyclopts import CycloptsError, MissingArgumentError, UnknownCommandError, UnknownOptionError

from trio_mcp.cli.commands import EXAMPLES
from trio_mcp.cli.failures import no_option
from trio_mcp.cli.target import server_in
from trio_mcp.wire.closest import closest, did_you_mean

_OPTIONS: Final = ("--help", "--version", "--install-completion")
_WITH_ARGUMENTS: Final = ("call", "prompt", "bench")
_LISTS: Final = {"call": "tools", "read": "resources", "prompt": "prompts"}
"""By command, the one that lists what it can be given."""
_ELSEWHERE: Final = {
    **dict.fromkeys(("run", "start", "dev"), "serve"),
    **dict.fromkeys(("init", "create"), "new"),
    **dict.fromkeys(("list", "ls"), "tools"),
    **dict.fromkeys(("check", "test", "validate"), "doctor"),
    **dict.fromkeys(("add", "configure"), "install"),
}
"""The command for what other command lines call so."""
_SERVING: Final = ("serve", "proxy", "gateway", "openapi")
_ADDRESS: Final = {
    "--port": "write --http PORT, as in --http 8000",
    "--host": "write --http HOST:PORT, as in --http 0.0.0.0:8000",
    "--transport": "write --http 8000 to serve over HTTP, and nothing for stdin and stdout",
}
"""What to write for options by which other servers are served over HTTP."""
_STEPS: Final = (
    ("Write a starter project:", "new my-server"),
    ("Try a server out in your browser:", "inspect --web server.py"),
    ("Add it to a host, such as Claude Desktop:", "install server.py --host claude-desktop"),
)


def show_guide() -> None:
    """Show which commands to begin with."""
    from trio_mcp.cli.screen import Screen  # with rich, which a server on stdio does not need

    screen = Screen()
    screen.heading("MCP servers and clients for Python")
    for about, command in _STEPS:
        screen.text(f"\n{about}")
        screen.text(f"  trio-mcp {_filled(command)}", "cyan")
    screen.text("\ntrio-mcp --help lists all commands.")


def explain_usage(error: CycloptsError, words: Sequence[str]) -> str:
    """Say what is wrong with a command line, and what to type instead."""
    command = words[0]
    if isinstance(error, UnknownCommandError):
        return _no_command(command, words[1:])
    if isinstance(error, MissingArgumentError) and error.argument and command in EXAMPLES:
        return _needs(command, error.argument.name, words[1:])
    if isinstance(error, UnknownOptionError) and command in _WITH_ARGUMENTS:
        return no_option(error.token.keyword or error.token.value)
    if isinstance(error, UnknownOptionError) and command in _SERVING:
        option = (error.token.keyword or error.token.value).partition("=")[0]
        if option in _ADDRESS:
            return f"there is no option {option}; {_ADDRESS[option]}"
    return f"{error} (see trio-mcp {command} --help)"


def _no_command(word: str, rest: Sequence[str]) -> str:
    if word.endswith(".py") or "://" in word:
        return f"say what to do with {word}, as in: trio-mcp tools {word}"
    if word.startswith("-"):
        return f"there is no option {word}{did_you_mean(word, _OPTIONS)} (see trio-mcp --help)"
    meant = _ELSEWHERE.get(word) or closest(word, EXAMPLES)
    if meant is None:
        return f"there is no command {word!r} (trio-mcp --help lists them)"
    words = takewhile(lambda other: not other.startswith("-"), rest)  # options may have secrets
    return f"there is no command {word!r}; did you mean: {_typed(meant, *words)}"


def _needs(command: str, name: str, rest: Sequence[str]) -> str:
    if name in rest:
        return f"{name} needs a value (see trio-mcp {command} --help)"
    given = rest[0] if rest and not rest[0].startswith("-") else None
    example = _filled(f"{command} {EXAMPLES[command]}", given)
    said = f"{command} needs {name}, as in: trio-mcp {example}"
    if given is None or command not in _LISTS:
        return said
    return f"{said} ({_typed(_LISTS[command], given)} lists them)"


def _filled(example: str, target: str | None = None) -> str:
    """Put a target in place of `server.py`: the one given, or a server in this directory."""
    target = target or server_in()
    return example.replace("server.py", shlex.quote(target)) if target else example


def _typed(*words: str) -> str:
    return shlex.join(["trio-mcp", *words])
