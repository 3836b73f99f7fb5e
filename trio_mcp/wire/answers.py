"""Answers to requests, as values. A channel makes bytes of them, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from trio_mcp.loggers import logger_of
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Id,
    Json,
    Malformed,
    Message,
    Request,
    encode,
    error_line,
    join_batch,
    result_line,
)

logger = logger_of("trio_mcp")


@define(eq=False, repr=False)
class Result:
    """The result of a request."""

    members: dict[str, Json]
    is_encodable: bool = False
    """Whether it is known to hold only what can be encoded (`encode`), as a text."""
    is_large: bool = False
    """Whether to encode it would hold up an event loop."""
    on_encode_error: Callable[[Any], McpError] | None = None
    """Makes the error to send if the members turn out not to be JSON, from their source."""
    source: Any = None
    """What the members were made of."""
    _encoded: tuple[Id, bytes] | None = None

    def encode(self, id: Id = UNKNOWN_ID) -> McpError | None:
        """Encode the response to a request, so that `line` need not. May run in a worker thread.

        Args:
            id: The request's id. Without it, all that comes of it is whether there is an error.

        Returns:
            The error to send in place of members that are not JSON. Nothing else: an idle thread
            would keep it.
        """
        try:
            if self._encoded is None:
                line = result_line(id, self.members, self.is_encodable, in_slices=self.is_large)
                self._encoded = id, line
        except Exception:  # also what an author's thread does to it meanwhile
            return self._unsendable()
        return None

    def line(self, id: Id) -> bytes:
        """Return the response that carries the result, encoded."""
        if self._encoded is not None and self._encoded[0] == id:
            return self._encoded[1]
        try:
            # As `result_line` does: most calls end here, and can do without one function more.
            response = {"jsonrpc": "2.0", "id": id, "result": self.members}
            return encode(response, self.is_encodable)
        except Exception:
            return error_line(id, self._unsendable())

    def _unsendable(self) -> McpError:
        if self.on_encode_error is not None:
            return self.on_encode_error(self.source)
        logger.error("Internal error: a result cannot be encoded")
        return McpError(INTERNAL_ERROR, "Internal error")


class RawResult(Result):
    """A result that is passed on as another server gave it."""


Answer = Result | McpError
"""What a request is answered with."""


def as_answer(error: McpError) -> McpError:
    """Make an answer of an error that was raised: without the frames, which may refer to it.

    Such a cycle would not be freed at once, with all that the frames refer to.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


@define(eq=False, repr=False)
class BatchAnswer:
    """The answers to the requests of one batch, which travel as one line."""

    open: int
    """Requests that are not answered yet."""
    answers: list[tuple[Id, Answer]] = field(factory=list)

    def add(self, id: Id, answer: Answer | None) -> BatchAnswer | None:
        """Add one answer, or note that there is none. Returns the whole after the last one."""
        if answer is not None:
            self.answers.append((id, answer))
        self.open -= 1
        return self if self.open == 0 and self.answers else None


Reply = Answer | BatchAnswer
"""What is sent at once: an answer, or those to a batch."""


def id_of_message(message: Message) -> Id:
    """Return the id that answers a message at once; a batch that is refused has none."""
    return message.id if isinstance(message, Request | Malformed) else UNKNOWN_ID


def reply_line(id: Id, reply: Reply) -> bytes:
    """Encode a reply to the request of an id. The answers in a batch have their own ids."""
    if isinstance(reply, Result):
        return reply.line(id)
    if isinstance(reply, McpError):
        return error_line(id, reply)
    return join_batch([reply_line(id, answer) for id, answer in reply.answers])
