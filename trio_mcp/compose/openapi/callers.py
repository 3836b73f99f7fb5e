"""Requests to a service in the name of who calls: each call shows the caller's own credential."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

import httpx2
from attrs import field, frozen

from trio_mcp.registry.context import Context
from trio_mcp.registry.middleware import CallNext, McpCall

Authenticate = Callable[[Context], Awaitable[str | httpx2.Auth | None]]
"""Returns what to show for a caller: a bearer token, or an `httpx2.Auth`; `None` for nothing."""

_CALLER: Final = ContextVar[Context]("the caller of an operation")


@frozen(eq=False)
class CallerAuth(httpx2.Auth):
    """Shows the credential of the caller with each request (an `httpx2.Auth`)."""

    around = "calls"
    _authenticate: Authenticate = field(repr=False)

    async def __call__(self, call: McpCall, call_next: CallNext) -> Any:
        """Note who calls while the operation runs (middleware of the registry)."""
        before = _CALLER.set(call.context)
        try:
            return await call_next(call)
        finally:
            _CALLER.reset(before)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        shown = await self._authenticate(_CALLER.get())
        if isinstance(shown, httpx2.Auth):
            flow = shown.async_auth_flow(request)
            try:
                wanted = await anext(flow)
                while True:
                    response = yield wanted
                    wanted = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
        if shown is not None:
            request.headers["Authorization"] = f"Bearer {shown}"
        yield request
