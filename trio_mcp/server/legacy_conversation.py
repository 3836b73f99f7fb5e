"""Questions of the legacy revisions: requests to the client, while the handler waits."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed, notification_line
from trio_mcp.registry.changes import Notice
from trio_mcp.server.conversation import ENDED, RequestConversation
from trio_mcp.server.request import RequestContext
from trio_mcp.telemetry import Telemetry, continued, is_configured, request_attributes
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.notifications import ElicitationCompleteParams


class LegacyConversation(RequestConversation):
    """The way back to a caller of a legacy revision."""

    era = "legacy"

    def __init__(self, context: RequestContext, call: Any) -> None:
        super().__init__(context, call)
        self._waiting: set[trio.CancelScope] = set()  # questions that wait for the client

    @property
    def _wanted_log_level(self) -> Any:
        return self._context.session.log_level

    @property
    def cannot_ask(self) -> str | None:
        reason: str | None = self._call.channel.cannot_ask
        return reason

    async def complete_elicitation(self, id: str) -> None:
        await super().complete_elicitation(id)
        if not self.revision.elicitation_ids:
            return
        line = notification_line(
            "notifications/elicitation/complete", to_wire(ElicitationCompleteParams(id))
        )
        channel, listener = self._channel, self._context.session.listener
        if channel is not None:
            await channel.send_notification(line)
        elif listener is not None:  # the request has ended, and the connection may have not
            listener.note(Notice(line))

    def close(self) -> None:
        """Say and ask no more; questions of threads that were left behind are withdrawn."""
        super().close()
        for scope in self._waiting:
            scope.cancel()

    async def _send(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        context, send = self._context, self._call.channel.send_request
        if not is_configured():
            return await send(method, params, deadline)
        network = context.session.network
        about = request_attributes(method, None, context.revision.name, "", network)
        with Telemetry("client").request(about, {}):
            return await send(method, continued(params), deadline)

    async def _ask(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        timeout = self._limits.question_timeout
        deadline = trio.current_time() + timeout
        waiting = trio.CancelScope()
        self._waiting.add(waiting)
        try:
            async with self._waiting_for_caller(timeout):
                with waiting:
                    return await self._send(method, params, deadline)
            raise McpError(INVALID_REQUEST, ENDED)
        except DeadlinePassed:
            message = f"The client did not answer {method} within {timeout:g} s"
            raise McpError(INTERNAL_ERROR, message) from None
        except ConnectionEnded:
            raise McpError(INTERNAL_ERROR, f"The client left before it answered {method}") from None
        finally:
            self._waiting.discard(waiting)
