"""Forwarding the standard library's log to the callers of a registry: opt-in, for each registry.

While one of the registry's handlers runs, a context variable holds the request that it serves.
Tasks and worker threads that the handler starts inherit it, so whatever they log finds its way to
the caller of that request alone; what is logged outside of any request goes nowhere.
Of requests within requests it is the innermost that counts.

A record comes from any thread, but only the Trio thread may say something: elsewhere the record is
handed over, in order, and thus before the thread's result. Logging does not wait for room in
the connection, so of a flood only some records are sent, and the caller learns how many were not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp.background import runs_here
from trio_mcp.layers.call import Call, Handler, Layer
from trio_mcp.wire.bucket import TokenBucket
from trio_mcp.wire.jsonrpc import sendable_text
from trio_mcp.wire.payloads import LoggingLevel

__all__ = ["LogBridge"]

_OWN: Final = "trio_mcp"
"""The loggers of this library: what they say of a request would be about that very message."""

_BURST: Final = 1000
_RATE: Final = 100.0
"""Records that one request sends at once, and then in a second."""

_LEVELS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL + 20, "emergency"),
    (logging.CRITICAL + 10, "alert"),
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO + 5, "notice"),
    (logging.INFO, "info"),
)
"""Python's levels and, between and above them, where those are that Python has no name for."""


def level_of(number: int) -> LoggingLevel:
    """Translate a level of the standard library into one of MCP."""
    return next((name for least, name in _LEVELS if number >= least), "debug")


@define(eq=False)
class _Served:
    """A request that is being served."""

    bridges: Sequence[LogBridge]
    caller: Any
    """The conversation with its caller (a `RequestConversation`)."""
    trio_token: trio.lowlevel.TrioToken
    bucket: TokenBucket = field(factory=lambda: TokenBucket(_RATE, _BURST))
    left_out: int = 0

    def tell(self, level: LoggingLevel, text: str, source: str) -> None:
        """Pass a record on, in the Trio thread."""
        if not self.bucket.take(trio.current_time()):
            self.left_out += 1
            return
        with serving(None):  # a caller in this process may log what it receives
            self.caller.log_nowait(level, text, source)


_served: Final[ContextVar[_Served | None]] = ContextVar("trio_mcp_served", default=None)


@contextmanager
def serving(served: _Served | None) -> Iterator[None]:
    """Have what is logged during the block belong to a request, or to none."""
    before = _served.set(served)
    try:
        yield
    finally:
        _served.reset(before)


class LogBridge:
    """Knows which request of a registry a record belongs to. Made by `Registry.log_handler`."""

    def handler(self, level: int | str) -> logging.Handler:
        """Make a handler for the standard library's log.

        Raises:
            ValueError: There is no such level.
            TypeError: The level is neither a number nor a name.
        """
        return _Handler(self, level)


class _Handler(logging.Handler):
    """Forwards records that belong to a request of its registry."""

    def __init__(self, bridge: LogBridge, level: int | str) -> None:
        super().__init__(level)
        self._bridge = bridge

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a record; never its traceback."""
        served = _served.get()
        if served is None or self._bridge not in served.bridges:
            return
        if record.name.partition(".")[0] == _OWN:
            return
        try:
            level = level_of(record.levelno)
            if not served.caller.logs(level):
                return
            plain = copy(record)
            plain.exc_info = plain.exc_text = plain.stack_info = None
            text, source = sendable_text(self.format(plain)), sendable_text(record.name)
            if runs_here(served.trio_token):
                served.tell(level, text, source)
            else:
                served.trio_token.run_sync_soon(served.tell, level, text, source)
        except trio.RunFinishedError:
            pass  # in a thread that outlived the server
        except Exception:
            self.handleError(record)


def bridging(bridges_of: Callable[[Any], Sequence[LogBridge]]) -> Layer:
    """Make the layer that sends the caller what is logged during its call.

    Args:
        bridges_of: Returns the bridges of the registries that an entry comes through.
    """

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Any:
            bridges = bridges_of(call.entry)
            if not bridges:
                return await inner(call)
            caller = call.exchange.begin_conversation()
            served = _Served(bridges, caller, trio.lowlevel.current_trio_token())
            try:
                with serving(served):
                    return await inner(call)
            finally:
                if served.left_out:
                    text = f"{served.left_out} log messages were left out"
                    caller.log_nowait("warning", text, None)

        return run

    return layer
