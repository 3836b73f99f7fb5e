"""The options that commands share: a target, how to reach it, how to write results."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from attrs import AttrsInstance, field, fields, frozen
from cyclopts import Parameter, validators

from trio_mcp.cli.failures import Failure, Usage, no_option, require
from trio_mcp.cli.target import Target
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import Era

if TYPE_CHECKING:
    import httpx2

    from trio_mcp.cli.screen import Screen
    from trio_mcp.client.http.options import HttpOptions
    from trio_mcp.transports.process import ProcessOptions

    FileWord = str
else:  # It stays a str, which the parser tries first. Because of Path, shells complete files.
    FileWord = str | Path

TargetWord = Annotated[
    FileWord,
    Parameter(
        name="TARGET",
        help="FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.",
    ),
]
STDIN: Final = "-"
"""The word for a JSON object on stdin."""


def _refuse_options(_: object, word: str) -> None:
    if word.startswith("-") and word != STDIN:
        raise Usage(no_option(word.partition("=")[0]))


ToolArguments = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True,  # otherwise the parser takes - for an option
        validator=_refuse_options,
        help="KEY=VALUE, where the tool's schema decides what 3 is; KEY:=JSON; one JSON object; "
        "or - for a JSON object on stdin.",
    ),
]
AsJson = Annotated[bool, Parameter(name="--json", help="Write JSON, for programs.")]
Seconds = Annotated[float, Parameter(validator=validators.Number(gt=0))]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]

_AUTHORIZATION: Final = "Authorization"
_FOR_URLS: Final = (
    *("header", "token_env", "unix_socket"),
    *("client_id", "client_secret_env", "client_key", "issuer"),
)


@Parameter(name="*", group="Connecting")
@frozen(kw_only=True)
class ConnectionOptions:
    """How a server is reached."""

    env: tuple[str, ...] = field(default=(), repr=False)
    """A variable KEY=VALUE for the server's process. May be repeated."""
    header: tuple[str, ...] = field(default=(), repr=False)
    """A header 'Name: value' of each HTTP request. May be repeated."""
    token_env: str | None = None
    """A variable of the environment whose value is the bearer token for a URL."""
    client_id: str | None = None
    """Log in at a URL as this client, and not as a person."""
    client_secret_env: str | None = None
    """A variable of the environment whose value is the client's secret."""
    client_key: str | None = None
    """A file with the client's private key (PEM), in place of a secret."""
    issuer: str | None = None
    """The authorization server that knows the client, as it calls itself."""
    unix_socket: str | None = None
    """The Unix socket where the server of a URL is, such as http://localhost/mcp."""
    root: tuple[str, ...] = ()
    """A directory that the server may know of. May be repeated."""
    era: Era | None = None
    """Speak a modern or a legacy revision; else what the server speaks."""
    timeout: Seconds = 60.0
    """Seconds to wait for an answer, and for the connection before it."""
    log_level: LoggingLevel = "info"
    """The least important log messages of the server that are shown."""
    verbose: Annotated[bool, Parameter(alias="-v")] = False
    """Show what the server writes to stderr."""

    def headers(self) -> dict[str, str]:
        found = {}
        for line in self.header:
            name, colon, value = line.partition(":")
            if not colon or not name.strip():
                raise Usage("a header is written 'Name: value'")  # which may be a secret
            found[name.strip()] = value.strip()
        if self.token_env is not None:
            if _AUTHORIZATION.lower() in map(str.lower, found):
                raise Usage("--token-env and --header Authorization exclude each other")
            found[_AUTHORIZATION] = f"Bearer {secret_from(self.token_env)}"
        return found

    def process_options(self) -> ProcessOptions:
        from trio_mcp.transports.process import ProcessOptions

        stderr: Literal["forward", "capture"] = "forward" if self.verbose else "capture"
        return ProcessOptions(env={**os.environ, **pairs(self.env)}, stderr=stderr)

    def http_options(self, target: Target, screen: Screen) -> HttpOptions:
        from trio_mcp.client.http.endpoint import parse_url
        from trio_mcp.client.http.options import HttpOptions

        check_way(target, self.env, **{name: getattr(self, name) for name in _FOR_URLS})
        if target.url is None:
            return HttpOptions()
        for package in ("httpx2", "httptools"):
            require(package, "a URL", "http")
        headers = self.headers()
        own = _AUTHORIZATION.lower() in map(str.lower, headers)
        try:
            parse_url(target.url)
            auth = self._auth(target.url, screen, own=own)
            return HttpOptions(headers=headers, auth=auth, unix_socket=self.unix_socket)
        except ValueError as error:
            raise Usage(str(error)) from None

    def _auth(self, url: str, screen: Screen, *, own: bool) -> httpx2.Auth | None:
        if self.client_id is not None:
            if own:
                raise Usage("--client-id excludes --token-env and --header Authorization")
            from trio_mcp.cli.login.auth import as_client

            secret = self.client_secret_env and secret_from(self.client_secret_env, "secret")
            return as_client(self.client_id, secret, self.client_key, issuer=self.issuer)
        for name in ("client_secret_env", "client_key", "issuer"):
            if getattr(self, name) is not None:
                raise Usage(f"{_option_of(name)} does nothing without --client-id")
        if own or "@" in urlsplit(url).netloc:
            return None
        from trio_mcp.cli.login.auth import as_person

        return as_person(url, screen)


NO_OPTIONS: Final = ConnectionOptions()


def as_words(options: AttrsInstance) -> list[str]:
    """Write the options that differ from their defaults, for a command line."""
    found = []
    for option in fields(type(options)):
        value = getattr(options, option.name)
        if value != option.default:
            several = value if isinstance(value, tuple) else (value,)
            found += [f"{_option_of(option.name)}={one}" for one in several]
    return found


def check_way(target: Target, env: object, **for_url: object) -> None:
    """Refuse variables for a URL, and the other options for a command."""
    if target.url is not None and env:
        raise Usage(f"--env is for a command; a URL takes {_option_of(next(iter(for_url)))}")
    for name, value in for_url.items():
        if target.url is None and value:
            raise Usage(f"{_option_of(name)} is for a URL; a command takes --env")


def pairs(
    words: Iterable[str], refusal: str = "a variable is written KEY=VALUE, not {!r}"
) -> dict[str, str]:
    """Parse `KEY=VALUE` words; `refusal` is the message for others."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Usage(refusal.format(word))
        found[name] = value
    return found


def _option_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def secret_from(variable: str, what: str = "token") -> str:
    """Read a secret from the environment: arguments are visible to other users."""
    found = os.environ.get(variable, "").strip()
    if not found:
        raise Failure(f"there is no {what} in the variable {variable}; set it and start again")
    return found
