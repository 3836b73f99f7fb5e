"""The fixture `mcp`: connections to a server under test, and what is heard on them."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

import pytest
import sniffio
import trio

from trio_mcp import (
    CallResult,
    Handlers,
    HttpOptions,
    HttpPolicy,
    Implementation,
    Limits,
    McpError,
    Registry,
    ResponseCache,
    SessionOptions,
    connect,
)
from trio_mcp.auth import ResourceServer
from trio_mcp.background import background_nursery
from trio_mcp.extending import ClientExtension
from trio_mcp.middleware import McpRequest
from trio_mcp.public import public_in
from trio_mcp.testing.answers import Answers, Script
from trio_mcp.testing.snapshots import UPDATE, compare, offers_of, snapshot_of
from trio_mcp.transports import ProcessOptions
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import Era

if TYPE_CHECKING:  # of the extra `http`, which tests without HTTP do not need
    from trio_mcp import HttpLimits, ServerCard


@public_in("trio_mcp.testing")
class ConnectOptions(TypedDict, total=False):
    """The options of `trio_mcp.connect`, which documents them."""

    era: Era | None
    revision: str | None
    handlers: Handlers | None
    client_info: Implementation
    process_options: ProcessOptions | None
    http: HttpOptions | None
    connect_timeout: float
    tool_timeout: float | None
    tool_names: Mapping[str, str] | Callable[[str], str] | None
    list_tools: bool
    request_timeout: float
    max_timeout: float
    limits: Limits | None
    on_log: Callable[[LoggingLevel, Any, str | None], object] | None
    log_level: LoggingLevel | None
    send_shutdown: bool
    cache: ResponseCache | None
    extensions: Sequence[ClientExtension]
    middleware: Sequence[Callable[[McpRequest, Any], Awaitable[dict[str, Any]]]]


@public_in("trio_mcp.testing")
class ServeOptions(TypedDict, total=False):
    """The options of `trio_mcp.serve_http`, which documents them."""

    host: str
    port: int
    path: str
    sse_path: str | None
    unix_socket: str | os.PathLike[str] | None
    unix_socket_mode: int
    listeners: Sequence[trio.abc.Listener[trio.abc.Stream]] | None
    ssl_context: ssl.SSLContext | None
    policy: HttpPolicy | None
    auth: ResourceServer | None
    sessions: SessionOptions | None
    limits: Limits | None
    http_limits: HttpLimits | None
    card: ServerCard | None
    explorer: bool
    store: Any
    prometheus: Any
    fallback: Any
    workers: int | None
    own_process: bool


_WAY_OUT = "; make a fixture mcp_server that returns a registry, a command or a URL, or give one"


@public_in("trio_mcp.testing")
class ProgressReport(NamedTuple):
    """Progress that a server reported."""

    progress: float
    total: float | None
    message: str | None


@public_in("trio_mcp.testing")
class LogMessage(NamedTuple):
    """A message of a server's log."""

    level: str
    data: Any
    logger: str | None


