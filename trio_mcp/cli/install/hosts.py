"""The hosts, as data: where each one's configuration lies, and how it writes a server."""

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
    """Where its configuration is; the first scope is the one that is meant if none is named."""
    key: str = "mcpServers"
    """Under which key the servers are."""
    command_type: str | None = "stdio"
    """What it calls a server that is a command; `None` if it does not say."""
    url_key: str = "url"
    """Under which key it expects the URL of a server."""
    url_type: str | None = "http"
    """What it calls a server that has a URL; `None` if it does not say."""
    urls: bool = True
    """Whether it can reach a URL at all."""
    comments: bool = False
    """Whether its configuration may have comments and trailing commas."""
    afterwards: str = ""
    """What is left to do."""

    def file(self, scope: Scope | None) -> Path:
        """Find its configuration.

        Raises:
            Usage: It has none of that scope.
        """
        if scope is None:
            return next(iter(self.files.values()))()
        if scope not in self.files:
            raise Usage(f"{self.title} knows no scope {scope!r}, only: {', '.join(self.files)}")
        return self.files[scope]()

    def command_entry(self, command: list[str], env: dict[str, str]) -> dict[str, Json]:
        """Write a server that is a command."""
        entry: dict[str, Json] = {} if self.command_type is None else {"type": self.command_type}
        entry |= {"command": command[0], "args": command[1:]}
        return {**entry, "env": env} if env else entry

    def url_entry(self, url: str, headers: dict[str, str]) -> dict[str, Json]:
        """Write a server that has a URL.

        Raises:
            Failure: The host cannot reach one.
        """
        if not self.urls:
            raise Failure(
                f"{self.title} starts commands only; give it one that forwards to the URL, such as "
                f"-- npx mcp-remote {url}"
            )
        entry: dict[str, Json] = {} if self.url_type is None else {"type": self.url_type}
        entry[self.url_key] = url
        return {**entry, "headers": headers} if headers else entry


def _settings(application: str, *path: str) -> Callable[[], Path]:
    """Where an application keeps its settings on this system."""
    return lambda: user_config_path(application, appauthor=False, roaming=True).joinpath(*path)


def _here_and_at_home(*path: str) -> dict[Scope, Callable[[], Path]]:
    """The same path in this directory, for the project, and in the person's home."""
    return {
        "project": lambda: Path.cwd().joinpath(*path),
        "user": lambda: Path.home().joinpath(*path),
    }


HOSTS: Final[dict[HostName, Host]] = {
    "claude-desktop": Host(
        title="Claude Desktop",
        files={"user": _settings("Claude", "claude_desktop_config.json")},
        command_type=None,
        urls=False,
        afterwards="Quit Claude Desktop and open it again.",
    ),
    "claude-code": Host(
        title="Claude Code",
        files={
            "project": lambda: Path.cwd() / ".mcp.json",
            "user": lambda: Path.home() / ".claude.json",
        },
        afterwards="Start Claude Code again; /mcp shows its servers.",
    ),
    "cursor": Host(
        title="Cursor",
        files=_here_and_at_home(".cursor", "mcp.json"),
        url_type=None,
        afterwards="Cursor's settings show its servers.",
    ),
    "gemini-cli": Host(
        title="Gemini CLI",
        files=_here_and_at_home(".gemini", "settings.json"),
        command_type=None,
        url_key="httpUrl",
        url_type=None,
        comments=True,
        afterwards="Start Gemini CLI again; /mcp shows its servers.",
    ),
    "kiro": Host(
        title="Kiro",
        files=_here_and_at_home(".kiro", "settings", "mcp.json"),
        command_type=None,
        url_type=None,
        afterwards="Kiro's panel MCP Servers shows its servers.",
    ),
    "vscode": Host(
        title="VS Code",
        files={
            "project": lambda: Path.cwd() / ".vscode" / "mcp.json",
            "user": _settings("Code", "User", "mcp.json"),
        },
        key="servers",
        comments=True,
        afterwards="MCP: List Servers in the command palette shows its servers.",
    ),
    "windsurf": Host(
        title="Windsurf",
        files={"user": lambda: Path.home() / ".codeium" / "windsurf" / "mcp_config.json"},
        command_type=None,
        url_key="serverUrl",
        url_type=None,
        afterwards="Refresh the servers in Windsurf's settings of Cascade.",
    ),
    "zed": Host(
        title="Zed",
        files={
            "user": (
                _settings("Zed", "settings.json")  # where the system wants them, for once
                if sys.platform == "win32"
                else lambda: Path.home() / ".config" / "zed" / "settings.json"
            ),
            "project": lambda: Path.cwd() / ".zed" / "settings.json",
        },
        key="context_servers",
        command_type=None,
        url_type=None,
        comments=True,
        afterwards="Zed's agent settings show its servers.",
    ),
    "generic": Host(title="the host", files={"project": lambda: Path.cwd() / "mcp.json"}),
}
