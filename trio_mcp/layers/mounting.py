"""Entries of a mounted provider: its names and state on the way in, the registry's names back."""

from __future__ import annotations

from typing import Any

from trio_mcp.layers.call import Call, Handler
from trio_mcp.threads import offload
from trio_mcp.wire.answers import Result


def entering(origin: Any, inner: Handler) -> Handler:
    """Make the handler that runs a provider's own chain, with the names and the state it knows.

    Args:
        origin: Where the entry comes from (a `MountInfo`).
        inner: What the provider runs for it.
    """

    def run(call: Call) -> Any:
        context = call._context
        provider, name = origin.mount.provider, origin.own_name(call.name)
        if context is not None:  # middleware out there may have put another in its place
            context = lambda: origin.inside(call.make_context())  # noqa: E731
        entry = origin.item
        return inner(Call(call.exchange, entry, name, call.arguments, provider, context))

    return run


def outward(origin: Any) -> Any:
    """Make the layer that has results name resources as they are to be found in the registry."""

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Result:
            result: Result = await inner(call)
            result.members = await offload(origin.outward, result.members)
            return result

        return run

    return layer
