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
    def passes_questions(self) -> bool:
        """Whether the request may be answered by another server's question (`pass_on`)."""

    @property
    def cannot_ask(self) -> str | None:
        """Why this caller cannot be asked anything, whatever it has declared, if so."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress, if the caller asked for it."""

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that the caller wants; `None` for no messages."""

    def logs(self, level: LoggingLevel) -> bool:
        """Whether the caller wants log messages of this level."""

    async def log(self, level: LoggingLevel, data: Json, logger: str | None) -> None:
        """Send a log message."""

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        """Send a notification of an extension, if the caller has declared that."""

    async def complete_elicitation(self, id: str) -> None:
        """Notify the caller that what it was asked to do at a page is done, if it can be."""

    def close_sse_stream(self) -> None:
        """Close the response, so that the client resumes the stream later, if it can."""

    def supports(self, *capability: str) -> bool:
        """Whether the caller has declared a capability that its revision has a question for."""

    async def send_request(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        """Ask the caller a question, and return its result."""
