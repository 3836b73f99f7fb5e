"""What a server sends unasked: notifications, and lines that are not messages at all."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Final

import trio

from trio_mcp.client.cache import ConnectionCache
from trio_mcp.client.changes import Subscriptions
from trio_mcp.loggers import logger_of
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.registry.changes import Change
from trio_mcp.transports.observe import Broadcast
from trio_mcp.wire.conversion import Misfit, from_wire
from trio_mcp.wire.errors import URL_ELICITATION_REQUIRED, McpError
from trio_mcp.wire.jsonrpc import Json, Notification
from trio_mcp.wire.notifications import ElicitationCompleteParams, LogParams, ProgressParams
from trio_mcp.wire.payloads import LoggingLevel

logger = logger_of("trio_mcp.client")

ProgressCallback = Callable[[float, float | None, str | None], object]
"""Called with the progress so far, the total if it is known, and a message if there is one.

What it returns is dropped, so under Trio it is a plain function (`check_plain`)."""

LogCallback = Callable[[LoggingLevel, Json, str | None], object]
"""Called with the level, the message, which is any JSON, and the logger if it is named."""

_MOST_STRAY: Final = 100
_LONGEST_STRAY: Final = 1024
_MOST_ELICITATIONS: Final = 1000


def check_plain(name: str, callback: Callable[..., object] | None) -> None:
    """Refuse an `async def` function as a callback that is not awaited (`TypeError`)."""
    if inspect.iscoroutinefunction(callback):
        raise TypeError(
            f"{name} is called and not awaited: give it a plain function, which may start a task "
            "in a nursery of yours"
        )


class Notifications:
    """Dispatches notifications to callbacks and subscriptions."""

    def __init__(
        self,
        on_log: LogCallback | None,
        cache: ConnectionCache,
        on_completion: Callable[[str], object] | None = None,
    ) -> None:
        check_plain("on_log", on_log)
        check_plain("elicitation_complete", on_completion)
        self._on_log = on_log
        self._on_completion = on_completion
        self._progress: Final[dict[Json, tuple[TimeLimit, ProgressCallback | None]]] = {}
        self._tokens = itertools.count()
        self._elicitations: Final[dict[str, None]] = {}  # those that may be completed
        self.cache: Final = cache
        self.on_change: Callable[[Change], object] = lambda change: None
        self.subscriptions: Final = Subscriptions(self._take_change)
        """Those that are open; see `Client.subscribe`."""
        self.callbacks: Final[dict[str, Callable[[dict[str, Json]], object]]] = {
            "notifications/progress": self._take_progress,
            "notifications/message": self._take_log,
            "notifications/elicitation/complete": self._take_completion,
        }
        """By method, what takes the parameters; extensions add theirs."""

    def expect_progress(self, limit: TimeLimit, callback: ProgressCallback | None) -> Json:
        """Return a token; progress with it renews a time limit, and goes to the callback."""
        if callback is not None:
            check_plain("on_progress", callback)
        token = next(self._tokens)
        self._progress[token] = limit, callback
        return token

    def forget_progress(self, token: Json) -> None:
        """Expect no more progress with a token, if there is one."""
        self._progress.pop(token, None)

    def take(self, notification: Notification) -> None:
        try:
            self._take(notification)
        except Misfit as error:
            logger.debug("%s from the server is not MCP: %s", notification.method, error)

    def _take(self, notification: Notification) -> None:
        callback = self.callbacks.get(notification.method)
        if callback is None:
            self.subscriptions.take(notification)
            return
        try:
            callback(notification.params)
        except Misfit:
            raise
        except Exception:  # a callback's mistake must not end the connection
            logger.exception("The callback for %s failed", notification.method)

    def _take_change(self, change: Change) -> None:
        self.cache.forget(change)
        self.on_change(change)

    def _take_progress(self, params: dict[str, Json]) -> None:
        token = params.get("progressToken")
        expected = self._progress.get(token) if type(token) is int else None
        if expected is None:
            return
        limit, callback = expected
        if limit.renewal:
            limit.renew(trio.current_time())
        if callback is not None:  # or its content is of no interest
            told = from_wire(params, ProgressParams)
            callback(told.progress, told.total, told.message)

    def _take_log(self, params: dict[str, Json]) -> None:
        if self._on_log is not None:
            told = from_wire(params, LogParams)
            self._on_log(told.level, told.data, told.logger)

    def note_elicitation(self, params: dict[str, Json]) -> None:
        """Take note of what the user is asked to do at a page, if that has an id."""
        id = params.get("elicitationId")
        if isinstance(id, str) and len(id) <= _LONGEST_STRAY:
            self._elicitations[id] = None
            if len(self._elicitations) > _MOST_ELICITATIONS:
                del self._elicitations[next(iter(self._elicitations))]

    def note_error(self, error: McpError) -> None:
        """Take note of what the user is asked to do at pages, if an error asks for that."""
        for params in elicitations_of(error):
            self.note_elicitation(params)

    def _take_completion(self, params: dict[str, Json]) -> None:
        id = from_wire(params, ElicitationCompleteParams).elicitation_id
        if id in self._elicitations:  # or it is unknown, or is done already
            del self._elicitations[id]
            if self._on_completion is not None:
                self._on_completion(id)


def elicitations_of(error: McpError) -> list[dict[str, Json]]:
    """Return what an error asks the user to do at pages before the request is sent again."""
    if error.code != URL_ELICITATION_REQUIRED or not isinstance(error.data, dict):
        return []
    asked = error.data.get("elicitations")
    some = asked[:_MOST_ELICITATIONS] if isinstance(asked, list) else []
    return [params for params in some if isinstance(params, dict)]


class RawLines:
    """Broadcasts the lines of a server, and keeps those that are not messages."""

    def __init__(self, kept_bytes: int) -> None:
        self._broadcast: Broadcast[bytes] = Broadcast(kept_bytes=kept_bytes)
        self.take: Final = self._broadcast.announce
        self.are_heard: Final = self._broadcast.is_heard
        self.stray: Final[list[bytes]] = []
        """Those that are not messages: the first hundred, and of each the first KiB."""

    def take_stray(self, line: bytes) -> None:
        """Log a line that is not a message, and keep its beginning; of a flood, only the first."""
        if len(self.stray) < _MOST_STRAY:
            self.stray.append(line[:_LONGEST_STRAY])
            told = "The server wrote a line that is not a message (%d bytes)"
            logger.warning(told, len(line), extra={"stray_output": self.stray[-1]})

    def listen(self) -> AsyncIterator[bytes]:
        return self._broadcast.listen()

    def end(self) -> None:
        self._broadcast.end()
