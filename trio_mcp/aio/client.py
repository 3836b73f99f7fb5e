"""`connect` and its client, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import evolve

from trio_mcp.aio.calls import SentCall
from trio_mcp.aio.inloop import call_asyncio
from trio_mcp.aio.portal import Portal
from trio_mcp.aio.wrappers import Feed, same_arguments, wrapper_of
from trio_mcp.client import connect as trio_connect
from trio_mcp.client.changes import ChangeStream as TrioChangeStream
from trio_mcp.client.client import Client as TrioClient
from trio_mcp.client.handlers import Handler, Handlers, Params, answer_of, checked_handlers
from trio_mcp.client.result import plain_result
from trio_mcp.client.session import ClientRequest
from trio_mcp.client.state import ClientState
from trio_mcp.client.tools import RemoteTool
from trio_mcp.registry.changes import Change, Kind
from trio_mcp.wire.jsonrpc import Json

T = TypeVar("T")
C = TypeVar("C")


class ChangeStream(TrioChangeStream):
    """The changes of a subscription, for asyncio."""

    def __init__(self, portal: Portal[Any, Any], stream: TrioChangeStream) -> None:
        super().__init__(stream.kinds, stream.uris, stream.extensions)
        self._portal = portal
        self._stream = stream
        self._left: list[Change] = []
        self._turn = asyncio.Lock()

    async def __anext__(self) -> Change:
        """Wait for the next change. If cancelled, no change is lost."""
        async with self._turn:  # a cancelled call may have one, which is for the next
            if self._left:
                return self._left.pop()
            call = self._portal.begin(self._stream.__anext__)
            try:
                return await self._portal.wait_for(call)
            except BaseException:
                if call.has_value:
                    self._left.append(call.value)
                raise


class PortalClient(Generic[C]):
    """Calls the methods of a Trio object through its portal."""

    _portal: Portal[Any, Any]
    _theirs: C

    async def _cross(self, method: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        callbacks = {
            name: self._portal.callback(value)
            for name, value in options.items()
            if name.startswith("on_") and value is not None
        }
        call = partial(method, self._theirs, *args, **{**options, **callbacks})
        try:
            value = await self._portal.call(call)
            for callback in callbacks.values():
                await callback.finish()
            return value
        finally:
            for callback in callbacks.values():
                self._portal.forget(callback)

    async def run_in_trio(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call any Trio function in the Trio run beside the loop, and wait for its end.

        The methods of client extensions are such functions.

        Args:
            function: The function.
            args: Its arguments.

        Raises:
            NotConnected: The client is closed.
            Exception: Whatever the function raises.

        If cancelled, the function is cancelled, and has ended when this returns.

        Example:
            >>> async def start(client: Client, tasks: TasksClient) -> str:
            ...     return await client.run_in_trio(tasks.start, "report", {"year": 2026})
        """
        return await self._portal.call(partial(function, *args))


def handlers_in_loop(portal: Portal[Any, Any], handlers: Handlers) -> Handlers:
    """Make handlers run in the event loop."""

    def in_loop(handler: Handler) -> Handler:
        async def ask(params: Params) -> dict[str, Json]:
            return await call_asyncio(portal.run, answer_of, handler, params)

        return ask

    asked: dict[str, Any] = {
        name: in_loop(handler)
        for name in ("sampling", "elicitation", "elicitation_url")
        if (handler := getattr(handlers, name)) is not None
    }
    if handlers.elicitation_complete is not None:
        asked["elicitation_complete"] = portal.callback(handlers.elicitation_complete)
    return evolve(handlers, **asked)


