"""Reads `mcp.json`, the servers of a host, and names every mistake in it.

Hosts agree on the outline and differ in the details. What they agree on is read here; keys that
only concern their user interfaces are passed over; anything else is refused, by file, server and
key, because a setting that is silently ignored is worse than an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

from trio_mcp.checks import names_only
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.opening import check_target
from trio_mcp.errors import ConfigError
from trio_mcp.registry import Registry
from trio_mcp.threads import in_thread
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.wire import codec
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.jsonrpc import Json, json_type

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file, or what could stand in one."""

_TABLES: Final = ("mcpServers", "servers", "context_servers")
"""Under which key hosts have the servers."""
_URLS: Final = ("url", "serverUrl", "httpUrl")
"""Under which key hosts have the URL of a server."""
_TYPES: Final = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamableHttp": "url",
    "sse": "url",
}
"""What hosts call the ways to a server, and the key that each of them needs."""
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
_KEYS: Final = {
    **dict.fromkeys(("command", "args", "env", "cwd"), "command"),
    **dict.fromkeys((*_URLS, "headers"), "url"),
    **dict.fromkeys(("type", "disabled", "enabled", "timeout", *_OF_HOSTS), None),
}
"""What a server may have, and with which of the two ways to it; `None` for either."""
_MOST_BYTES: Final = 4 * 1024 * 1024
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@frozen(kw_only=True)
class ServerConfig:
    """The configuration of one server."""

    name: str
    target: Sequence[str | Path] | str | Registry = field(repr=False)
    """A command, a URL, or a registry in this process."""
    env: Mapping[str, str] = field(factory=dict, repr=names_only)
    cwd: str | None = None
    headers: Mapping[str, str] = field(factory=dict, repr=names_only)
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
        ModuleNotFoundError: A server is a URL, and no HTTP client is installed.
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
    key = next((key for key in _TABLES if key in source), None)
    if key is None and folder is not None:
        raise ConfigError(f'{where} has no "mcpServers"; servers go there, by name')
    table = source if key is None else source[key]
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: mcpServers must be an object, not {json_type(table)}")
    entry = partial(_Entry, where, folder, os.environ if env is None else env)
    found = [entry(name, given).read() for name, given in table.items()]
    return [server for server in found if server is not None]


async def load_servers(source: Source) -> list[ServerConfig]:
    """Read the servers that are configured, as `read_servers` does.

    A file is read in a thread, as it may be a pipe into which nothing is written.
    """
    is_file = not isinstance(source, Mapping)
    return await in_thread(read_servers, source) if is_file else read_servers(source)


def _parsed(path: Path) -> Mapping[str, Json]:
    data = path.read_bytes()
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path} has {len(data):,} bytes; at most {_MOST_BYTES:,} are read")
    try:
        parsed = codec.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except codec.DecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{path} is not JSON ({place}): {error.msg}") from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"{path} must hold an object, not {json_type(parsed)}")
    return parsed


