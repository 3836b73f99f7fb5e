"""The options of a server over HTTP. Contradictions are refused before anything is opened."""

from __future__ import annotations

import re
from math import inf
from typing import Annotated, Final

from attrs import field, frozen
from cyclopts import Parameter, validators

from trio_mcp.cli.failures import Usage
from trio_mcp.cli.options import as_words

_MODE: Final = re.compile(r"(0o)?0*[0-7]{1,3}")
_NEEDS: Final = {
    "--unix-socket-mode": "--unix-socket",
    "--tls-key": "--tls-certificate",
    "--issuer": "--resource",
    "--resource": "--issuer",
    "--scope": "--issuer",
    "--lenient-tokens": "--issuer",
}
"""Options that need another one."""


@Parameter(name="*", group="Over HTTP")
@frozen(kw_only=True)
class HttpServerOptions:
    """Where a server is reached over HTTP, and by whom."""

    http: str | None = None
    """Serve over HTTP at HOST:PORT, or at PORT on this machine only."""
    unix_socket: str | None = None
    """Serve over HTTP on the Unix socket of this path."""
    unix_socket_mode: str = "600"
    """The permissions of the socket, such as 660: who may write may connect."""
    path: str = "/mcp"
    """The path of the endpoint."""
    sse_path: str | None = None
    """Serve clients of 2024-11-05 as well, whose endpoint is this path."""
    allow_host: tuple[str, ...] = ()
    """A further value of the Host header that is served. May be repeated."""
    allow_origin: tuple[str, ...] = ()
    """An Origin that is served. May be repeated."""
    token_env: str | None = None
    """A variable of the environment; clients need its value as their bearer token."""
    issuer: tuple[str, ...] = ()
    """An authorization server, as it calls itself; clients need a token of it. May be repeated."""
    resource: str | None = None
    """The URL by which clients know the endpoint; their tokens must be for it."""
    scope: tuple[str, ...] = ()
    """A scope that every token needs. May be repeated."""
    lenient_tokens: bool = False
    """Take tokens that lack what RFC 9068 requires, as many issuers write them."""
    rate: Annotated[float | None, Parameter(validator=validators.Number(gt=0, lt=inf))] = None
    """Requests of one client in a second, in the long run."""
    trust_proxy: tuple[str, ...] = ()
    """An address or network of proxies, or unix, whose X-Forwarded-For says who the client is. May
    be repeated."""
    tls_certificate: str | None = None
    """Speak TLS, with the certificate in this file (PEM)."""
    tls_key: str | None = None
    """The file of its key, if that is not in the same file."""
    store: str | None = field(default=None, repr=False)
    """What several instances share, so that each serves any request: redis://HOST:PORT/0, or a file
    (sqlite:///PATH) on one machine."""
    workers: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """Serve in that many processes, which are replaced when they die, and at SIGHUP."""
    answer_unknown: bool = False
    """Answer requests of sessions that are lost, after a new start say, as if each stood for
    itself: for hosts that do not begin another session."""
    explorer: bool = False
    """Let people try the server out on a page at /explorer."""
    prometheus: bool = False
    """Show what is in prometheus_client's own registry at /metrics, too."""

    @property
    def is_wanted(self) -> bool:
        return self.http is not None or self.unix_socket is not None

    @property
    def is_local(self) -> bool:
        from trio_mcp.auth.urls import is_loopback

        return self.http is None or is_loopback(address(self.http)[0])

    def permissions(self) -> int:
        if _MODE.fullmatch(self.unix_socket_mode):
            return int(self.unix_socket_mode, 8)
        wanted = "--unix-socket-mode takes permissions as chmod does, such as 660"
        raise Usage(f"{wanted}, not {self.unix_socket_mode!r}")

    def check(self) -> None:
        given = as_words(self)
        if given and not self.is_wanted:
            option = given[0].partition("=")[0]
            raise Usage(f"{option} is for HTTP; say where with --http or --unix-socket")
        if self.http is not None and self.unix_socket is not None:
            raise Usage("--http and --unix-socket exclude each other; start one server for each")
        if self.token_env is not None and self.issuer:
            raise Usage("--token-env and --issuer exclude each other: clients have one token each")
        is_open = not (self.token_env or self.issuer)
        if self.explorer and is_open and (self.allow_host or not self.is_local):
            raise Usage("--explorer beyond this machine needs --token-env or --issuer")
        if self.http is not None:
            address(self.http)
        options = {word.partition("=")[0] for word in given}
        for option, needed in _NEEDS.items():
            if option in options and needed not in options:
                raise Usage(f"{option} does nothing without {needed}")
        self.permissions()


def address(text: str, option: str = "--http") -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not int(port) < 65536:
        raise Usage(f"{option} takes HOST:PORT or PORT, such as 127.0.0.1:8000, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
