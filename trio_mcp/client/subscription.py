"""A subscription, for the length of a block.

In modern revisions a subscription is a request that stays open; in legacy ones resources are
subscribed to one by one, and changed lists are announced to every client. Both become one
asynchronous iterator of changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from typing import Final

import trio

from trio_mcp.background import background_nursery
from trio_mcp.client.changes import ChangeStream
from trio_mcp.client.result import is_not_found
from trio_mcp.client.session import ClientRequest, ClientSession
from trio_mcp.errors import CallTimeout, ClientError
from trio_mcp.peer.time_limits import TimeLimit, pausable
from trio_mcp.registry.changes import KINDS, Kind
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError
from trio_mcp.wire.messages import SubscriptionFilter
from trio_mcp.wire.offers import ResourceParams

_CLOSE_TIMEOUT: Final = 1.0


@asynccontextmanager
async def subscription(
    session: ClientSession,
    kinds: Collection[Kind],
    uris: Collection[str],
    extensions: Mapping[str, Sequence[str] | bool],
) -> AsyncIterator[ChangeStream]:
    """Keep a subscription open for the length of the block (`Client.subscribe`)."""
    _check(kinds, uris)
    keys = session.subscription_keys
    for key in extensions:
        if key not in keys:
            raise ValueError(f"no extension of this client has the key {key!r:.100}")
    shared = {key: extensions[key] for key in extensions if keys[key]}
    stream = ChangeStream(kinds, uris, shared)
    open_ = _listening if session.negotiated.era == "modern" else _subscribed
    streams = session.notifications.subscriptions.streams
    streams.add(stream)  # before the request: changes may come before its acknowledgement is read
    try:
        async with open_(session, stream):
            yield stream
    finally:
        streams.discard(stream)


def _check(kinds: Collection[Kind], uris: Collection[str]) -> None:
    if isinstance(uris, str) or isinstance(kinds, str):
        raise TypeError(
            "subscribe() takes lists; put the URI, or the name of the list, in brackets"
        )
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"there is no list {kind!r} to subscribe to, only: {', '.join(KINDS)}")


@asynccontextmanager
async def _listening(session: ClientSession, stream: ChangeStream) -> AsyncIterator[None]:
    """Modern: a request that stays open."""
    kinds = {f"{kind}_list_changed": True for kind in stream.kinds}
    wanted = SubscriptionFilter(**kinds, resource_subscriptions=list(stream.uris))
    params = {"notifications": {**to_wire(wanted), **stream.extensions}}
    stream.id = session.transport.next_id()

    limit = TimeLimit.after(session.request_timeout)
    request = ClientRequest(method="subscriptions/listen", params=params, timeout=inf, id=stream.id)

    async def listen() -> None:
        try:
            with pausable(limit.paused):
                await session.send(request)
            stream.end()
        except (ClientError, McpError) as failure:
            if not _is_unknown(failure):
                stream.end(failure)
                return
            stream.agree({})  # it tells of nothing, which is less than was wanted, but no failure
            await _end_with(session, stream)

    async with background_nursery(listen):
        with limit.scope() as scope:
            await stream.agreed.wait()
        if scope.cancelled_caught:
            what = "the acknowledgement of subscriptions/listen"
            setting = "connect(request_timeout=...)"
            raise CallTimeout(what, session.request_timeout, session.stderr(), setting)
        if stream.failure is not None:
            raise stream.failure
        yield


async def _subscribe(session: ClientSession, uri: str) -> bool:
    """Subscribe to a resource; return whether it exists."""
    try:
        await session.send(_about("resources/subscribe", uri))
    except McpError as error:
        if is_not_found(error, uri) or _is_unknown(error):
            return False
        raise
    return True


def _about(method: str, uri: str) -> ClientRequest:
    return ClientRequest(method=method, params=to_wire(ResourceParams(uri)))


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, McpError) and error.code == METHOD_NOT_FOUND


async def _end_with(session: ClientSession, stream: ChangeStream) -> None:
    await session.closed.wait()
    stream.end(session.failure())


@asynccontextmanager
async def _subscribed(session: ClientSession, stream: ChangeStream) -> AsyncIterator[None]:
    """Legacy: a request for each resource, and one to end it."""
    stream.extensions = {}
    stream.kinds = frozenset(kind for kind in stream.kinds if _offers(session, kind, "listChanged"))
    mine: list[str] = []
    try:
        if _offers(session, "resources", "subscribe"):
            await _join(session, stream.uris, mine)
        stream.uris = frozenset(mine)
        async with background_nursery(partial(_end_with, session, stream)):
            yield
    finally:
        # Shielded: who leaves by being cancelled has subscribed as well, and the server goes on
        # telling until it hears otherwise.
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await _leave(session, mine)
        session.notifications.subscriptions.users.subtract(mine)  # if its turn never came


def _offers(session: ClientSession, capability: str, detail: str) -> bool:
    """Whether a legacy server declares that it notifies of something."""
    offered = session.negotiated.capabilities.get(capability)
    return isinstance(offered, dict) and offered.get(detail) is True


async def _join(session: ClientSession, uris: Collection[str], mine: list[str]) -> None:
    """Subscribe to those URIs that no other stream has subscribed to, and list them in `mine`."""
    users = session.notifications.subscriptions.users
    async with session.notifications.subscriptions.turn:  # counts and requests change together
        for uri in uris:
            mine.append(uri)
            users[uri] += 1
            if users[uri] == 1 and not await _subscribe(session, uri):
                mine.remove(uri)
                del users[uri]


async def _leave(session: ClientSession, mine: list[str]) -> None:
    """Unsubscribe from those URIs that no other stream uses."""
    users = session.notifications.subscriptions.users
    async with session.notifications.subscriptions.turn:
        gone = [uri for uri in mine if users[uri] == 1]
        users.subtract(mine)
        mine.clear()
        for uri in gone:
            del users[uri]
        with suppress(ClientError):  # the server is gone
            for uri in gone:
                request = _about("resources/unsubscribe", uri)
                with suppress(McpError):  # it has ended this one itself
                    await session.send(request)
