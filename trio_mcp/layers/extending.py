"""What extensions run around calls, the first one outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol

from trio_mcp.layers.call import Call, Handler, Layer
from trio_mcp.threads import is_large
from trio_mcp.wire.answers import Result
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.extensions import declared_settings
from trio_mcp.wire.jsonrpc import Json


class AroundCalls(Protocol):
    """An extension that runs something around calls (see `ServerExtension`)."""

    identifier: str
    era: Literal["legacy", "modern"] | None
    result_types: Collection[str]

    async def around(
        self, request: Any, proceed: Callable[[], Awaitable[dict[str, Json]]]
    ) -> Mapping[str, Json]: ...


RequestFor = Callable[[AroundCalls, Call], Any]
Invalid = Callable[[Any, str], McpError]


def extending(
    extensions: Sequence[AroundCalls],
    concerns: Callable[[AroundCalls, Any], bool],
    request_for: RequestFor,
    invalid: Invalid,
) -> Layer:
    """Make the layer of some extensions.

    Args:
        extensions: Those that run something around the method.
        concerns: Whether an extension does so for an entry.
        request_for: Makes what an extension gets of a call (an `ExtensionRequest`).
        invalid: Makes the error for a value that cannot be sent, and who returned it.
    """

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Result:
            era = "modern" if call.exchange.revision.modern else "legacy"
            around = [
                extension
                for extension in extensions
                if extension.era in (None, era) and concerns(extension, call.entry)
            ]
            if not around:
                result: Result = await inner(call)
                return result
            members = await _proceed(inner, request_for, invalid, call, around)
            return Result(members, False, is_large(members), call.exchange.unsendable, members)

        return run

    return layer


async def _proceed(
    inner: Handler, request_for: RequestFor, invalid: Invalid, call: Call, around: list[AroundCalls]
) -> dict[str, Json]:
    if not around:
        result: Result = await inner(call)
        return result.members
    first, rest = around[0], around[1:]
    request = request_for(first, call)
    proceed = partial(_proceed, inner, request_for, invalid, call, rest)
    answer = await first.around(request, proceed)
    if not isinstance(answer, Mapping) or not _may_be_sent(call, answer, around):
        error = invalid(answer, f"extension {first.identifier}")
        call.exchange.log_unsendable(error)
        raise error
    return dict(answer)


def _may_be_sent(call: Call, result: Mapping[str, Json], around: list[AroundCalls]) -> bool:
    """Whether its type is the protocol's, or one of theirs which the client knows."""
    kind = result.get("resultType", "complete")
    declared = call.exchange.capabilities
    return kind == "complete" or any(
        kind in wrapper.result_types and declared_settings(declared, wrapper.identifier) is not None
        for wrapper in around
    )
