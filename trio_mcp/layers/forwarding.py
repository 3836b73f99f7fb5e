"""Results that are passed on as they came, but for what is between this server and its caller.

A question is sealed with a state of this server's own. What a legacy revision does not have is
written as this library writes it for its own results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from trio_mcp.layers.call import Call, Handler
from trio_mcp.threads import is_large, offload
from trio_mcp.wire.answers import RawResult, Result
from trio_mcp.wire.content import BLOCK_SINCE, CONTENT_BLOCKS
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json, Response
from trio_mcp.wire.revisions import ALL, META_SERVER_INFO, Revision

_MODERN_MEMBERS: Final = ("resultType", "ttlMs", "cacheScope")
_LATER: Final[Mapping[Revision, Mapping[str, type]]] = {
    revision: {
        name: block
        for name, block in CONTENT_BLOCKS.items()
        if revision not in BLOCK_SINCE.get(block, ALL)
    }
    for revision in ALL
}
"""By revision, the blocks that it does not have."""

_SHORT: Final = 64 * 1024
"""Bytes of a response that takes no time worth a thread, whatever is in it."""

Begin = Callable[[Call, float, Callable[[Any], object]], Any]
"""Sends a call on at once: gets the call, its deadline by Trio's clock, and what to call when it
was answered, or needs a task. Returns what was sent (a `RelayedRequest`); `None` where the call
needs a task from the beginning."""


def forwarding(inner: Handler) -> Handler:
    """Prepare a result of a server elsewhere for this server's caller."""

    async def run(call: Call) -> Result:
        result: Result = await inner(call)
        if result.__class__ is RawResult:
            await _prepare(call, result)
        return result

    return run


async def _prepare(call: Call, result: Result) -> None:
    exchange, members = call.exchange, result.members
    if members.get("resultType") == "input_required":
        await exchange.hash_binding()
        result.members = exchange.begin_conversation().pass_on(members)
        return
    if not exchange.revision.modern:
        wraps = getattr(call.entry, "wrapped_output", None) is not None
        members = await offload(for_legacy, members, exchange.revision, wraps)
    meta = members.get("_meta")
    if isinstance(meta, dict) and META_SERVER_INFO in meta:  # this server gives its own
        members["_meta"] = own = {**meta}
        del own[META_SERVER_INFO]
        if not own:
            del members["_meta"]
    result.members = members
    result.is_large = is_large(members)


@frozen
class Relaying:
    """What all layers of an entry come to where another server answers: a request, and a response.

    It does without them, and so without a task, what they do in the plainest case.
    """

    begin: Begin
    """Sends a call on at once."""
    name: str
    """What is asked for, as the server elsewhere knows it."""
    provider: Any = None
    """The provider that the server is; `None` where that is what is served."""
    outward: Callable[[dict[str, Json]], dict[str, Json]] | None = None
    """Has a result name resources as they are to be found in the registry, if others do not."""

    def mounted(self, origin: Any) -> Relaying:
        """Return what it is where the entry is mounted (a `MountInfo`)."""
        provider = origin.mount.provider if self.provider is None else self.provider
        outward = origin.outward if origin.renames_uris else None
        return evolve(self, provider=provider, outward=outward)

    def send(
        self, exchange: Any, arguments: Any, deadline: float, on_news: Callable[[Any], object]
    ) -> Any:
        """Send a call on (`Begin`)."""
        call = Call(exchange, exchange.entry, self.name, arguments, self.provider)
        return self.begin(call, deadline, on_news)

    def result(self, response: Response | None) -> RawResult | None:
        """Prepare the response of a modern server for a modern caller.

        Returns:
            The result; `None` where the response is something else, or needs more than that.
        """
        if response is None or response.error is not None or response.size > _SHORT:
            return None
        members = response.result
        if members.__class__ is not dict or members.get("resultType", "complete") != "complete":
            return None
        meta = members.get("_meta")
        if meta.__class__ is dict:
            meta.pop(META_SERVER_INFO, None)  # this server gives its own
        elif "_meta" in members:
            return None
        if self.outward is not None:
            members = self.outward(members)
        return RawResult(members, is_encodable=True)  # as it was parsed


def for_legacy(result: dict[str, Json], revision: Revision, wraps: bool = False) -> dict[str, Json]:
    """Return the members of a result for a caller of a legacy revision.

    Args:
        result: The members.
        revision: What the caller speaks.
        wraps: Whether lists say that structured content is in an object, by itself.
    """
    kept = {name: each for name, each in result.items() if name not in _MODERN_MEMBERS}
    if wraps and "structuredContent" in kept:
        kept["structuredContent"] = {"result": kept["structuredContent"]}
    if revision.structured_objects_only and not isinstance(kept.get("structuredContent"), dict):
        kept.pop("structuredContent", None)
    return _with_known_blocks(kept, revision) if _LATER[revision] else kept


def _with_known_blocks(result: dict[str, Json], revision: Revision) -> dict[str, Json]:
    if isinstance(result.get("content"), list):
        result["content"] = [_block(block, revision) for block in result["content"]]
    if isinstance(result.get("messages"), list):
        result["messages"] = [_message(message, revision) for message in result["messages"]]
    return result


def _message(message: Json, revision: Revision) -> Json:
    if not isinstance(message, dict) or "content" not in message:
        return message
    return {**message, "content": _block(message["content"], revision)}


def _block(block: Json, revision: Revision) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    later = _LATER[revision].get(kind) if isinstance(kind, str) else None
    if later is None:
        return block
    try:
        return to_wire(from_wire(block, later), revision)
    except ValueError:  # it is not what it says
        return block
