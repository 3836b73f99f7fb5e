"""Questions of the legacy revisions: requests to the client, while the handler waits."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed
from trio_mcp.server.conversation import ENDED, RequestConversation
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json


class LegacyConversation(RequestConversation):
    """The way back to a caller of a legacy revision."""

    era = "legacy"

    def __init__(self, context: RequestContext, call: Any) -> None:
        super().__init__(context, call)
        self._asking: set[trio.CancelScope] = set()  # questions that wait for the client
        self._left = 0.0  # seconds that the handler had left when it asked

    @property
    def _wanted_log_level(self) -> Any:
        return self._context.session.log_level

    @property
    def cannot_ask(self) -> str | None:
        """Why this caller cannot be asked anything; `None` if it can."""
        reason: str | None = self._call.channel.cannot_ask
        return reason

    def close(self) -> None:
        """Say and ask no more; questions of threads that were left behind are withdrawn."""
        super().close()
        for scope in self._asking:
            scope.cancel()

    async def _ask(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        patience = self._limits.question_timeout
        deadline = trio.current_time() + patience
        waiting = trio.CancelScope()
        self._stop_the_clock(patience, waiting)
        try:
            with waiting:
                return await self._call.channel.send_request(method, params, deadline)
            raise McpError(INVALID_REQUEST, ENDED)
        except DeadlinePassed:
            message = f"The client did not answer {method} within {patience:g} s"
            raise McpError(INTERNAL_ERROR, message) from None
        except ConnectionEnded:
            raise McpError(INTERNAL_ERROR, f"The client left before it answered {method}") from None
        finally:
            self._start_the_clock(waiting)

    def _stop_the_clock(self, patience: float, waiting: trio.CancelScope) -> None:
        """A person's time to think is not the handler's: its deadline waits."""
        scope = self._call.scope
        if scope is not None:
            if not self._asking:
                self._left = scope.deadline - trio.current_time()
            self._call.move_deadline(trio.current_time() + patience + self._left)
        self._asking.add(waiting)

    def _start_the_clock(self, waiting: trio.CancelScope) -> None:
        self._asking.discard(waiting)
        scope = self._call.scope
        if scope is not None and not self._asking:
            self._call.move_deadline(trio.current_time() + self._left)
