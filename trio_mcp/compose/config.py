"""Reads `mcp.json`, the servers of a host, and names every mistake in it.

Hosts agree on the outline and differ in the details. What they agree on is read here; keys that
only concern their user interfaces are passed over; anything else is refused, by file, server and
key, because a setting that is silently ignored is worse than an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from attrs import evolve, frozen

from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import ConfigError
from trio_mcp.registry import Registry
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.jsonrpc import Json, json_type

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file, or what could stand in one."""

_TABLES: Final = ("mcpServers", "servers", "context_servers")
"""Under which key hosts have the servers."""
_URLS: Final = ("url", "serverUrl", "httpUrl")
"""Under which key hosts have the URL of a server."""
_TYPES: Final = {
    "stdio": False,
    "http": True,
    "streamable-http": True,
    "streamableHttp": True,
    "sse": True,
}
"""What hosts call the ways to a server, and whether it is one by URL."""
_OF_COMMANDS: Final = ("command", "args", "env", "cwd")
_OF_URLS: Final = (*_URLS, "headers")
_OF_HOSTS: Final = (
    "alwaysAllow",
    "autoApprove",
    "description",
    "disabledTools",
    "gallery",
    "icon",
    "source",
    "trust",
    "version",
)
"""What only concerns a host and its person."""
_KNOWN: Final = (*_OF_COMMANDS, *_OF_URLS, "type", "disabled", "enabled", "timeout", *_OF_HOSTS)
_MOST_BYTES: Final = 4 * 1024 * 1024
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@frozen(kw_only=True)
class ServerConfig:
    """The configuration of one server."""

    name: str
    target: Sequence[str | Path] | str | Registry
    """A command, a URL, or a registry in this process."""
    env: Mapping[str, str] = {}
    cwd: str | None = None
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    """Seconds that its tools may take, if it says so."""

    def process_options(self, usual: ProcessOptions) -> ProcessOptions:
        cwd = usual.cwd if self.cwd is None else self.cwd
        return evolve(usual, env={**usual.env, **self.env}, cwd=cwd)

    def http_options(self, usual: HttpOptions) -> HttpOptions:
        return evolve(usual, headers={**usual.headers, **self.headers})


def read_servers(source: Source, env: Mapping[str, str] | None = None) -> list[ServerConfig]:
    """Read the servers that are configured, those that are disabled left out.

    Args:
        source: The path of a file, or a mapping: either of the same form, or by name a command as
            a list, a URL, a `Registry`, or what a file has for a server.
        env: The variables for `${NAME}` and `${NAME:-default}`; by default, those of the process.

    Raises:
        ConfigError: Something is wrong; the message names the file, the server and the key.
        OSError: The file cannot be read.
    """
    where, folder = "the configuration", None
    if not isinstance(source, Mapping):
        if not isinstance(source, str | os.PathLike):
            raise TypeError(
                "the servers must be the path of a file such as mcp.json, or a mapping from names "
                f"to commands, URLs and registries, not {source!r:.100}"
            )
        path = Path(source)
        where, folder = str(path), path.parent if path.is_file() else Path.cwd()  # it may be a pipe
        source = _parsed(path)
    reader = _Reader(where, folder, os.environ if env is None else env)
    table = next((source[key] for key in _TABLES if key in source), None)
    if table is None:
        if folder is not None:
            raise ConfigError(f'{where} has no "mcpServers"; servers go there, by name')
        table = source
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: mcpServers must be an object, not {json_type(table)}")
    found = [reader.server(name, entry) for name, entry in table.items()]
    return [server for server in found if server is not None]


def _parsed(path: Path) -> Mapping[str, Json]:
    data = path.read_bytes()
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path} has {len(data):,} bytes; at most {_MOST_BYTES:,} are read")
    try:
        parsed = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{path} is not JSON ({place}): {error.msg}") from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"{path} must hold an object, not {json_type(parsed)}")
    return parsed


