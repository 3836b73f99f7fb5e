"""What a handler's `Context` is built on: the conversation with the sender of one request."""

from __future__ import annotations

from typing import Protocol

from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import Revision


class Conversation(Protocol):
    """The way back to the caller of one request."""

    revision: Revision
    """What the caller speaks."""

    @property
    def params(self) -> dict[str, Json]:
        """The parameters of the request, and, of an earlier round, only what is not ours."""

    @property
    def capabilities(self) -> dict[str, Json]:
        """What the caller has declared."""

    @property
    def passes_questions(self) -> bool:
        """Whether the request may be answered by somebody else's question (`pass_on`)."""

    @property
    def cannot_ask(self) -> str | None:
        """Why this caller cannot be asked anything, whatever it has declared; mostly `None`."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the work is, if the caller wants to know."""

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that the caller wants; `None` for no messages."""

    def logs(self, level: LoggingLevel) -> bool:
        """Whether the caller wants log messages of this level."""

    async def log(self, level: LoggingLevel, data: Json, logger: str | None) -> None:
        """Send a log message."""

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        """Send a notification of an extension, if the caller has declared that."""

    def close_sse_stream(self) -> None:
        """Have the client come back for the rest, if it can."""

    def supports(self, *capability: str) -> bool:
        """Whether the caller has declared a capability that its revision has a question for."""

    async def send_request(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        """Ask the caller something, and return its result."""


class OpenConversation(Conversation, Protocol):
    """The same for whoever runs the handler."""

    unwinding: bool
    """Whether the handler was cancelled because of what it asked."""

    @property
    def answers(self) -> dict[str, Json]:
        """What the caller has answered in earlier rounds, by the names of the questions."""

    async def use_state(self) -> None:
        """Have all who share a record know that the state of the request is used."""

    def log_nowait(self, level: LoggingLevel, data: Json, logger: str | None) -> None:
        """Send a log message without waiting for room."""

    async def take_in(self) -> None:
        """Take in what a state will have to be good for, before one is sealed."""

    def input_required(self) -> dict[str, Json]:
        """Make the result that asks the caller what the handler has asked."""

    def pass_on(self, question: dict[str, Json]) -> dict[str, Json]:
        """Make the result that asks the caller what somebody else has asked by such a result."""

    def finish(self) -> None:
        """Say what was held back, and no more."""

    def close(self) -> None:
        """Say and ask no more."""
