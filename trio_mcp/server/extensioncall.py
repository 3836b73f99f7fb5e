"""Where extensions come in: methods of their own, and what they run around calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache, partial
from typing import Any, ClassVar, Final, Literal, Protocol

from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.registry.extension import ExtensionRequest
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.server.calllog import NOT_DECLARED, note_refusal
from trio_mcp.server.extended import request_for
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.methods import HANDLERS, MethodHandler
from trio_mcp.server.request import RequestContext
from trio_mcp.server.server import Server
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.extensions import declared_settings, missing
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import ALL, Revision

_OF_ONE_ROUND: Final = ("_meta", "inputResponses", "requestState")
"""Parameters that are others when a request is sent again with answers."""


class Wrapping(Protocol):
    """An extension that runs something around calls (see `ServerExtension`)."""

    @property
    def identifier(self) -> str:
        """Its name."""

    @property
    def era(self) -> Literal["legacy", "modern"] | None:
        """The only era in which there is such a thing."""

    @property
    def result_types(self) -> Collection[str]:
        """What it may answer with."""

    async def around(
        self, request: ExtensionRequest, proceed: Callable[[], Awaitable[dict[str, Json]]]
    ) -> Mapping[str, Json]:
        """Answer a request."""


def extended_handlers(server: Server) -> dict[Revision, dict[str, MethodHandler]]:
    """Make the tables of who answers what, with what extensions add to them."""
    return {revision: _handlers_in(revision, server) for revision in ALL}


def _handlers_in(revision: Revision, server: Server) -> dict[str, MethodHandler]:
    extensions = server.registry.extensions
    assert extensions is not None
    handlers = dict(HANDLERS[revision])
    for method, around in server.wrapping.items():
        if around:
            handlers[method] = partial(_begin_wrapped, handlers[method])
    for name in extensions.methods:
        if extensions.has_method(name, revision):
            handlers[name] = begin_method
    return handlers


class _Extended(HandlerCall):
    """What both have in common: the handler's function is never all that has to be run."""

    __slots__ = ()

    @property
    def may_notify(self) -> bool:
        """Whether anything may be sent: an extension may."""
        return True

    def _start(self) -> Awaitable[Any]:
        bridges = self.log_bridges()
        return self.work_bridged(bridges) if bridges or self.brings_state else self.work()


# -- methods --------------------------------------------------------------------------------


class ExtensionCall(_Extended):
    """A request of an extension's method, ready to run."""

    __slots__ = ()
    kind: ClassVar[str] = "Method"

    def work(self) -> Awaitable[Any]:
        """Run the extension's function."""
        identifier = self.handler.extension.identifier
        answer: Awaitable[Any] = self.handler.function(
            request_for(identifier, self.context, self.make_context())
        )
        return answer

    def wire(self, value: Any) -> dict[str, Json]:
        """Take what it returned as the members of a result."""
        if not isinstance(value, Mapping):
            raise invalid_result(value, f"method {self.handler.name}")
        return dict(value)

    def binding(self) -> Json:
        """What a sealed state of this request is good for: nothing but the same request."""
        context = self.context
        about = {key: each for key, each in context.params.items() if key not in _OF_ONE_ROUND}
        registry, principal = context.server.registry, context.session.principal
        return [registry.name, context.method, about, principal]


def begin_method(context: RequestContext) -> ExtensionCall:
    """Make the call of an extension's method.

    Raises:
        McpError: The client has to have declared the extension, and has not (`-32021`).
    """
    registry, capabilities = context.server.registry, context.caller.capabilities
    assert registry.extensions is not None
    handler = registry.extensions.methods[context.method]
    identifier = handler.extension.identifier
    if not handler.open_to_all and declared_settings(capabilities, identifier) is None:
        note_refusal("Method", handler.name, NOT_DECLARED, context)
        raise missing(capabilities, identifier)
    return ExtensionCall(context, handler, {})


# -- around calls ---------------------------------------------------------------------------


class _Answered:
    """The members of a result, where it is not what the author's function returned."""

    def __init__(self, result: dict[str, Json]) -> None:
        self.result = result


class _Wrapped(_Extended):
    """A call that extensions run something around, the first one outermost."""

    __slots__ = ()

    async def work(self) -> Any:
        """Run the extensions, and the function if they want that."""
        era = "modern" if self.context.revision.modern else "legacy"
        around = self.context.server.wrapping[self.context.method]
        those = [each for each in around if each.era in (None, era)]
        return _Answered(await self._proceed(those))

    def wire(self, value: Any) -> dict[str, Json]:
        """Take the result as they have left it."""
        return value.result if isinstance(value, _Answered) else super().wire(value)

    def members(self, value: Any) -> dict[str, Json]:
        """Take the result as they have left it."""
        return value.result if isinstance(value, _Answered) else super().members(value)

    async def _proceed(self, around: list[Wrapping]) -> dict[str, Json]:
        if not around:
            value = await super().work()
            try:
                return self.members(value)
            except McpError as error:
                self.log_unsendable(error)
                raise
        identifier = around[0].identifier
        option = self.handler.extensions.get(identifier)
        talk = self.make_context()
        answers = None if self.conversation is None else self.conversation.answers
        request = request_for(identifier, self.context, talk, option, answers)
        result = await around[0].around(request, partial(self._proceed, around[1:]))
        if not isinstance(result, Mapping) or not self._may_be_sent(result, around):
            refused = invalid_result(result, f"extension {identifier}")
            self.log_unsendable(refused)
            raise refused
        return dict(result)

    def _may_be_sent(self, result: Mapping[str, Json], around: list[Wrapping]) -> bool:
        """Whether its type is the protocol's, or one of theirs which the client knows."""
        kind = result.get("resultType", "complete")
        declared = self.context.caller.capabilities
        return kind == "complete" or any(
            kind in each.result_types and declared_settings(declared, each.identifier) is not None
            for each in around
        )


@cache
def _wrapped_class(kind: Any) -> Any:
    """Make a class of calls that are wrapped, and otherwise like those of a class."""
    return type(f"Wrapped{kind.__name__}", (_Wrapped, kind), {"__slots__": ()})


def _begin_wrapped(
    begin: MethodHandler, context: RequestContext
) -> dict[str, Json] | InboundRequest:
    call: Any = begin(context)
    if isinstance(call, HandlerCall):
        # It was made a moment ago, and nobody else has it. The attributes are the same ones.
        kind: Any = type(call)
        call.__class__ = _wrapped_class(kind)
    result: dict[str, Json] | InboundRequest = call
    return result
