"""`connect_all` and its group, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

from trio_mcp.aio.client import Client, PortalClient, handlers_in_loop
from trio_mcp.aio.portal import Portal
from trio_mcp.aio.wrappers import Feed, same_arguments, wrapper_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.tools import RemoteTool
from trio_mcp.compose import group as trio_group
from trio_mcp.compose.config import Source


class GroupServer(PortalClient[trio_group.GroupServer], trio_group.GroupServer):
    """One server of a group, for asyncio."""

    def __init__(self, portal: Portal[Any, Any], server: trio_group.GroupServer) -> None:
        super().__init__(server._config, server._connection)
        self._portal, self._theirs = portal, server

    @property
    def tools(self) -> Mapping[str, RemoteTool]:
        """Its tools by their names in the group; while it is gone, those that it had."""
        return self._theirs.tools

    async def client(self) -> Client:
        """Return the client that is connected to it, as `trio_mcp.GroupServer.client` does."""
        return Client(self._portal, await self._portal.call(self._theirs.client))


@wrapper_of(trio_group.ServerGroup)
class ServerGroup(PortalClient[trio_group.ServerGroup], trio_group.ServerGroup):
    """Servers that are connected side by side, for asyncio. Made by `connect_all`."""

    def __init__(self, portal: Portal[Any, Any], group: trio_group.ServerGroup) -> None:
        servers = {name: GroupServer(portal, each) for name, each in group.servers.items()}
        super().__init__(servers, group._names, group._events)
        self._portal, self._theirs = portal, group

    def states(self) -> AsyncIterator[trio_group.ServerEvent]:
        """Iterate over the states of all servers: the present ones, and then each new one."""
        return Feed(self._theirs.states, self._portal.run.post)


class GroupConnection(Portal[trio_group.ServerGroup, ServerGroup]):
    """Connections to many servers, for a block, or from `open` to `aclose`. By `connect_all`."""

    def __init__(
        self,
        source: Source,
        *,
        handlers: Handlers | Callable[[str], Handlers] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(self._connect, partial(ServerGroup, self))
        for name in ("on_log", "on_change"):
            if options.get(name) is not None:
                options[name] = self.callback(options[name])
        self._handlers = handlers
        self._options = {**options, "source": source}

    def _connect(self) -> Any:
        given = self._handlers
        handlers: Any = given
        if callable(given):
            handlers = lambda server: handlers_in_loop(self, given(server))  # noqa: E731
        elif given is not None:
            handlers = handlers_in_loop(self, given)
        return trio_group.connect_all(**self._options, handlers=handlers)


@same_arguments(trio_group.connect_all)
def connect_all(*args: Any, **options: Any) -> GroupConnection:
    """Connect to many servers, from asyncio.

    Arguments and errors are those of `trio_mcp.connect_all`. Callbacks and handlers run in your
    event loop, as for `connect`.

    Returns:
        What opens the connections: `async with connect_all(…) as group`, or `group = await
        connections.open()` and, from any task, `await connections.aclose()`.

    Example:
        >>> async def total() -> float:
        ...     async with connect_all({"math": ["python", "calculator.py"]}) as group:
        ...         return await group.call_tool("math_add", {"a": 1, "b": 2}, returns=float)
    """
    return GroupConnection(*args, **options)
