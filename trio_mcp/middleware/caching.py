"""Results that are kept for a while, and asked for once however many callers want them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable
from typing import ClassVar, Final

import trio
from attrs import define, field

from trio_mcp.checks import are_names, is_a
from trio_mcp.middleware.size import size_of
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import Around, McpRequest, RequestNext
from trio_mcp.threads import offload
from trio_mcp.wire import codec
from trio_mcp.wire.bounds import AT_LEAST_ZERO, COUNT_OR_ZERO
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.kept import KeptValues
from trio_mcp.wire.methods import CALL_TOOL, READ_RESOURCE

_ROUND: Final = ("inputResponses", "requestState", "task")
"""Parameters of requests whose results are good for them alone."""
_OVERHEAD: Final = 500


Result = dict[str, Json]


@define(eq=False)
class _Flight:
    """A request that others wait for."""

    landed: trio.Event = field(factory=trio.Event)
    result: Result | None = None
    """What they get."""
    failed: bool = False
    """Whether each of them has to ask for itself."""


@public_in("trio_mcp.middleware")
@define(eq=False)
class Cache:
    """Keeps the results of tools that only read, and of resources (around requests, in a client).

    A result is kept by tool and arguments, or by URI, and for its caller: who has the same token's
    owner and scopes, or without tokens the same connection or session. For callers over HTTP that
    have none of these, nothing is kept; nor are failures, and answers to questions. A request that
    has begun is waited for by others like it; they hear nothing of its progress. Results of
    resources are forgotten when the registry tells of a change of any resource.

    Args:
        ttl: Seconds for which results are kept.
        max_bytes: Bytes that all together may take; what was not used for the longest time goes
            first.
        tools: The tools whose results are kept; by default, those with `readOnlyHint`.
        resources: Whether resources are kept.
        shared: Whether callers get what others have asked for. Only if all callers get the
            same results.

    Example:
        >>> registry = Registry("docs", middleware=[Cache(60, shared=True)])
    """

    around: ClassVar[Around] = "requests"
    ttl: float = field(validator=AT_LEAST_ZERO)
    max_bytes: int = field(default=16 * 1024 * 1024, kw_only=True, validator=COUNT_OR_ZERO)
    tools: Collection[str] | None = field(default=None, kw_only=True, validator=are_names)
    resources: bool = field(default=True, kw_only=True, validator=is_a(bool))
    shared: bool = field(default=False, kw_only=True, validator=is_a(bool))
    _kept: KeptValues[Hashable, Result] = field(init=False, repr=False)
    _flights: dict[Hashable, _Flight] = field(factory=dict, init=False, repr=False)

    @_kept.default
    def _make_kept(self) -> KeptValues[Hashable, Result]:
        return KeptValues(self.max_bytes)

    def clear(self) -> None:
        """Forget everything that is kept."""
        self._kept.clear()

    async def __call__(self, request: McpRequest, call_next: RequestNext) -> Result:
        """Return the result that is kept, or pass the request on."""
        key = await self._key(request)
        if key is None:
            return await call_next(request)
        while True:
            kept = self._kept.find(key, trio.current_time())
            if kept is not None:
                await trio.lowlevel.checkpoint()
                return dict(kept)
            flight = self._flights.get(key)
            if flight is None:
                return await self._ask(key, request, call_next)
            await flight.landed.wait()
            if flight.failed:
                return await call_next(request)
            if flight.result is not None:
                return dict(flight.result)
            # It was cancelled, which concerns no other: one of those that wait asks again.

    async def _ask(self, key: Hashable, request: McpRequest, call_next: RequestNext) -> Result:
        flight = self._flights[key] = _Flight()
        try:
            result = await call_next(request)
            kind = result.get("resultType", "complete")
            flight.failed = bool(result.get("isError")) or kind != "complete"
            flight.result = None if flight.failed else dict(result)  # what is outside may add to it
        except Exception:
            flight.failed = True
            raise
        finally:
            del self._flights[key]
            flight.landed.set()
        if flight.result is not None and self.ttl:
            size = await size_of(flight.result) + _OVERHEAD
            self._kept.put(key, flight.result, size, trio.current_time() + self.ttl)
        return result

    async def _key(self, request: McpRequest) -> Hashable | None:
        """Return the key of a result; `None` if it is not to be kept."""
        if not self._is_for_us(request) or any(name in request.params for name in _ROUND):
            return None
        params = {name: value for name, value in request.params.items() if name != "_meta"}
        digest = await offload(_digest, params)
        if digest is None:
            return None
        # What was read, or begun, before a change is no answer to who asks after it.
        resource_version = request.resource_version if request.method == READ_RESOURCE.name else 0
        question = request.method, digest, resource_version
        caller = request.context
        if caller is None:
            return question
        revision = caller.revision  # in which results are written
        if self.shared:
            return *question, revision
        scopes = None if caller.authorization is None else caller.authorization.scopes
        owner = caller.principal or caller.connection_id
        if owner is None:  # it cannot be distinguished
            return None
        return *question, revision, caller.principal is None, owner, scopes

    def _is_for_us(self, request: McpRequest) -> bool:
        if request.method not in (CALL_TOOL.name, READ_RESOURCE.name):
            return False
        shown = request.description
        if shown is None and request.context is not None:
            return False  # there is no such thing, at least for this caller
        if request.method == READ_RESOURCE.name:
            return self.resources
        if self.tools is not None:
            return request.target in self.tools
        annotations = getattr(shown, "annotations", None)
        return annotations is not None and annotations.read_only_hint is True


def _digest(params: Json) -> bytes | None:
    """Return the digest of parameters; `None` if they cannot be written for one."""
    try:
        text = codec.dumps(params, option=codec.SORTED)
    except TypeError:  # integers that are too long for it
        return None
    return hashlib.sha256(text).digest()