@public_in("trio_mcp.testing")
class McpTester:
    """The fixture `mcp`. Each test has its own.

    Attributes:
        revision: The revision that its clients speak, if the test is marked `mcp_revisions`.
        log: The log messages of all connections, as `LogMessage`, from level `debug` on.
        progress: What `on_progress` received, as `ProgressReport`.
        asked: The parameters of all questions, in their order.
    """

    def __init__(self, request: pytest.FixtureRequest, revision: str | None) -> None:
        self._request = request
        self.revision = revision
        self.log: list[LogMessage] = []
        self.progress: list[ProgressReport] = []
        self.asked: list[dict[str, Any]] = []

    # -- connections --------------------------------------------------------------------------

    @asynccontextmanager
    async def connect(
        self,
        server: Any = None,
        *,
        over: Literal["http"] | None = None,
        answers: Answers | None = None,
        samples: Answers | None = None,
        roots: Sequence[str] | None = None,
        allow_noise: bool = False,
        **options: Unpack[ConnectOptions],
    ) -> AsyncIterator[Any]:
        """Connect to a server for as long as the block lasts.

        Args:
            server: A registry, in this process; a command, as a list, which is run; a URL; or a
                stream. If you give none, what the fixture `mcp_server` returns.
            over: `"http"` to serve a registry on a free port, and connect to that.
            answers: What a person answers to the server's questions: a list, in their order; a
                dictionary, by their messages; or a function of the message. An answer is the
                content of the form as a dictionary, or just the value if the form has only one,
                or `DECLINE`, or `CANCEL`. Without `answers`, the client declares that it cannot
                ask.
            samples: What a model answers, likewise: texts, or whole results.
            roots: The roots of the client, as `file:` URIs.
            allow_noise: Whether a command may print to stdout what is not a message.
            options: Those of `trio_mcp.connect`.

        Yields:
            The `Client`; in a test that asyncio runs, its counterpart for asyncio.

        Raises:
            AssertionError: At the end of the block: there was no answer to a question, answers of
                a list were not asked for, or a command printed to stdout what is not a message.

        If cancelled, it ends the connection.
        """
        script = Script(answers, samples, self.asked)
        settings: ConnectOptions = {
            "handlers": script.handlers(roots),
            "revision": self.revision,
            "on_log": self._on_log,
            "log_level": "debug",
            **options,
        }
        server = self._server() if server is None else server
        async with self._reachable(server, over) as target:
            async with _connection(target, settings) as client:
                yield client
                stray = b"\n".join(client.stray_output)
            if stray and not allow_noise:
                script.problems.append(
                    f"the server wrote to stdout what is not a message: {stray!r}"
                )
            script.check()

    @asynccontextmanager
    async def serve_http(
        self, registry: Registry | None = None, **options: Unpack[ServeOptions]
    ) -> AsyncIterator[str]:
        """Serve a registry over HTTP, on a free port, for as long as the block lasts.

        Args:
            registry: What to serve; by default, what the fixture `mcp_server` returns.
            options: Those of `trio_mcp.serve_http`.

        Yields:
            The URL.

        Raises:
            RuntimeError: The test is not run by Trio.
            ImportError: The extra `http` is missing.

        If cancelled, it stops the server.
        """
        from trio_mcp import serve_http

        registry = self._server() if registry is None else registry
        async with background_nursery() as nursery:
            settings: ServeOptions = {"port": 0, **options}
            handle = await nursery.start(partial(serve_http, registry, **settings))
            yield handle.url

    def _server(self) -> Any:
        try:
            return self._request.getfixturevalue("mcp_server")
        except pytest.FixtureLookupError:
            raise TypeError(f"mcp.connect() has no server to connect to{_WAY_OUT}") from None

    @asynccontextmanager
    async def _reachable(self, server: Any, over: str | None) -> AsyncIterator[Any]:
        if over is None:
            yield server
        else:
            async with self.serve_http(server) as url:
                yield url

    # -- what is heard ------------------------------------------------------------------------

    def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Note progress: give it to `client.call_tool(…, on_progress=mcp.on_progress)`."""
        self.progress.append(ProgressReport(progress, total, message))

    def _on_log(self, level: Any, data: Any, logger: str | None) -> None:
        self.log.append(LogMessage(level, data, logger))

    # -- what is expected ---------------------------------------------------------------------

    @contextmanager
    def refused(
        self, match: str | None = None, *, code: int | None = None
    ) -> Iterator[pytest.ExceptionInfo[McpError]]:
        """Expect that a request is refused within the block, with an error of the protocol.

        Args:
            match: A regular expression that the message contains.
            code: The code of the error.

        Raises:
            Failed: It was not refused.
            AssertionError: The error is another one.
        """
        with pytest.raises(McpError, match=match) as caught:
            yield caught
        if code is not None:
            assert caught.value.code == code, f"{caught.value.code} is not {code}: {caught.value}"

    def failed(self, result: CallResult, match: str | None = None) -> str:
        """Expect that a tool has failed, and return what it says about that.

        Args:
            result: What `Client.call_tool` has returned.
            match: A regular expression that the text contains.

        Raises:
            AssertionError: It has not, or says something else.
        """
        error: str | None = result.error
        assert error is not None, f"the tool has not failed, but returned: {result.text}"
        if match is not None:
            assert re.search(match, error), f"{match!r} is not in {error!r}"
        return error

    async def snapshot(self, client: Any, name: str | None = None) -> None:
        """Expect that a server offers what it did: all lists, schemas, instructions, capabilities.

        The snapshot is a JSON file beside the test, one for each test, revision and name. Run
        `pytest --mcp-snapshot-update` to write it.

        Args:
            client: A client of the server.
            name: Tells several snapshots of one test apart.

        Raises:
            AssertionError: It offers something else; the message shows the difference. Or there
                is no snapshot yet.
        """
        path = snapshot_of(Path(self._request.path), self._request.node.name, name)
        update = bool(self._request.config.getoption(UPDATE))
        compare(await offers_of(client), path, update=update)


def _connection(target: Any, settings: ConnectOptions) -> AbstractAsyncContextManager[Any]:
    if sniffio.current_async_library() == "asyncio":
        from trio_mcp.aio import connect as connect_from_asyncio

        return connect_from_asyncio(target, **settings)
    return connect(target, **settings)
