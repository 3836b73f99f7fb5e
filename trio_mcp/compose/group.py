"""`connect_all`: many servers side by side, none of which can harm another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypedDict, TypeVar, Unpack, overload

import trio
from attrs import frozen

from trio_mcp.background import background_nursery, run_all
from trio_mcp.client.client import Client
from trio_mcp.client.connect import check_limits, connect
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.notifications import ProgressCallback
from trio_mcp.client.result import CallResult, ReadResult
from trio_mcp.client.state import ClientState
from trio_mcp.client.tools import RemoteTool
from trio_mcp.compose.config import ServerConfig, Source, load_servers
from trio_mcp.compose.following import follow_lists
from trio_mcp.compose.names import UniqueNames
from trio_mcp.compose.supervised import WAIT, Backoff, SupervisedConnection
from trio_mcp.errors import ClientError, UnknownTool
from trio_mcp.loggers import logger_of
from trio_mcp.public import public
from trio_mcp.registry.changes import Change, Kind, ListChanged
from trio_mcp.registry.entrances import check_trio
from trio_mcp.transports.observe import Broadcast
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.wire.bounds import check_number
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.offers import GetPromptResult, PromptDescription, ResourceTemplateDescription
from trio_mcp.wire.payloads import LoggingLevel

logger = logger_of("trio_mcp.compose")

T = TypeVar("T")

GroupLog = Callable[[str, LoggingLevel, Json, str | None], None]
"""Called with the server, and the level, data and logger of a message."""


class RequestOptions(TypedDict, total=False):
    """The options of a request, which `Client` documents."""

    timeout: float | None
    on_progress: ProgressCallback | None


class CallOptions(RequestOptions, total=False):
    """Those of `Client.call_tool`."""

    meta: Mapping[str, Json] | None


class ReadOptions(RequestOptions, total=False):
    """Those of `Client.read_resource`."""

    fresh: bool


@public
@frozen
class ServerEvent:
    """A server of a group has another state."""

    server: str
    state: ClientState


@public
class GroupServer:
    """One server of a group. Made by `connect_all`."""

    def __init__(self, config: ServerConfig, connection: SupervisedConnection) -> None:
        self._config = config
        self._connection = connection
        self._tools: dict[str, RemoteTool] = {}

    @property
    def name(self) -> str:
        """What it is called."""
        return self._config.name

    @property
    def state(self) -> ClientState:
        """`Connecting`, `Connected`, or `Disconnected` with the reason, until the next attempt."""
        return self._connection.state

    @property
    def tools(self) -> Mapping[str, RemoteTool]:
        """Its tools by their names in the group; while it is gone, those that it had."""
        return MappingProxyType(self._tools)

    async def client(self) -> Client:
        """Return the client that is connected to it, to use at once.

        Do not keep it: when the server is lost, the next one is another one. If the server is not
        there, it waits for it, for the `reconnect_timeout` of `connect_all`.

        Raises:
            ServerUnavailable: It has not come back in time.
        """
        return await self._connection.client()

    def _adopt(self, client: Client) -> bool:
        """Take a client's tools, and return whether they have other names than before.

        Timeouts and `enabled` that were set here stay.
        """
        found = dict(client.tools)
        are_others = found.keys() != self._tools.keys()
        for name, tool in found.items():
            known = self._tools.get(name)
            if known is not None and known is not tool:
                tool.timeout, tool.enabled = known.timeout, known.enabled
        self._tools = found
        return are_others

    async def _refresh(self, client: Client, kind: Kind) -> None:
        if kind == "tools":
            await client.refresh_tools()
            await trio.lowlevel.checkpoint()  # there may be very many, taken twice
            self._adopt(client)

    async def _use(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of the client, and check the server if that fails."""
        client = await self.client()
        try:
            return await method(client, *args, **options)
        except ClientError as error:
            self._connection.note_failure(error)
            raise


