"""A tool that is run without a client: `Registry.call`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from attrs import frozen

from trio_mcp.layers.call import Call
from trio_mcp.registry.content_results import ConvertedResult, converted
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import NO_EXTENSIONS
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.lifespan import Opened
from trio_mcp.registry.tools import Tool
from trio_mcp.wire.answers import RawResult, Result
from trio_mcp.wire.content import CallToolResult
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.revisions import NEWEST, Revision


@frozen(eq=False, repr=False)
class DirectCall:
    """A call that no client has made: the part of an `Exchange` that there is then."""

    catalogue: Any
    limits: Limits
    opened: Opened
    entry: Tool
    threads: trio.CapacityLimiter | None = None
    revision: Revision = NEWEST
    params: Mapping[str, Json] = NO_EXTENSIONS
    sent: None = None

    def lends(self, slots: Any) -> None: ...

    def view(self) -> None: ...

    def unsendable(self, value: Any) -> McpError:
        return invalid_result(value, f"tool {self.entry.name}")

    def log_unsendable(self, error: Exception) -> None: ...  # it is raised as well

    def context_of(self, call: Call) -> Context:
        return Context(tool=call.name, lifespan=self.state_of(call.provider), opened=self.opened)

    def state_keeper(self, provider: Any) -> Any:
        from trio_mcp.registry.kept_state import StateKeeper  # few tools keep any

        catalogue: Any = self.catalogue if provider is None else provider
        store = self.opened.store or catalogue.own_store
        return StateKeeper(catalogue.name, store, self.limits, None, "Registry.call", "")

    def state_of(self, provider: Any) -> Any:
        return self.opened.state if provider is None else self.opened.state_of(provider)


def checked_value(tool: Tool, value: Any) -> Any:
    """Return what a tool returned, if it fits; of a tool elsewhere, a `CallToolResult`."""
    if isinstance(value, RawResult):
        assert tool.origin is not None  # only providers have such
        return from_wire(tool.origin.outward(value.members), CallToolResult)
    if isinstance(value, Result):  # of what a tool has called
        return from_wire(value.members, CallToolResult)
    if isinstance(value, ConvertedResult) or tool.check_output is not None:
        result = converted(tool, value)
        return result if isinstance(value, ConvertedResult) else value
    return value
