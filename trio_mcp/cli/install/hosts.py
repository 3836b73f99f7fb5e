"""The hosts: where their configurations are, how they describe a server, and what starts it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from attrs import frozen
from platformdirs import user_config_path

from trio_mcp.cli.failures import Failure, Usage, last_words
from trio_mcp.cli.target import OURSELVES, Target, split_target
from trio_mcp.wire.jsonrpc import Json

HostName = Literal[
    "claude-desktop",
    "claude-code",
    "cursor",
    "gemini-cli",
    "kiro",
    "vscode",
    "windsurf",
    "zed",
    "generic",
]
Scope = Literal["project", "user"]


@frozen(kw_only=True)
class Host:
    """A host: an application that starts servers."""

    title: str
    files: dict[Scope, Callable[[], Path]]
    """Its configuration by scope, the default first."""
    key: str = "mcpServers"
    """The key of the servers."""
    types: tuple[str | None, str | None] = (None, None)
    """Its types of servers that are commands, and of those that have URLs, if it has some."""
    url_key: str = "url"
    """The key of a server's URL."""
    urls: bool = True
    """Whether it supports URLs."""
    comments: bool = False
    """Whether its configuration may have comments and trailing commas."""
    afterwards: str = ""

    def file(self, scope: Scope | None) -> Path:
        if scope is None:
            return next(iter(self.files.values()))()
        if scope not in self.files:
            raise Usage(f"{self.title} knows no scope {scope!r}, only: {', '.join(self.files)}")
        return self.files[scope]()

    def command_entry(self, command: list[str], env: dict[str, str]) -> dict[str, Json]:
        entry = {**_type(self.types[0]), "command": command[0], "args": command[1:]}
        return {**entry, "env": env} if env else entry

    def url_entry(self, url: str, headers: dict[str, str]) -> dict[str, Json]:
        if not self.urls:
            raise Failure(
                f"{self.title} starts commands only; give it one that forwards to the URL, such as "
                f"-- trio-mcp proxy {url}"
            )
        entry = {**_type(self.types[1]), self.url_key: url}
        return {**entry, "headers": headers} if headers else entry


def _type(name: str | None) -> dict[str, Json]:
    return {} if name is None else {"type": name}


def _settings(application: str, path: str) -> dict[Scope, Callable[[], Path]]:
    return {"user": lambda: user_config_path(application, appauthor=False, roaming=True) / path}


def _project(path: str) -> dict[Scope, Callable[[], Path]]:
    return {"project": lambda: Path.cwd() / path}


def _home(path: str) -> dict[Scope, Callable[[], Path]]:
    return {"user": lambda: Path.home() / path}


_NAMED: Final = ("stdio", "http")

HOSTS: Final[dict[HostName, Host]] = {
    "claude-desktop": Host(
        title="Claude Desktop",
        files=_settings("Claude", "claude_desktop_config.json"),
        urls=False,
        afterwards="Quit Claude Desktop and open it again.",
    ),
    "claude-code": Host(
        title="Claude Code",
        files=_project(".mcp.json") | _home(".claude.json"),
        types=_NAMED,
        afterwards="Start Claude Code again; /mcp shows its servers.",
    ),
    "cursor": Host(
        title="Cursor",
        files=_project(".cursor/mcp.json") | _home(".cursor/mcp.json"),
        types=("stdio", None),
        afterwards="Cursor's settings show its servers.",
    ),
    "gemini-cli": Host(
        title="Gemini CLI",
        files=_project(".gemini/settings.json") | _home(".gemini/settings.json"),
        url_key="httpUrl",
        comments=True,
        afterwards="Start Gemini CLI again; /mcp shows its servers.",
    ),
    "kiro": Host(
        title="Kiro",
        files=_project(".kiro/settings/mcp.json") | _home(".kiro/settings/mcp.json"),
        afterwards="Kiro's panel MCP Servers shows its servers.",
    ),
    "vscode": Host(
        title="VS Code",
        files=_project(".vscode/mcp.json") | _settings("Code", "User/mcp.json"),
        key="servers",
        types=_NAMED,
        comments=True,
        afterwards="MCP: List Servers in the command palette shows its servers.",
    ),
    "windsurf": Host(
        title="Windsurf",
        files=_home(".codeium/windsurf/mcp_config.json"),
        url_key="serverUrl",
        afterwards="Refresh the servers in Windsurf's settings of Cascade.",
    ),
    "zed": Host(
        title="Zed",
        files=(
            _settings("Zed", "settings.json")  # where the system wants them, for once
            if sys.platform == "win32"
            else _home(".config/zed/settings.json")
        )
        | _project(".zed/settings.json"),
        key="context_servers",
        comments=True,
        afterwards="Zed's agent settings show its servers.",
    ),
    "generic": Host(title="the host", files=_project("mcp.json"), types=_NAMED),
}


