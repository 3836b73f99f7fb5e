"""A call in its cancel scope, and the only place where exceptions of an author's code are caught.

| what happens | what the caller gets |
|---|---|
| it returns | its result |
| it returns what cannot be sent | `-32603` with its type; the log says where it is wrong |
| `McpError` | that JSON-RPC error |
| `ToolError` | its text |
| `ResourceNotFound` | the error that the caller's revision has for that |
| any other exception | no detail; all of it goes to the log |
| it outruns its deadline | its name and the limit |
| it asks a caller of a modern revision | the question, as an `input_required` result |
| the caller cancels it | nothing |
| the server shuts down | `-32603`, "Request cancelled" |

A tool's failures are results for the model to read; those of other handlers are JSON-RPC errors.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final

import trio

from trio_mcp.layers.binding import RefusedArguments
from trio_mcp.layers.call import Call, Exchange, Handler, InputRequired
from trio_mcp.wire.answers import Answer, Result, as_answer
from trio_mcp.wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    McpError,
    ResourceNotFound,
    ToolError,
)
from trio_mcp.wire.jsonrpc import Id, sendable_text
from trio_mcp.wire.revisions import Revision

CANCELLED: Final = McpError(INTERNAL_ERROR, "Request cancelled")

TOLD: Final = (ToolError, McpError, ResourceNotFound, InputRequired)
"""Exceptions that are meant for the caller."""


def answering(inner: Handler) -> Handler:
    """Run a call in the scope of its request, and answer the request with its outcome."""

    async def run(call: Call) -> Answer | None:
        exchange: Exchange = call.exchange
        scope = exchange.scope
        try:
            try:
                with scope:
                    result: Result = await inner(call)
            except BaseException as raised:
                return _answer_to(call, unwrapped(raised), raised)
            if scope.cancel_called and not exchange.finished_in_time:
                return exchange.cut_short()
            outcome = "error" if result.members.get("isError") else "ok"
            return exchange.ended(outcome, result)
        finally:  # the conversation knows the request: a cycle would wait for the collector
            exchange.conversation = None

    return run


def _answer_to(call: Call, error: BaseException, raised: BaseException) -> Answer | None:
    """Answer a call that has raised. A frame that it was raised through must not refer to it."""
    exchange: Exchange = call.exchange
    if not exchange.scope.cancel_called:
        answer = exchange.ended(*failure(call, error, raised))
        if isinstance(error, TOLD):  # an instance that is raised by all calls would keep them all
            error.__traceback__ = None
        return answer
    if not isinstance(error, TOLD):
        exchange.log_error(f"{_failed(call, raised)} while it was cancelled", error)
    return exchange.cut_short()


def failure(call: Call, error: BaseException, raised: BaseException) -> tuple[str, Answer]:
    """Say how an exception ends a call: the outcome for the log, and the answer.

    Args:
        call: The call that ended with it.
        error: The exception.
        raised: The group that it was raised in; itself, if there was none.
    """
    entry, exchange = call.entry, call.exchange
    if isinstance(error, McpError):
        return "error", as_answer(error)
    if isinstance(error, ResourceNotFound):
        missing = not_found(exchange.revision, entry.missing(call.name, error))
        return "error", with_request_id(missing, exchange.id)
    if isinstance(error, RefusedArguments):
        return "error", entry.refused(error, exchange.revision, exchange.id)
    if isinstance(error, ToolError):
        return "error", entry.failed(sendable_text(_words(error) or f"{entry.label} failed"))
    add_hint(error)
    if type(error) is RuntimeError and str(error).startswith("Cancel scope stack corrupted"):
        exchange.left_open = True
        exchange.log_error("%s left a cancel scope or a nursery open", error)
    else:
        exchange.log_error(_failed(call, raised), error)
    return "exception", internal_error(entry)


def internal_error(entry: Any) -> Answer:
    """Return the answer that tells nothing but that there was an exception."""
    answer: Answer = entry.failed(f"{entry.label} failed: internal error (see the server's log)")
    return answer


def _failed(call: Call, raised: BaseException) -> str:
    """Say for the log what has failed: the call, or which layer around it."""
    from trio_mcp.layers.blame import layer_that_raised  # few calls fail

    layer = layer_that_raised(raised, call.entry)
    return "%s failed" if layer is None else f"%s failed in its layer {layer}"


def not_found(revision: Revision, uri: str) -> McpError:
    """Make the error for a resource that does not exist, as a revision has it."""
    code = revision.resource_not_found
    return McpError(code, f"Resource not found: {uri[:500]}", {"uri": uri[:500]})


def with_request_id(error: McpError, id: Id) -> McpError:
    """Add the id of a request to the data of an error of ours, for programs.

    What the data of other codes holds is the specification's.
    """
    if error.code in _OUR_DATA and isinstance(error.data, dict | None):
        error.data = {**(error.data or {}), "requestId": id}
    return error


_OUR_DATA: Final = frozenset(
    {INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, RESOURCE_NOT_FOUND}
)

_ON_TRIO: Final = (
    "This function runs on Trio, where asyncio's functions do not work. Use Trio's, or have it run "
    "on asyncio: with a trio_mcp.aio.Registry, or by @trio_mcp.aio.on_asyncio."
)
_WRONG_LOOP: Final = {
    (RuntimeError, "must be called from async context"): (
        "This function runs on asyncio, where Trio's functions do not work. Use asyncio's, or "
        "register it with a trio_mcp.Registry, whose functions run on Trio."
    ),
    (RuntimeError, "no running event loop"): _ON_TRIO,
    (TypeError, "trio.run received unrecognized yield message"): _ON_TRIO,
}
"""What Trio and asyncio say where the other one runs, and what to do about it."""


def add_hint(error: BaseException) -> None:
    """Have a traceback say what to do about an exception that comes of the wrong event loop."""
    for (kind, beginning), hint in _WRONG_LOOP.items():
        if type(error) is kind and str(error).startswith(beginning):
            error.add_note(hint)


def _words(error: ToolError) -> str:
    try:
        return str(error)
    except Exception:  # a class of the author's
        return ""


def unwrapped(error: BaseException) -> BaseException:
    """Find what is behind an exception group: one exception, or the one meant for the caller.

    Raises:
        BaseException: What must not be swallowed: interrupts, and cancellation of more than the
            call. Without that, a `Cancelled` is one that an author's code has kept and raised
            again; nothing would catch it, and it would end the connection.
    """
    is_cancelled = trio.current_effective_deadline() == -inf
    passes = (trio.Cancelled, KeyboardInterrupt) if is_cancelled else KeyboardInterrupt
    if isinstance(error, passes):
        try:
            raise error
        finally:
            del error  # a frame that refers to what passes through it makes a cycle
    if not isinstance(error, BaseExceptionGroup):
        return error
    passing, _ = error.split(passes)
    if passing is not None:
        try:
            raise passing
        finally:
            del error, passing
    leaves = leaves_of(error)
    for leaf in leaves:
        if isinstance(leaf, TOLD):
            return leaf
    return leaves[0] if len(leaves) == 1 else error


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group and in its groups; of any other, itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for part in error.exceptions for leaf in leaves_of(part)]
