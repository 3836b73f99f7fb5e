"""What a server may ask of its client, and who answers it.

A legacy server asks with a request of its own; a modern one answers `input_required` and is asked
again. The same handlers serve both. What has no handler is not declared, and is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

from attrs import Attribute, field, frozen

from trio_mcp.public import public
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.questions import ListRootsResult, Root
from trio_mcp.wire.revisions import NEWEST

Params = dict[str, Json]
Handler = Callable[[Params], Awaitable[dict[str, Json]]]


def _list_of_roots(_: object, attribute: Attribute[Any], roots: Any) -> None:
    if roots is None or (
        isinstance(roots, list | tuple) and all(isinstance(root, str | Root) for root in roots)
    ):
        return
    raise TypeError(f"{attribute.name} must be a list of file: URIs, or of Root(uri, name=...)")


async def answer_of(handler: Handler, params: Params) -> dict[str, Json]:
    """Return what a handler answers, in whichever event loop it is for."""
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    answer: Any = handler(params)
    if not isawaitable(answer):
        raise TypeError(f"{name} answers a server's questions, so it must be an async function")
    found: Any = await answer
    if not isinstance(found, dict):
        example, kind = {"action": "decline"}, type(found).__name__
        raise TypeError(f"{name} must return a JSON object, such as {example}, not {kind}")
    return found


def checked_handlers(handlers: Any) -> Handlers:
    """Return the handlers that `connect` was given, or none at all."""
    if handlers is None:
        return Handlers()
    if isinstance(handlers, Handlers):
        return handlers
    kind = type(handlers).__name__
    raise TypeError(f"handlers must be Handlers, as in Handlers(sampling=answer), not {kind}")


@public
@frozen(kw_only=True)
class Handlers:
    """Answers to a server's questions. Only what has a handler is declared to the server.

    Args:
        sampling: Answers `sampling/createMessage`: parameters in, result out, as JSON objects.
        sampling_tools: Whether `sampling` supports tools for the model.
        elicitation: Answers `elicitation/create` with a form, likewise.
        elicitation_url: Answers `elicitation/create` with a web page to visit, likewise.
        elicitation_complete: Called with the `elicitationId` when the server says that what it
            asked for at a page is done. Only 2025-11-25 has that.
        roots: The roots of the file system that the server may see, as `file:` URIs, or as `Root`
            with a name. `Client.set_roots` changes them.

    Raises:
        TypeError: The roots are no list of those.

    Example:
        >>> async def decline(params):
        ...     return {"action": "decline"}
        >>> handlers = Handlers(elicitation=decline, roots=["file:///srv/data"])
    """

    sampling: Handler | None = None
    sampling_tools: bool = False
    elicitation: Handler | None = None
    elicitation_url: Handler | None = None
    elicitation_complete: Callable[[str], object] | None = None
    roots: Sequence[str | Root] | None = field(default=None, validator=_list_of_roots)

    @property
    def capabilities(self) -> dict[str, Json]:
        """What to declare to the server: exactly what there is a handler for."""
        declared: dict[str, Json] = {}
        if self.sampling is not None:
            declared["sampling"] = {"tools": {}} if self.sampling_tools else {}
        if self.elicitation_url is not None:
            form: dict[str, Json] = {} if self.elicitation is None else {"form": {}}
            declared["elicitation"] = {**form, "url": {}}
        elif self.elicitation is not None:
            declared["elicitation"] = {}
        if self.roots is not None:
            declared["roots"] = {}
        return declared

    async def answer(self, method: str, params: Params) -> dict[str, Json]:
        """Answer a question by its handler.

        Raises:
            McpError: There is no handler for the method (`-32601`), or for what it is asked
                (`-32602`).
            Exception: Whatever the handler raises.
        """
        if method == "roots/list" and self.roots is not None:
            roots = [Root(root) if isinstance(root, str) else root for root in self.roots]
            return to_wire(ListRootsResult(roots), NEWEST)
        if method == "sampling/createMessage" and self.sampling is not None:
            if "tools" in params and not self.sampling_tools:
                raise McpError(INVALID_PARAMS, "This client does not declare sampling.tools")
            return await answer_of(self.sampling, params)
        if method == "elicitation/create" and "elicitation" in self.capabilities:
            mode = params.get("mode", "form")
            form = self.elicitation if mode == "form" else None
            handler = self.elicitation_url if mode == "url" else form
            if handler is None:
                what = f"elicitation.{mode!s:.40}"
                raise McpError(INVALID_PARAMS, f"This client does not declare {what}")
            return await answer_of(handler, params)
        raise McpError(METHOD_NOT_FOUND, f"{method} handler not registered")
