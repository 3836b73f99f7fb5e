"""A request that waits until it is known what its sender sees."""

from __future__ import annotations

from trio_mcp.registry.context import Context
from trio_mcp.registry.middleware import McpRequest
from trio_mcp.server.request import MethodHandler, RequestContext
from trio_mcp.server.requestcall import RequestCall
from trio_mcp.wire.jsonrpc import Json


class WaitingRequest(RequestCall):
    """A request that is begun once the providers are ready for its sender."""

    def __init__(self, begin: MethodHandler, context: RequestContext, caller: Context) -> None:
        super().__init__(begin, context)
        self._caller = caller

    async def _through(self) -> dict[str, Json]:
        context = self.context
        await context.server.catalogue.ready_for(self._caller)
        asked = McpRequest(method=context.method, params=context.params)
        return context.complete(await self._proceed(asked))
