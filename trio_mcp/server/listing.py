"""Listing what takes long to be written: in a task, with turns for others."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from trio_mcp.layers.answering import with_request_id
from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.registry.kinds import ListedKind
from trio_mcp.server.request import RequestContext
from trio_mcp.server.scopes import view_of
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError


class Listing(InboundRequest):
    """A request for a list of which much was not written in its revision before."""

    __slots__ = ("context", "cursor", "kind")
    timeout: ClassVar[float] = inf  # there are so many items, and no more
    label: ClassVar[str] = "List"

    def __init__(self, context: RequestContext, kind: ListedKind, cursor: str | None) -> None:
        self.context = context
        self.kind = kind
        self.cursor = cursor

    async def run(self, scope: Scope) -> Answer | None:
        context, kind, lists = self.context, self.kind, self.context.server.lists
        with scope:
            await lists.prepare(kind, context.revision)
            try:
                page = lists.page(kind, context.revision, self.cursor, view_of(context))
            except McpError as error:
                return with_request_id(error, context.id)
            items = [dict(item) for item in page[kind.items]]  # middleware may take some out
            return Result(context.complete({**page, kind.items: items}), is_large=True)
        return self.unfinished()

    def unfinished(self) -> Answer | None:
        if self.answered or self.cause is Cause.PEER:
            return None
        return McpError(INTERNAL_ERROR, "Request cancelled")