_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RUNNERS: Final = re.compile(
    r"(npx|uvx|pipx|uv|bunx|bun|pnpm|dlx|run|tool|exec|deno|node|docker|python[\d.]*)"
)
_AFFIXES: Final = re.compile(r"^(mcp-server-|server-|mcp-)|(-mcp-server|-server|-mcp)$")
_CHECK_SECONDS: Final = 30.0


def name_of(target: Target, name: str | None) -> str:
    name = name or _suggested(target)
    if name is None:
        raise Usage("say what the host shall call the server: --name NAME")
    if not _NAME.fullmatch(name):
        raise Usage(f"a name has letters, digits, '.', '_' and '-', at most 64: not {name!r}")
    return name


def command_of(target: Target, env: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return a command that starts a target from anywhere, and its variables."""
    if target.registry is None:
        program = shutil.which(target.command[0])
        if program is None:
            raise Failure(
                f"there is no program {target.command[0]!r}; install it, or give its path"
            )
        return [os.path.abspath(program), *map(_absolute, target.command[1:])], env
    place, name = split_target(target.registry)
    if place.endswith(".py"):
        place = os.path.abspath(place)
    elif not _is_installed(place):
        env = {"PYTHONPATH": os.getcwd(), **env}
    registry = f"{place}:{name}" if name else place
    _check(registry, env)
    script = shutil.which("trio-mcp", path=os.path.dirname(sys.executable))
    ours = [script] if script is not None else [sys.executable, "-m", "trio_mcp.cli"]
    return [*ours, "serve", registry], env


def _suggested(target: Target) -> str | None:
    if target.url is not None:
        return urlsplit(target.url).hostname
    if target.registry is not None:
        return Path(split_target(target.registry)[0]).stem.rpartition(".")[2]
    for word in target.command:
        base = Path(re.split(r"[/\\]", word)[-1].partition("@")[0] or word).stem
        if word.startswith("-") or _RUNNERS.fullmatch(base):
            continue
        found = _AFFIXES.sub("", base)
        return found if _NAME.fullmatch(found) else None
    return None


def _absolute(word: str) -> str:
    is_path = (
        word in (".", "..")
        or "/" in word
        or os.sep in word
        or Path(word).suffix in (".py", ".js", ".mjs")
    )
    if is_path and not word.startswith("-") and os.path.exists(word):
        return os.path.abspath(word)
    return word


def _is_installed(module: str) -> bool:
    here = {"", os.getcwd()}
    before = sys.path[:]
    sys.path[:] = [folder for folder in before if folder not in here]
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    finally:
        sys.path[:] = before


def _check(registry: str, env: dict[str, str]) -> None:
    """Start a registry with nothing to do, to see that it can be served."""
    command = [*OURSELVES, "serve", registry, "--log-level", "error"]
    try:
        done = subprocess.run(  # noqa: S603 (it is what the person wants to install)
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{registry} does not start: no end of it in {_CHECK_SECONDS:g} s") from None
    if done.returncode:
        raise Failure(last_words(done.stderr).removeprefix("trio-mcp: ") or "it does not start")