@frozen
class _Entry:
    """What a configuration has for one server."""

    where: str
    folder: Path | None
    """That of the file; `None` for a mapping of the program's own."""
    env: Mapping[str, str] = field(repr=False)
    name: str
    given: Any = field(repr=False)

    def read(self) -> ServerConfig | None:
        """Read it; `None` if it is disabled."""
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 100:
            raise ConfigError(f"{self.where}: a server needs a name of 1 to 100 characters")
        match self.given:
            case Registry():
                return ServerConfig(name=self.name, target=self.given)
            case str(url):  # a command is a list
                return evolve(self, given={"url": url})._read()
            case [command, *args]:
                words = {"command": str(command), "args": [*map(str, args)]}
                return evolve(self, given=words)._read()
            case Mapping():
                return self._read()
        or_else = "" if self.folder else ", a command as a list, a URL or a Registry"
        raise self._wrong(None, f"must be an object{or_else}, not {_kind(self.given)}")

    def _read(self) -> ServerConfig | None:
        for key in self.given:
            if key not in _KEYS:
                raise self._wrong(str(key)[:100], f"is unknown{did_you_mean(str(key), _KEYS)}")
        off = self._value("disabled", bool, "true or false", False)
        if off or not self._value("enabled", bool, "true or false", True):
            return None  # before its variables are looked up: they may not be set
        read = self._by_url if self._way() == "url" else self._by_command
        return evolve(read(), timeout=self._timeout())

    def _way(self) -> str:
        """Whether it is a `command` or a `url`, on which all that it has must agree."""
        ways = {way for key in self.given if key in ("command", *_URLS) and (way := _KEYS[key])}
        if len(ways) != 1:
            raise self._wrong(None, 'needs either a "command" or a "url"')
        (way,) = ways
        kind = self.given.get("type")
        if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
            raise self._wrong("type", f"must be one of {', '.join(_TYPES)}, not {kind!r:.60}")
        if kind is not None and _TYPES[kind] != way:
            raise self._wrong("type", f'"{kind}" needs a "{_TYPES[kind]}"')
        for key in self.given:
            if _KEYS[key] not in (None, way):
                raise self._wrong(key, f"is for a {'URL' if way == 'command' else 'command'}")
        return way

    def _by_url(self) -> ServerConfig:
        key = next(key for key in _URLS if key in self.given)
        url = self._text(key, self.given[key])
        if not url.lower().startswith(("http://", "https://")):
            or_else = "" if self.folder else "; a command is a list"
            raise self._wrong(key, f"must be a URL with http:// or https://{or_else}")
        headers = self._texts("headers")
        try:
            check_target(f"server {self.name!r}: {key}", url)
        except ValueError as error:
            raise ConfigError(f"{self.where}: {error}") from None
        try:
            HttpOptions(headers=headers)
        except ValueError as error:
            raise self._wrong(None, str(error)) from None
        return ServerConfig(name=self.name, target=url, headers=headers)

    def _by_command(self) -> ServerConfig:
        args = self._value("args", list | tuple, "a list", [])
        words = {"command": self.given["command"]}
        words |= {f"args[{place}]": arg for place, arg in enumerate(args)}
        target = [self._text(key, word) for key, word in words.items()]
        if not target[0]:
            raise self._wrong("command", "must not be empty")
        env = self._texts("env")
        for name in env:
            if not name or "=" in name:
                raise self._wrong("env", f"has {name!r}, which no variable can be called")
        return ServerConfig(name=self.name, target=target, env=env, cwd=self._cwd())

    def _wrong(self, key: str | None, why: str) -> ConfigError:
        at = "" if key is None else f" {key}"
        return ConfigError(f"{self.where}: server {self.name!r}:{at} {why}")

    def _value(self, key: str, kind: Any, expected: str, usual: Any) -> Any:
        value = self.given.get(key, usual)
        if not isinstance(value, kind):
            raise self._wrong(key, f"must be {expected}, not {_kind(value)}")
        return value

    def _text(self, key: str, value: Any) -> str:
        """Read a text, and expand its variables."""

        def fill(match: re.Match[str]) -> str:
            variable, default = match.groups()
            found = self.env.get(variable) or default  # as in a shell, an empty one is none
            if found is None and variable not in self.env:
                raise self._wrong(
                    key, f"needs the variable {variable} of the environment, which is not set"
                )
            return found or ""

        if not isinstance(value, str):
            raise self._wrong(key, f"must be a string, not {_kind(value)}")
        if "\0" in value:
            raise self._wrong(key, "must not have a NUL in it")
        return _VARIABLE.sub(fill, value)

    def _texts(self, key: str) -> dict[str, str]:
        values = self._value(key, Mapping, "an object", {})
        return {item: self._text(f"{key}.{item}", value) for item, value in values.items()}

    def _cwd(self) -> str | None:
        """Read the working directory; a relative one is relative to the file."""
        if "cwd" not in self.given:
            return None
        try:
            path = Path(self._text("cwd", self.given["cwd"])).expanduser()
        except RuntimeError:
            raise self._wrong("cwd", "begins with the home of a user who is unknown") from None
        return str(path if self.folder is None else self.folder / path)

    def _timeout(self) -> float | None:
        """Read the time limit in seconds; hosts write milliseconds."""
        value = self.given.get("timeout")
        if value is not None and not (is_number(value) and 0 < value < 1e12):
            raise self._wrong("timeout", "must be a number of milliseconds, more than 0")
        return None if value is None else value / 1000


def _kind(value: Any) -> str:
    try:
        return json_type(value)
    except Exception:  # in a mapping of the program's own, anything may be
        return type(value).__name__
