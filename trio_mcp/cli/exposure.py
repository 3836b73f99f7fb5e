"""Where a server is reached over HTTP, and by whom, as the command line says it.

What contradicts itself is refused here, before anything is imported or opened.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Final

from attrs import fields, frozen
from cyclopts import Parameter, validators

from trio_mcp.cli.failures import Usage

_MOST_MODE: Final = 0o777
_NEEDS: Final = {
    "--unix-socket-mode": "--unix-socket",
    "--tls-key": "--tls-certificate",
    "--trust-proxy": "--rate",
}
"""Options that mean something only beside another one."""


@Parameter(name="*", group="Over HTTP")
@frozen(kw_only=True)
class Exposure:
    """Where a server is reached over HTTP, and by whom."""

    http: Annotated[
        str | None,
        Parameter(help="Serve over HTTP at HOST:PORT, or at PORT on this machine only."),
    ] = None
    unix_socket: Annotated[
        str | None, Parameter(help="Serve over HTTP on the Unix socket of this path.")
    ] = None
    unix_socket_mode: Annotated[
        str,
        Parameter(help="The permissions of the socket, such as 660: who may write may connect."),
    ] = "600"
    path: Annotated[str, Parameter(help="The path of the endpoint.")] = "/mcp"
    sse_path: Annotated[
        str | None,
        Parameter(help="Serve clients of 2024-11-05 as well, whose endpoint is this path."),
    ] = None
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(
            help="A further value of the Host header that is served. May be repeated.",
            show_default=False,
        ),
    ] = ()
    allow_origin: Annotated[
        tuple[str, ...],
        Parameter(help="An Origin that is served. May be repeated.", show_default=False),
    ] = ()
    token_env: Annotated[
        str | None,
        Parameter(
            help="A variable of the environment; clients need its value as their bearer token."
        ),
    ] = None
    rate: Annotated[
        float | None,
        Parameter(
            help="Requests of one client in a second, in the long run.",
            validator=validators.Number(gt=0, lt=inf),
        ),
    ] = None
    trust_proxy: Annotated[
        tuple[str, ...],
        Parameter(
            help="An address or network of proxies, or unix, whose X-Forwarded-For says who the "
            "client is that --rate is about. May be repeated.",
            show_default=False,
        ),
    ] = ()
    tls_certificate: Annotated[
        str | None, Parameter(help="Speak TLS, with the certificate in this file (PEM).")
    ] = None
    tls_key: Annotated[
        str | None, Parameter(help="The file of its key, if that is not in the same file.")
    ] = None

    @property
    def is_wanted(self) -> bool:
        """Whether the server is to be reached over HTTP at all."""
        return self.http is not None or self.unix_socket is not None

    def permissions(self) -> int:
        """The permissions of the Unix socket.

        Raises:
            Usage: They are none.
        """
        try:
            mode = int(self.unix_socket_mode, 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= _MOST_MODE:
            raise Usage(
                "--unix-socket-mode takes permissions as chmod does, such as 660, "
                f"not {self.unix_socket_mode!r}"
            )
        return mode

    def check(self) -> None:
        """Make sure that the options go together.

        Raises:
            Usage: They do not.
        """
        given = self.words()
        if given and not self.is_wanted:
            option = given[0].partition("=")[0]
            raise Usage(f"{option} is for HTTP; say where with --http or --unix-socket")
        if self.http is not None and self.unix_socket is not None:
            raise Usage("--http and --unix-socket exclude each other; start one server for each")
        if self.http is not None:
            address(self.http)
        options = {each.partition("=")[0] for each in given}
        for option, needed in _NEEDS.items():
            if option in options and needed not in options:
                raise Usage(f"{option} does nothing without {needed}")
        self.permissions()

    def words(self) -> list[str]:
        """The options that are not what they are by default, as they are written."""
        found = []
        for each in fields(Exposure):
            value = getattr(self, each.name)
            if value != each.default:
                option = f"--{each.name.replace('_', '-')}"
                several = value if isinstance(value, tuple) else (value,)
                found += [f"{option}={one}" for one in several]
        return found


def address(text: str) -> tuple[str, int]:
    """Understand `HOST:PORT` or `PORT`.

    Raises:
        Usage: It is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not int(port) < 65536:
        raise Usage(f"--http takes HOST:PORT or PORT, such as 127.0.0.1:8000, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
