"""One server in place of another, and one in place of many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Final, TypedDict, Unpack

import trio
from attrs import asdict, define, field

from trio_mcp.background import background_nursery, run_all
from trio_mcp.client.client import session_of
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.opening import Target
from trio_mcp.client.state import ClientState, Disconnected
from trio_mcp.compose.config import ServerConfig, Source, load_servers
from trio_mcp.compose.names import UniqueNames
from trio_mcp.compose.remote import Remote
from trio_mcp.compose.supervised import Backoff
from trio_mcp.compose.tasks import PassedTasks
from trio_mcp.public import public_in
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.entrances import check_trio
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.version import __version__
from trio_mcp.wire.extensions import TASKS
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import Era


class _Options(TypedDict, total=False):
    """The options of whatever is connected to servers elsewhere."""

    era: Era | None
    process_options: ProcessOptions | None
    connect_timeout: float
    timeout: float
    reconnect_timeout: float
    backoff: Backoff | None
    max_callers: int
    caller_idle: float
    max_held: int
    max_items: int
    dereference_schemas: bool
    limits: Limits | None
    log_level: LoggingLevel
    on_state: Callable[[ClientState], object]


@public_in("trio_mcp.compose")
class RemoteOptions(_Options, total=False):
    """The options of `Remote`, which documents them."""

    name: str
    http: HttpOptions | None
    rename: Callable[[str], str] | None


@public_in("trio_mcp.compose")
class GatewayOptions(_Options, total=False):
    """The options of `open_gateway`: those of `Remote` that hold for all servers, and `http`."""

    wait: float
    http: Mapping[str, HttpOptions] | None


@public_in("trio_mcp.compose")
@asynccontextmanager
async def open_proxy(target: Target, **options: Unpack[RemoteOptions]) -> AsyncIterator[Registry]:
    """Make a registry that is another server: with its name, its instructions and all that it has.

    Serve the registry in the block, on any transport. If the server is lost meanwhile, it is
    connected again, as with `Remote`.

    Args:
        target: As for `connect`, but no stream.
        **options: Those of `Remote`.

    Yields:
        The registry.

    Raises:
        ClientError: The server cannot be connected at first; as for `connect`.

    Example:
        >>> async def main() -> None:
        ...     async with open_proxy(["python", "server.py"]) as registry:
        ...         await serve_http(registry, port=8000)
    """
    check_trio("open_proxy")
    tasks = PassedTasks()
    remote = Remote(target, tasks=tasks, wait=inf, **options)
    async with remote.running() as upstream:
        await remote.ready()
        client = upstream.main.current
        if client is None:
            state = remote.state
            failed = state.error if isinstance(state, Disconnected) else None
            raise failed or trio.BrokenResourceError("the server was lost at once")
        info = client.server_info
        is_named = info is not None and info.name and info.version
        told = asdict(info, recurse=False) if is_named else {"name": remote.name}
        extensions = [tasks] if TASKS in client.extensions else []
        registry = Registry(**told, instructions=client.instructions, extensions=extensions)
        unsaid = {"ttlMs": 0, "cacheScope": "private"}  # by a legacy server
        others = {**unsaid, **session_of(client).negotiated.others}
        catalogue_of(registry).handshake_members = others
        registry.mount(remote)
        yield registry


@define(eq=False)
class _Server:
    """A server of a gateway."""

    config: ServerConfig
    prefix: str
    rivals: frozenset[str]  # the names of its things depend on these
    remote: Remote
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)


@public_in("trio_mcp.compose")
class Gateway:
    """Many servers in one registry. Made by `open_gateway`."""

    def __init__(
        self, registry: Registry, tasks: PassedTasks, nursery: trio.Nursery, options: dict[str, Any]
    ) -> None:
        self.registry: Final = registry
        """What to serve."""
        self._nursery = nursery
        self._tasks = tasks
        self._options = options
        self._running: dict[str, _Server] = {}
        self._loading = trio.Lock()  # each load begins with what the one before has left
        self._http: Mapping[str, HttpOptions] = options.pop("http", None) or {}
        self._process = options.pop("process_options", None) or ProcessOptions()

    @property
    def states(self) -> Mapping[str, ClientState]:
        """How each server stands, by name."""
        return {name: server.remote.state for name, server in self._running.items()}

    async def load(self, source: Source) -> None:
        """Replace the servers by those of a configuration. Those that are the same stay.

        Only where names like `git` and `git_hub` meet, or part, are those connected again, as their
        tools get other names.

        Returns when each new one is connected or has failed once, or after `wait` seconds.

        Raises:
            ConfigError: The configuration is wrong; then nothing changes.
            OSError: The file cannot be read; likewise.
            ModuleNotFoundError: A server needs a package that is missing; likewise.
            ValueError: An option does not fit a server; likewise.
        """
        async with self._loading:
            configs = {config.name: config for config in await load_servers(source)}
            names = UniqueNames(list(configs))
            kept = {
                name
                for name, server in self._running.items()
                if configs.get(name) == server.config and names.rivals_of(name) == server.rivals
            }
            added = [self._made(configs[name], names) for name in configs if name not in kept]
            for name in self._running.keys() - kept:
                self._running.pop(name).scope.cancel()
            for server in added:
                await self._nursery.start(self._run, server)
            await run_all([server.remote.ready for server in added])

    def _made(self, config: ServerConfig, names: UniqueNames) -> _Server:
        prefix = names.prefix_of(config.name)
        timeout = {} if config.timeout is None else {"timeout": config.timeout}
        remote = Remote(
            config.target,
            name=config.name,
            process_options=config.process_options(self._process),
            http=config.http_options(self._http.get(config.name) or HttpOptions()),
            tasks=self._tasks,
            rename=lambda name: names.name_of(config.name, name)[len(prefix) + 1 :],
            **{**self._options, **timeout},
        )
        return _Server(config, prefix, names.rivals_of(config.name), remote)

    async def _run(self, server: _Server, task_status: trio.TaskStatus[None]) -> None:
        """Have a server in the registry until it is taken out."""
        name = server.config.name
        with server.scope:
            async with server.remote.running():
                self.registry.mount(server.remote, server.prefix)
                self._running[name] = server
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    self.registry.unmount(server.remote)
                    if self._running.get(name) is server:  # no later load has taken it out
                        del self._running[name]


@public_in("trio_mcp.compose")
@asynccontextmanager
async def open_gateway(
    source: Source,
    *,
    name: str = "gateway",
    version: str = __version__,
    **options: Unpack[GatewayOptions],
) -> AsyncIterator[Gateway]:
    """Gather many servers into one registry, to be served on any transport in the block.

    Tools and prompts are called `SERVER_NAME`, as with `connect_all`, and URIs have the server as
    their first segment. A server that fails, hangs or dies does not touch the others. It comes
    back by itself, and its tools with it. The block begins when each server is connected or has
    failed once, or after `wait` seconds; what is slower joins later, and clients are notified.

    Args:
        source: As for `connect_all`.
        name: The registry's name.
        version: Its version.
        **options: Those of `Remote`, for all servers; but `http` is a mapping by their names.

    Yields:
        The `Gateway`. Serve its `registry`.

    Raises:
        ConfigError: The configuration is wrong; the message names file, server and key.
        OSError: The file cannot be read.
    """
    check_trio("open_gateway")
    async with background_nursery() as nursery:
        tasks = PassedTasks()
        registry = Registry(name, version, extensions=[tasks])
        gateway = Gateway(registry, tasks, nursery, dict(options))
        await gateway.load(source)
        yield gateway
