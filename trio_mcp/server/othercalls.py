"""Requests other than tool calls that run a function: reading, prompts, completion."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar

from attrs import frozen

from trio_mcp.registry.completions import suggestions_of
from trio_mcp.registry.handlers import Forwarded, Handler, Keywords, Unbound
from trio_mcp.registry.invalid import holds_many, invalid_result
from trio_mcp.registry.prompts import messages_of
from trio_mcp.registry.resources import contents_of
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import ResourceNotFound
from trio_mcp.wire.jsonrpc import Json


@frozen(eq=False, repr=False)
class _Made:
    """The line that answers a call, where it was made aside."""

    line: bytes


class _Weighed(HandlerCall):
    """A call whose function may return so much that a worker thread has to make the result."""

    __slots__ = ()

    def _start(self) -> Awaitable[Any]:
        return self._weigh(super()._start())

    async def _weigh(self, running: Awaitable[Any]) -> Any:
        value = await running
        if isinstance(value, Forwarded) or not holds_many(value):
            return value
        return _Made(await self._line_aside(value))

    def _line(self, value: Any) -> bytes:
        return value.line if isinstance(value, _Made) else super()._line(value)


class ReadCall(_Weighed):
    """A `resources/read`, ready to run."""

    __slots__ = ("uri",)
    kind: ClassVar[str] = "Resource"

    def __init__(
        self, context: RequestContext, handler: Handler, keywords: Keywords | Unbound, uri: str
    ) -> None:
        super().__init__(context, handler, keywords)
        self.uri = uri

    @property
    def target(self) -> str:
        """What was asked for: of a template, one of its resources."""
        return self.uri

    def wire(self, value: Any) -> dict[str, Json]:
        """Turn what the function returned into contents."""
        revision, origin = self.context.revision, self.handler.origin
        uri = self.uri if origin is None else origin.target(self.uri)
        contents = contents_of(self.handler, uri, value)
        result: dict[str, Json] = {"contents": [to_wire(each, revision) for each in contents]}
        if revision.modern:
            result["ttlMs"] = round(self.handler.cache_ttl * 1000)
            result["cacheScope"] = self.handler.cache_scope
        return result

    def _failure(self, error: BaseException) -> bytes:
        if isinstance(error, ResourceNotFound):  # whatever it names, this is what was asked for
            error = ResourceNotFound(self.uri)
        return super()._failure(error)


class PromptCall(_Weighed):
    """A `prompts/get`, ready to run."""

    __slots__ = ()
    kind: ClassVar[str] = "Prompt"

    def wire(self, value: Any) -> dict[str, Json]:
        """Turn what the function returned into messages."""
        try:
            return to_wire(messages_of(self.handler, value), self.context.revision)
        except (TypeError, ValueError, AttributeError) as error:  # wrongly filled blocks
            raise invalid_result(value, f"prompt {self.handler.name}", error) from None


class CompletionCall(HandlerCall):
    """A `completion/complete`, ready to run."""

    __slots__ = ()
    kind: ClassVar[str] = "Completion"

    def wire(self, value: Any) -> dict[str, Json]:
        """Turn what the function returned into suggestions."""
        return {"completion": to_wire(suggestions_of(self.handler, value), self.context.revision)}
