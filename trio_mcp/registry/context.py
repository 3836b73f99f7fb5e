"""What a handler may say to its caller, and ask of it, while it serves a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import trio
from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Id, Json

if TYPE_CHECKING:
    from trio_mcp.registry.asking import ElicitResult
    from trio_mcp.registry.conversation import Conversation
    from trio_mcp.wire.payloads import Implementation, LoggingLevel, ToolDescription
    from trio_mcp.wire.questions import CreateMessageResult, ModelPreferences, Root, SamplingMessage

T = TypeVar("T")


@public
@frozen(kw_only=True)
class Context:
    """The request that a handler is serving, and the way back to who sent it.

    A handler gets one by having a parameter annotated with this class; callers do not see that
    parameter. Its methods are for the Trio thread: a plain `def` function, which runs in a worker
    thread, calls them through `trio.from_thread.run`.

    Example:
        >>> async def count(to: int, context: Context) -> str:
        ...     for number in range(to):
        ...         await context.progress(number, total=to)
        ...     return "done"
    """

    tool: str
    """What was called: a tool's or prompt's name, or a resource's URI."""

    state: Any = None
    """What the registry's lifespan yielded."""

    request_id: Id | None = None
    """The request's id; `None` when the tool was run by `Registry.call`."""

    connection_id: str | None = None
    """Names the connection in the log; `None` when there is none."""

    revision: str | None = None
    """The protocol revision that the caller speaks."""

    client: Implementation | None = None
    """Who the caller says it is. It is not verified, so nothing should depend on it."""

    principal: str | None = None
    """Whose token the request came with, as `HttpPolicy` knows; `None` where no token is needed."""

    meta: dict[str, Any] | None = None
    """The `_meta` of the request, with whatever extensions put there."""

    _conversation: Conversation | None = field(default=None, repr=False)

    # -- saying ---------------------------------------------------------------------------

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the caller how far the work is (2026-07-28, "Progress").

        Nothing is sent if the caller did not ask for it, if the number is not more than the last
        one, or after the answer. Of a flood only some are sent, the last one among them.

        Args:
            progress: How far the work is, in any unit.
            total: How far it will go, if that is known.
            message: A few words for a person.

        Raises:
            ValueError: A number is not finite.

        A checkpoint in any case, so a loop that reports progress can be cancelled.
        """
        if self._conversation is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._conversation.progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Json, *, logger: str | None = None) -> None:
        """Send the caller a log message, if it wants messages of that level.

        Args:
            level: How severe it is.
            data: The message: any JSON.
            logger: What it comes from.

        Raises:
            ValueError: There is no such level.
            TypeError: The data is not JSON.

        Cancelled while the connection is full, the message is dropped.
        """
        if self._conversation is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._conversation.log(level, data, logger)

    async def debug(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `debug`. As `log`."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `info`. As `log`."""
        await self.log("info", data, logger=logger)

    async def notice(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `notice`. As `log`."""
        await self.log("notice", data, logger=logger)

    async def warning(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `warning`. As `log`."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `error`. As `log`."""
        await self.log("error", data, logger=logger)

    async def critical(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `critical`. As `log`."""
        await self.log("critical", data, logger=logger)

    async def alert(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `alert`. As `log`."""
        await self.log("alert", data, logger=logger)

    async def emergency(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `emergency`. As `log`."""
        await self.log("emergency", data, logger=logger)

    def close_sse_stream(self) -> None:
        """Close the HTTP response of this request, but not the request (2025-11-25, "Polling").

        A client with a session comes back for the rest after a while, so a long job need not hold
        a connection open. On any other transport, and in modern revisions, nothing happens.
        """
        if self._conversation is not None:
            self._conversation.close_sse_stream()

    # -- asking ---------------------------------------------------------------------------

    def supports(self, *capability: str) -> bool:
        """Whether the caller has declared a capability, such as `"elicitation", "url"`.

        `False` also where the caller's revision does not have what the capability is about, so a
        question that is supported is never refused for its revision.
        """
        return self._conversation is not None and self._conversation.supports(*capability)

    @overload
    async def elicit(
        self, message: str, kind: type[T], *, key: str | None = None
    ) -> ElicitResult[T]: ...

    @overload
    async def elicit(
        self, message: str, kind: Mapping[str, Json], *, key: str | None = None
    ) -> ElicitResult[dict[str, Json]]: ...

    @overload  # `Literal[…]` and unions, which are no classes
    async def elicit(
        self, message: str, kind: object, *, key: str | None = None
    ) -> ElicitResult[Any]: ...

    async def elicit(self, message: str, kind: Any, *, key: str | None = None) -> ElicitResult[Any]:
        """Ask the user to fill in a form (2026-07-28, "Elicitation").

        To a caller of a modern revision the handler is unwound, with `trio.Cancelled`, and runs
        again from its beginning once the answer is there: what comes before a question runs again.
        Questions asked side by side in a nursery travel together. Where cancellation does not get,
        which is inside a shielded scope and in a worker thread, another exception ends this run.

        To a caller of a legacy revision it is a request. The handler's time limit waits for the
        answer, which has a limit of its own (`Limits.question_timeout`). Cancelled, it tells the
        client that the question is off.

        Args:
            message: Why it is asked.
            kind: A flat class (attrs, dataclass, TypedDict) of text, numbers, booleans and
                choices; one of these alone; or a JSON Schema of that kind.
            key: A name for the question. It has to be the same each time the handler runs; without
                one, the question itself is its name.

        Returns:
            The answer: accepted with a value, declined, or cancelled.

        Raises:
            McpError: The client cannot be asked (`-32021`, in legacy revisions `-32600`), or its
                answer does not fit (`-32602`).
            SchemaError: The form is not one that the caller's revision allows.
        """
        from trio_mcp.registry import asking  # few handlers ask, and no start waits for those

        return await asking.elicit(self._talk(), message, kind, key)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> ElicitResult[None]:
        """Ask the user to visit a web page, for what must not pass through the client.

        An accepted answer means that the user has agreed to go there, not that anything has been
        done there.

        Args:
            message: Why.
            url: The page.
            key: As for `elicit`.

        Raises:
            McpError: As for `elicit`.
            ValueError: The URL is not one of `https:` or `http:`.
        """
        from trio_mcp.registry import asking

        return await asking.elicit_url(self._talk(), message, url, key)

    async def sample(
        self,
        messages: str | Sequence[str | SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: ModelPreferences | None = None,
        tools: Sequence[ToolDescription] | None = None,
        tool_choice: str | None = None,
        key: str | None = None,
    ) -> CreateMessageResult:
        """Ask the client to have its model write something (2026-07-28, "Sampling").

        Args:
            messages: The conversation so far; a string is what the user says.
            max_tokens: The most that the model may write.
            system_prompt: Instructions for the model.
            temperature: How random the model may be.
            stop_sequences: Texts at which the model stops.
            model_preferences: What matters in the choice of a model.
            tools: Tools that the model may wish to use.
            tool_choice: Whether it does: `auto`, `required` or `none`.
            key: As for `elicit`.

        Raises:
            McpError: The client cannot be asked, it refused, or its answer is not MCP.
        """
        options = {
            "system_prompt": system_prompt,
            "temperature": temperature,
            "stop_sequences": stop_sequences,
            "model_preferences": model_preferences,
            "tools": tools,
            "tool_choice": tool_choice,
        }
        from trio_mcp.registry import asking

        return await asking.sample(self._talk(), messages, max_tokens, options, key)

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask the client for the directories and files that it considers relevant.

        Args:
            key: As for `elicit`.

        Raises:
            McpError: The client cannot be asked, or its answer is not MCP.
        """
        from trio_mcp.registry import asking

        return await asking.roots(self._talk(), key)

    def _talk(self) -> Conversation:
        if self._conversation is None:
            raise McpError(INVALID_REQUEST, "There is no client here that could be asked")
        return self._conversation