@public
class ServerGroup:
    """Servers that are connected side by side. Made by `connect_all`."""

    def __init__(
        self, servers: Mapping[str, GroupServer], names: UniqueNames, events: Broadcast[ServerEvent]
    ) -> None:
        self.servers: Final = MappingProxyType(dict(servers))
        """The servers by name, in the order of the configuration."""
        self._names = names
        self._events = events

    def states(self) -> AsyncIterator[ServerEvent]:
        """Iterate over the states of all servers: the present ones, and then each new one."""
        now = [ServerEvent(server.name, server.state) for server in self.servers.values()]
        return self._events.listen(*now)

    # -- tools ----------------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, RemoteTool]:
        """The tools of all servers, by names that keep them apart: `SERVER_TOOL`.

        A name that would be too long (128 characters), or could be that of another server's tool,
        ends with eight digits that make it unique. Names do not depend on which servers are up.
        """
        found: dict[str, RemoteTool] = {}
        for server in self.servers.values():
            for name, tool in server.tools.items():
                found.setdefault(name, tool)
        return found

    def server_of(self, tool: str) -> GroupServer:
        """Find the server of a tool.

        Raises:
            UnknownTool: No server has it.
        """
        known = [server for server in self.servers.values() if tool in server.tools]
        # One that has not been there yet may have it: who asks for it waits for that server.
        owners = [self.servers[name] for name in self._names.owners(tool)]
        for server in (*known, *(server for server in owners if not server.tools)):
            return server
        theirs = [name for name, found in self.tools.items() if found.mcp_name == tool]
        meant = f"; here it is {', '.join(theirs[:5])}" if theirs else ""
        meant = meant or did_you_mean(tool, self.tools)
        raise UnknownTool(f"no server has a tool {tool!r:.200}{meant}")

    @overload
    async def call_tool(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> CallResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        returns: type[T],
        **options: Unpack[CallOptions],
    ) -> T: ...

    async def call_tool(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Any
    ) -> Any:
        """Call a tool, by its name in `tools`. Everything else is as for `Client.call_tool`.

        A call that was under way when its server was lost fails, as it may have been carried out.

        Raises:
            UnknownTool: No server has it.
            ServerUnavailable: Its server is not there, and did not come back in time.
            ClientError: As for `Client.call_tool`.
        """
        return await self.server_of(name)._use(Client.call_tool, name, arguments, **options)

    # -- resources and prompts ----------------------------------------------------------------

    async def read_resource(
        self, server: str, uri: str, **options: Unpack[ReadOptions]
    ) -> ReadResult:
        """Read a resource of a server. Everything else is as for `Client.read_resource`.

        Raises:
            KeyError: There is no such server.
            ServerUnavailable: It is not there.
            ClientError: As for `Client.read_resource`.
        """
        result: ReadResult = await self._server(server)._use(Client.read_resource, uri, **options)
        return result

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> GetPromptResult:
        """Get a prompt of a server. Everything else is as for `Client.get_prompt`.

        Raises:
            KeyError: There is no such server.
            ServerUnavailable: It is not there.
            ClientError: As for `Client.get_prompt`.
        """
        found = self._server(server)
        result: GetPromptResult = await found._use(Client.get_prompt, name, arguments, **options)
        return result

    def _server(self, name: str) -> GroupServer:
        if name in self.servers:
            return self.servers[name]
        known = ", ".join(self.servers) or "none"
        raise KeyError(f"no server is called {name!r:.100}; there are: {known}")

    async def list_resources(self) -> dict[str, list[ResourceDescription]]:
        """Ask all servers for their resources. Those that do not answer are left out."""
        return await self._of_all("resources", Client.list_resources)

    async def list_resource_templates(self) -> dict[str, list[ResourceTemplateDescription]]:
        """Ask all servers for their resource templates. Those that do not answer are left out."""
        return await self._of_all("resources", Client.list_resource_templates)

    async def list_prompts(self) -> dict[str, list[PromptDescription]]:
        """Ask all servers for their prompts. Those that do not answer are left out."""
        return await self._of_all("prompts", Client.list_prompts)

    async def _of_all(self, capability: str, method: Callable[[Client], Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def ask(server: GroupServer) -> None:
            connection = server._connection
            client = connection.current
            if client is not None and capability in client.capabilities:
                with trio.move_on_after(connection.timeout), suppress(ClientError, McpError):
                    found[server.name] = await server._use(method)

        await run_all([partial(ask, server) for server in self.servers.values()])
        return {name: found[name] for name in self.servers if name in found}


@public
@asynccontextmanager
async def connect_all(
    source: Source,
    *,
    handlers: Handlers | Callable[[str], Handlers] | None = None,
    on_log: GroupLog | None = None,
    on_change: Callable[[str, Change], object] = lambda server, change: None,
    http: Mapping[str, HttpOptions] | None = None,
    process_options: ProcessOptions | None = None,
    connect_timeout: float = 30.0,
    tool_timeout: float | None = 5.0,
    request_timeout: float = 30.0,
    max_timeout: float = 120.0,
    reconnect_timeout: float = 10.0,
    wait: float = WAIT,
    backoff: Backoff | None = None,
    limits: Limits | None = None,
    log_level: LoggingLevel | None = None,
) -> AsyncIterator[ServerGroup]:
    """Connect to many servers for as long as the block lasts.

    The block begins when each server is connected or has failed once, or after `wait` seconds; what
    is slower joins later. A server that fails, hangs or dies does not touch the others. It is tried
    again and again, more and more rarely, and comes back with its tools as they are then.

    Args:
        source: The path of a file such as `mcp.json`, or a mapping of the same form; or a mapping
            from names to commands, URLs and registries.
        handlers: Answers to what the servers ask; or a function that makes them for a server, by
            its name.
        on_log: Called with each log message, and the server that sends it.
        on_change: Called with each change of a server's lists, and the server; also when a server
            joins later, or comes back, with other tools than before.
        http: By the names of servers, how their URLs are reached, such as `HttpOptions(auth=...)`.
        process_options: How commands are run and ended.
        connect_timeout: Seconds for start, handshake and list of tools of each server.
        tool_timeout: Seconds that a tool call waits, unless the configuration, the server or the
            call says otherwise.
        request_timeout: Seconds that other requests wait.
        max_timeout: As for `connect`.
        reconnect_timeout: Seconds that a call waits for a server that is not there.
        wait: Seconds that the block waits, before it begins, for servers that are slow to start;
            `math.inf` for as long as `connect_timeout` allows.
        backoff: How soon a server that was lost is tried again.
        limits: The bounds of each connection.
        log_level: The least severe level of log messages to ask for.

    Yields:
        The `ServerGroup`.

    Raises:
        ConfigError: The configuration is wrong; the message names file, server and key.
        OSError: The file cannot be read.
        ModuleNotFoundError: A server is a URL, and no HTTP client is installed.

    Leaving or cancelling the block ends all connections side by side, each within the time that
    `ProcessOptions` allows.

    Example:
        >>> async def total() -> float:
        ...     async with connect_all({"math": ["python", "calculator.py"]}) as group:
        ...         return await group.call_tool("math_add", {"a": 1, "b": 2}, returns=float)
    """
    check_trio("connect_all")
    check_number("wait", wait, zero=True)
    configs = await load_servers(source)
    for config in configs:
        check_limits("connect_all", config.target, limits or Limits())
    names = UniqueNames([config.name for config in configs])
    events: Broadcast[ServerEvent] = Broadcast()
    if not isinstance(http, Mapping | None):
        raise TypeError("http must be a mapping from the names of servers to their HttpOptions")
    if not (handlers is None or isinstance(handlers, Handlers) or callable(handlers)):
        raise TypeError(f"handlers must be Handlers, or a function of names, not {handlers!r:.100}")
    for name in http or {}:
        if all(config.name != name for config in configs):
            raise ValueError(f"http: no server is called {name!r}")

    def made(config: ServerConfig) -> GroupServer:
        name = config.name
        open_ = partial(
            connect,
            config.target,
            handlers=handlers(name) if callable(handlers) else handlers,
            process_options=config.process_options(process_options or ProcessOptions()),
            http=config.http_options((http or {}).get(name) or HttpOptions()),
            connect_timeout=connect_timeout,
            tool_timeout=tool_timeout if config.timeout is None else config.timeout,
            tool_names=partial(names.name_of, name),
            request_timeout=request_timeout,
            max_timeout=max_timeout,
            limits=limits,
            on_log=None if on_log is None else partial(on_log, name),
            log_level=log_level,
        )

        def tell(change: Change) -> None:
            try:
                on_change(name, change)
            except Exception:  # a callback's mistake must not end the connection
                logger.exception("The callback for changes failed")

        def adopt(client: Client) -> None:
            if server._adopt(client) and begun.is_set():
                tell(ListChanged("tools"))

        async def attend(client: Client) -> None:
            refresh = partial(server._refresh, client)
            await follow_lists(client, refresh, connection.note_failure, tell)

        connection = SupervisedConnection(
            name,
            open_,
            backoff=backoff or Backoff(),
            timeout=reconnect_timeout,
            on_state=lambda state: events.announce(ServerEvent(name, state)),
            adopt=adopt,
            attend=attend,
        )
        server = GroupServer(config, connection)
        return server

    begun = trio.Event()
    servers = {config.name: made(config) for config in configs}
    connections = [server._connection for server in servers.values()]
    try:
        async with background_nursery(*[connection.run for connection in connections]):
            with trio.move_on_after(wait):
                for connection in connections:
                    await connection.settled.wait()
            begun.set()
            yield ServerGroup(servers, names, events)
    finally:
        events.end()
