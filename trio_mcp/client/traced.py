"""A session whose requests are measured, where the application uses OpenTelemetry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio
from attrs import evolve

from trio_mcp.client.session import ClientRequest, ClientSession, ConnectOptions
from trio_mcp.client.transport import ClientTransport, Params
from trio_mcp.errors import ClientError
from trio_mcp.telemetry import OTHER, Telemetry, continued, meta_of, request_attributes
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.methods import CALL_TOOL

_Send = Callable[[Params, Id], Awaitable[Any]]


class TracedSession(ClientSession):
    """Makes a span for each request, within the client's middleware, and has the server go on.

    A request that is sent again with answers, or whose task is asked for until it has ended, is one
    request, from its beginning to its final result.

    Args:
        transport: Sends the requests.
        options: Those of `connect`.
        network: What they travel by, as attributes of OpenTelemetry.
    """

    def __init__(
        self, transport: ClientTransport, options: ConnectOptions, network: Mapping[str, Any]
    ) -> None:
        super().__init__(transport, options)
        self._telemetry = Telemetry("client")
        self._network = network
        self._questions = Telemetry("server")
        self.inbound.answer = self._answer
        self._began = trio.current_time()

    async def _traced(self, method: str, params: Params, id: Id | None, send: _Send) -> Any:
        id = self.transport.next_id() if id is None else id
        attributes = self._attributes(method, self._target_of(method, params), id)
        with self._telemetry.request(attributes, meta_of(params)) as outcome:
            result = await send(continued(params), id)
            outcome.note(result)
        return result

    async def _answer(self, method: str, params: Params) -> Params:
        """Answer a question of the server."""
        with self._questions.request(self._attributes(method), meta_of(params)):
            return await self.inbound.handlers.answer(method, params)

    def _attributes(self, method: str, target: str | None = None, id: Id = "") -> dict[str, Any]:
        revision = None if self._negotiated is None else self._negotiated.revision.name
        known = method if method in self.options.methods else OTHER
        return request_attributes(known, target, revision, id, self._network)

    def _target_of(self, method: str, params: Params) -> str | None:
        """Return what a request names: a tool only if the server has listed it."""
        name = params.get("name")
        if not isinstance(name, str) or (
            method == CALL_TOOL.name and not self.options.tools.has(name)
        ):
            return None
        return name

    # -- all ways to send a request -------------------------------------------------------

    async def _send(self, request: ClientRequest) -> dict[str, Json]:
        return await self._sent_by(super()._send, request)

    async def exchange(self, request: ClientRequest) -> dict[str, Json]:
        return await self._sent_by(super().exchange, request)

    async def _sent_by(
        self, send: Callable[[ClientRequest], Awaitable[dict[str, Json]]], request: ClientRequest
    ) -> dict[str, Json]:
        def send_traced(params: Params, id: Id) -> Awaitable[dict[str, Json]]:
            return send(evolve(request, params=params, id=id))

        result: dict[str, Json] = await self._traced(
            request.method, request.params, request.id, send_traced
        )
        return result

    def forward(self, method: str, params: Params) -> Awaitable[dict[str, Json]]:
        def send(params: Params, id: Id) -> Awaitable[dict[str, Json]]:
            return super(TracedSession, self).transmit(method, params, None, id)

        return self._traced(method, params, None, send)

    def begin(self, *request: Any) -> None:
        """Leave each request to a task, as its span is of that."""

    def start(self, *request: Any) -> None:
        """Likewise."""

    def close(self, failure: Callable[[], ClientError] | None) -> None:
        if not self.closed.is_set():
            about = dict(self._network)
            if self._negotiated is not None:
                about["mcp.protocol.version"] = self._negotiated.revision.name
            seconds = trio.current_time() - self._began
            error = None if failure is None else failure()
            self._telemetry.session_ended(seconds, about, error)
        super().close(failure)
