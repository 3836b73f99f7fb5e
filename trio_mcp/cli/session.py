"""Being connected to a target: the options that all commands have for it, and the connection."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final, Literal

from attrs import define, field, frozen
from cyclopts import Parameter, validators

from trio_mcp.cli.failures import Failure, Usage, one_line
from trio_mcp.cli.tokens import token_from
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import LoggingLevel

if TYPE_CHECKING:
    from trio_mcp.cli.asking import Asker
    from trio_mcp.cli.progress import ProgressBar
    from trio_mcp.cli.screen import Screen
    from trio_mcp.cli.target import Target
    from trio_mcp.client import Client, RemoteTool
    from trio_mcp.client.http.options import HttpOptions
    from trio_mcp.transports.process import ProcessOptions

_AUTHORIZATION: Final = "Authorization"
_START_PATIENCE: Final = 60.0
"""Seconds that a server may take to be there: `npx` and `uvx` may have to download it first."""
_THINKING: Final = 3600.0
"""Seconds that a person may think about a question."""


@Parameter(name="*", group="Connecting")
@frozen(kw_only=True)
class Connecting:
    """How the server is reached."""

    env: Annotated[
        tuple[str, ...],
        Parameter(
            help="A variable KEY=VALUE for the server's process. May be repeated.",
            show_default=False,
        ),
    ] = ()
    header: Annotated[
        tuple[str, ...],
        Parameter(
            help="A header 'Name: value' of each HTTP request. May be repeated.",
            show_default=False,
        ),
    ] = ()
    token_env: Annotated[
        str | None,
        Parameter(help="A variable of the environment whose value is the bearer token for a URL."),
    ] = None
    root: Annotated[
        tuple[str, ...],
        Parameter(
            help="A directory that the server may know of. May be repeated.", show_default=False
        ),
    ] = ()
    era: Annotated[
        Literal["modern", "legacy"] | None,
        Parameter(help="Speak a modern or a legacy revision; else what the server speaks."),
    ] = None
    timeout: Annotated[
        float,
        Parameter(help="Seconds to wait for an answer.", validator=validators.Number(gt=0)),
    ] = 60.0
    log_level: Annotated[
        LoggingLevel,
        Parameter(help="The least important log messages of the server that are shown."),
    ] = "info"
    verbose: Annotated[
        bool,
        Parameter(help="Show what the server writes to stderr.", alias="-v", show_default=False),
    ] = False

    def environment(self) -> dict[str, str]:
        """The variables of the server's process: ours, as with any command, and those given."""
        return {**os.environ, **variables(self.env)}

    def headers(self) -> dict[str, str]:
        """The headers by name, with the token that is in the environment.

        Raises:
            Usage: One of them is none, or there are two tokens.
            Failure: There is no token.
        """
        found = {}
        for each in self.header:
            name, colon, value = each.partition(":")
            if not colon or not name.strip():
                raise Usage("a header is written 'Name: value'")  # which may be a secret
            found[name.strip()] = value.strip()
        if self.token_env is not None:
            if _AUTHORIZATION.lower() in map(str.lower, found):
                raise Usage("--token-env and --header Authorization exclude each other")
            found[_AUTHORIZATION] = f"Bearer {token_from(self.token_env)}"
        return found

    def process_options(self) -> ProcessOptions:
        """How the server's process is run."""
        from trio_mcp.transports.process import ProcessOptions

        stderr: Literal["forward", "capture"] = "forward" if self.verbose else "capture"
        return ProcessOptions(env=self.environment(), stderr=stderr)


def variables(words: tuple[str, ...]) -> dict[str, str]:
    """Understand `KEY=VALUE`.

    Raises:
        Usage: One of them is not written like that.
    """
    found = {}
    for each in words:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Usage(f"a variable is written KEY=VALUE, not {each!r}")
        found[name] = value
    return found


@define
class Session:
    """A connection to a server, and the person who uses it."""

    client: Client
    screen: Screen
    asker: Asker
    timeout: float
    _bars: list[ProgressBar] = field(factory=list, init=False)

    def tool(self, name: str) -> RemoteTool:
        """Find a tool.

        Raises:
            Failure: There is none of that name.
        """
        tools = self.client.tools
        if name not in tools:
            raise Failure(missing("tool", name, list(tools)))
        return tools[name]

    @contextmanager
    def progress(self) -> Iterator[ProgressBar]:
        """A progress bar for the length of a block; questions push it aside."""
        from trio_mcp.cli.progress import ProgressBar

        bar = ProgressBar(self.screen)
        before, self.asker.paused = self.asker.paused, bar.paused
        try:
            yield bar
        finally:
            self.asker.paused = before
            bar.close()


def missing(noun: str, name: str, known: list[str]) -> str:
    """Say that there is no such thing, and what there is instead."""
    if not known:
        return f"the server has no {noun} {name!r}: it has none at all"
    close = get_close_matches(name, known, n=1)
    if close:
        return f"the server has no {noun} {name!r}; did you mean {close[0]!r}?"
    return f"the server has no {noun} {name!r}; it has: {', '.join(known)}"


@asynccontextmanager
async def connected(
    target: Target, options: Connecting, screen: Screen, asker: Asker | None = None
) -> AsyncIterator[Session]:
    """Be connected to a target for the length of a block.

    Raises:
        Failure: The command line asks for something that cannot be.
        ClientError: As `trio_mcp.connect` does.
    """
    from trio_mcp import connect
    from trio_mcp.cli.asking import Asker
    from trio_mcp.cli.questions import terminal_handlers

    asker = asker or Asker(screen)
    connection = connect(
        target.url or target.process or (),
        era=options.era,
        handlers=terminal_handlers(asker, options.root),
        process_options=options.process_options(),
        http=http_options(target, options),
        connect_timeout=max(_START_PATIENCE, options.timeout),
        tool_timeout=options.timeout,
        request_timeout=options.timeout,
        limits=Limits(question_timeout=_THINKING),
        on_log=screen.log,
    )
    with _plain_log():
        async with connection as client:
            if client.era == "modern" or "logging" in client.capabilities:
                await client.set_log_level(options.log_level)
            yield Session(client, screen, asker, options.timeout)


def http_options(target: Target, options: Connecting) -> HttpOptions:
    """How a URL is reached.

    Raises:
        Usage: There are headers or a token for what is no URL.
        Failure: There is no token, or a package is missing.
    """
    from trio_mcp.client.http.options import HttpOptions

    if target.url is None:
        for option, given in (("--header", options.header), ("--token-env", options.token_env)):
            if given:
                raise Usage(f"{option} is for a URL; a command takes --env")
        return HttpOptions()
    if find_spec("httpx2") is None or find_spec("httptools") is None:
        raise Failure("a URL needs more packages: pip install 'trio-mcp[cli,http]'")
    try:
        return HttpOptions(headers=options.headers())
    except ValueError as error:
        raise Usage(str(error)) from None


class _Brief(logging.Formatter):
    """One line a message, without traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"trio-mcp: {one_line(record.getMessage())}"


@contextmanager
def _plain_log() -> Iterator[None]:
    """Show warnings of the library on stderr, as short as errors, for the length of a block."""
    logger = logging.getLogger("trio_mcp")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Brief())
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