@frozen
class _Reader:
    """Reads the servers of one configuration."""

    where: str
    folder: Path | None
    env: Mapping[str, str]

    def server(self, name: str, entry: Any) -> ServerConfig | None:
        """Read one server; `None` if it is disabled."""
        if not isinstance(name, str) or not name or len(name) > 100:
            raise ConfigError(f"{self.where}: a server needs a name of 1 to 100 characters")
        if isinstance(entry, Registry):
            return ServerConfig(name=name, target=entry)
        if isinstance(entry, str):
            entry = {"url": entry}  # a command is a list
        elif isinstance(entry, list | tuple) and entry:
            command, *args = map(str, entry)
            entry = {"command": command, "args": args}
        if not isinstance(entry, Mapping):
            or_else = (
                "" if self.folder is not None else ", a command as a list, a URL or a Registry"
            )
            raise self._wrong(name, None, f"must be an object{or_else}, not {_kind(entry)}")
        return self._read(name, entry)

    def _read(self, name: str, entry: Mapping[str, Any]) -> ServerConfig | None:
        self._check_keys(name, entry)
        off = self._bool(name, entry, "disabled", False)
        if off or not self._bool(name, entry, "enabled", True):
            return None  # before its variables are looked up: they may not be set
        url_key = next((key for key in _URLS if key in entry), None)
        kind = entry.get("type")
        if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
            raise self._wrong(name, "type", f"must be one of {', '.join(_TYPES)}, not {kind!r:.60}")
        if (url_key is None) == ("command" not in entry):
            raise self._wrong(name, None, 'needs either a "command" or a "url"')
        by_url = url_key is not None
        if kind is not None and _TYPES[kind] is not by_url:
            raise self._wrong(name, "type", f'"{kind}" needs a "{"command" if by_url else "url"}"')
        for key in _OF_COMMANDS if by_url else _OF_URLS:
            if key in entry:
                raise self._wrong(name, key, f"is for a {'command' if by_url else 'URL'}")
        timeout = self._timeout(name, entry)
        if url_key is not None:
            headers = self._texts(name, entry, "headers")
            try:
                HttpOptions(headers=headers)
            except ValueError as error:
                raise self._wrong(name, None, str(error)) from None
            return ServerConfig(
                name=name, target=self._url(name, entry, url_key), headers=headers, timeout=timeout
            )
        args = entry.get("args", [])
        if not isinstance(args, list | tuple):
            raise self._wrong(name, "args", f"must be a list, not {_kind(args)}")
        words = [self._text(name, f"args[{place}]", arg) for place, arg in enumerate(args)]
        return ServerConfig(
            name=name,
            target=[self._text(name, "command", entry["command"]), *words],
            env=self._texts(name, entry, "env"),
            cwd=self._cwd(name, entry),
            timeout=timeout,
        )

    def _check_keys(self, name: str, entry: Mapping[str, Any]) -> None:
        for key in entry:
            if key not in _KNOWN:
                hint = did_you_mean(str(key), _KNOWN)
                raise self._wrong(name, str(key)[:100], f"is unknown{hint}")

    def _wrong(self, name: str, key: str | None, why: str) -> ConfigError:
        at = "" if key is None else f" {key}"
        return ConfigError(f"{self.where}: server {name!r}:{at} {why}")

    def _text(self, name: str, key: str, value: Any) -> str:
        """Read a text, and expand its variables."""
        if not isinstance(value, str) or "\0" in value:
            raise self._wrong(name, key, f"must be a string, not {_kind(value)}")
        return _VARIABLE.sub(self._filler(name, key), value)

    def _filler(self, name: str, key: str) -> Callable[[re.Match[str]], str]:
        def fill(match: re.Match[str]) -> str:
            variable, default = match.groups()
            found = self.env.get(variable) or default  # as in a shell, an empty one is none
            if found is None and variable not in self.env:
                raise self._wrong(
                    name, key, f"needs the variable {variable} of the environment, which is not set"
                )
            return found or ""

        return fill

    def _texts(self, name: str, entry: Mapping[str, Any], key: str) -> dict[str, str]:
        values = entry.get(key, {})
        if not isinstance(values, Mapping):
            raise self._wrong(name, key, f"must be an object, not {_kind(values)}")
        return {item: self._text(name, f"{key}.{item}", value) for item, value in values.items()}

    def _url(self, name: str, entry: Mapping[str, Any], key: str) -> str:
        url = self._text(name, key, entry[key])
        if not url.lower().startswith(("http://", "https://")):
            or_else = "" if self.folder is not None else "; a command is a list"
            raise self._wrong(name, key, f"must be a URL with http:// or https://{or_else}")
        return url

    def _cwd(self, name: str, entry: Mapping[str, Any]) -> str | None:
        """Read the working directory; a relative one is relative to the file."""
        if "cwd" not in entry:
            return None
        try:
            path = Path(self._text(name, "cwd", entry["cwd"])).expanduser()
        except RuntimeError:
            raise self._wrong(
                name, "cwd", "begins with the home of a user who is unknown"
            ) from None
        return str(path if self.folder is None else self.folder / path)

    def _bool(self, name: str, entry: Mapping[str, Any], key: str, usual: bool) -> bool:
        value = entry.get(key, usual)
        if not isinstance(value, bool):
            raise self._wrong(name, key, f"must be true or false, not {_kind(value)}")
        return value

    def _timeout(self, name: str, entry: Mapping[str, Any]) -> float | None:
        """Read the time limit in seconds; hosts write milliseconds."""
        value = entry.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            raise self._wrong(name, "timeout", "must be a number of milliseconds, more than 0")
        return value / 1000


def _kind(value: Any) -> str:
    try:
        return json_type(value)
    except Exception:  # in a mapping of the program's own, anything may be
        return type(value).__name__