@wrapper_of(TrioClient)
class Client(PortalClient[TrioClient], TrioClient):
    """A connection to a server, for asyncio. Made by `connect`.

    It has the methods and attributes of `trio_mcp.Client`. They may be used from any task of the
    event loop that it was opened in. A callback (`on_progress`) may be a plain function or an
    `async def` one; it runs in the event loop.
    """

    def __init__(self, portal: Portal[Any, Any], client: TrioClient) -> None:
        super().__init__(client._session)
        self._portal, self._theirs = portal, client

    if not TYPE_CHECKING:  # it has the types of Trio's

        @wraps(TrioClient.call_tool)
        async def call_tool(self, name, arguments=None, **options):
            plain = None if options else self._theirs._plain_call(name, arguments)
            if plain is None or not self._portal.is_here:
                return await self._cross(TrioClient.call_tool, name, arguments, **options)
            return await self._call_plainly(*plain)

    async def _call_plainly(self, tool: RemoteTool, request: ClientRequest) -> Any:
        """Call a tool without a Trio task, and without a thread for what is done around it."""
        began, call = self._session.now(), SentCall(self._portal.run, self._session, request)
        sent = await call.wait()
        if sent is None:
            sending: Callable[[], Any] = partial(self._session.send, request)
        else:
            if (wire := call.result) is not None:
                result = plain_result(wire, self._session.now() - began)
                if result is not None and tool.fits_result_at_sight(wire):
                    return result
            sending = partial(self._session.finish, request, sent, wire)
        called = self._theirs._called
        return await self._portal.call(lambda: called(tool, request, sending(), began))

    def states(self) -> AsyncIterator[ClientState]:
        """Iterate over the states, from the present one to `Disconnected`, which is the last."""
        return Feed(self._theirs.states, self._portal.run.post)

    def messages(self) -> AsyncIterator[bytes]:
        """Iterate over the raw messages of the server, from now on."""
        return Feed(self._theirs.messages, self._portal.run.post)

    def subscribe(
        self,
        *,
        resources: Sequence[str] = (),
        lists: Sequence[Kind] = (),
        extensions: Mapping[str, Sequence[str] | bool] | None = None,
    ) -> AbstractAsyncContextManager[TrioChangeStream]:
        """Subscribe to changes for as long as the block lasts; see `trio_mcp.Client.subscribe`."""
        options: Any = {"resources": resources, "lists": lists, "extensions": extensions}
        portal: Portal[TrioChangeStream, TrioChangeStream] = Portal(
            lambda: self._theirs.subscribe(**options),
            lambda stream: ChangeStream(portal, stream),
            within=self._portal,
        )
        return portal


class ClientConnection(Portal[TrioClient, Client]):
    """A connection that lasts as long as its block, or from `open` to `aclose`. Made by `connect`.

    Any task may open it and any task may close it, in any order.

    Example:
        >>> async def startup(app: dict[str, object]) -> None:
        ...     app["connection"] = connection = connect(["python", "calculator.py"])
        ...     app["client"] = await connection.open()
    """

    def __init__(
        self,
        *args: Any,
        handlers: Handlers | None = None,
        on_log: Callable[..., object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(lambda: self._way, partial(Client, self))
        self._way = trio_connect.connect(
            *args,
            handlers=handlers_in_loop(self, checked_handlers(handlers)),
            on_log=None if on_log is None else self.callback(on_log),
            **options,
        )

    if not TYPE_CHECKING:  # where any name would do then

        def __getattr__(self, name: str) -> Any:
            raise trio_connect.not_entered(self, name)

    def states(self) -> AsyncIterator[ClientState]:
        """Iterate over the states of the connection, from now on; see `Client.states`."""
        return Feed(self._way.states, self._post)

    def messages(self) -> AsyncIterator[bytes]:
        """Iterate over the raw messages of the server, from now on."""
        return Feed(self._way.messages, self._post)

    def _post(self, message: Callable[[], object]) -> None:
        if self._run is None:  # so nothing happens there yet
            message()
        else:
            self._run.post(message)


@same_arguments(trio_connect.connect)
def connect(*args: Any, **options: Any) -> ClientConnection:
    """Connect to a server, from asyncio.

    Targets, options and errors are those of `trio_mcp.connect`. The callbacks and handlers that you
    give run in your event loop: `on_log` may be a plain function or an `async def` one, the
    functions of `Handlers` are `async def` functions for asyncio. A handler is cancelled when the
    server takes its question back.

    Returns:
        What opens the connection: `async with connect(…) as client`, or `client = await
        connection.open()` and, from any task, `await connection.aclose()`.

    Raises:
        RuntimeError: No event loop of asyncio is running (when it is opened).

    If a task is cancelled while it waits for the client, or runs into `asyncio.timeout`, its
    request is cancelled, also at the server. A connection that is not closed ends with its event
    loop.

    Example:
        >>> async def total() -> float:
        ...     async with connect(["python", "calculator.py"]) as client:
        ...         return await client.call_tool("add", {"a": 1, "b": 2}, returns=float)
    """
    return ClientConnection(*args, **options)
