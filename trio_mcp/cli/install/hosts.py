"""The hosts: where their configurations are, and how they describe a server."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from attrs import frozen
from platformdirs import user_config_path

from trio_mcp.cli.failures import Failure, Usage
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
                f"-- npx mcp-remote {url}"
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
