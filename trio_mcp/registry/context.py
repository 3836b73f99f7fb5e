"""What a handler may say to its caller, and ask of it, while it serves a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import trio
from attrs import evolve, field, frozen

from trio_mcp.public import public
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Id, Json

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from trio_mcp.auth.authorization import Authorization
    from trio_mcp.registry.asking import ElicitResult
    from trio_mcp.registry.conversation import Conversation
    from trio_mcp.registry.http_info import HttpInfo
    from trio_mcp.registry.kept_state import KeptState
    from trio_mcp.registry.lifespan import Opened
    from trio_mcp.wire.payloads import Implementation, LoggingLevel, ToolDescription
    from trio_mcp.wire.questions import CreateMessageResult, ModelPreferences, Root, SamplingMessage

    Lifespan = TypeVarWithDefault("Lifespan", default=Any)
else:
    Lifespan = TypeVar("Lifespan")

T = TypeVar("T")


@public
@frozen(kw_only=True)
class Context(Generic[Lifespan]):
    """The request that a handler is serving, and the way to talk back to its caller.

    Annotate a parameter with this class to get one; callers do not see that parameter. A type
    checker knows the type of `lifespan` in a `Context[Shop]`. The methods must run on the Trio
    thread: a plain `def` function, in a worker thread, calls them with `trio.from_thread.run`.

    Example:
        >>> async def count(to: int, context: Context) -> str:
        ...     for number in range(to):
        ...         await context.progress(number, total=to)
        ...     return "done"
    """

    tool: str
    """What was called: a tool's or prompt's name, or a resource's URI. In a provider that is
    mounted, it is the provider's own name for it."""

    lifespan: Lifespan = None  # type: ignore[assignment]  # where there is none
    """What the registry's lifespan yielded; its type is that of a `Context[Lifespan]`."""

    request_id: Id | None = None
    """The request's id; `None` when the tool was run by `Registry.call`."""

    connection_id: str | None = None
    """Names the connection, or over HTTP the session, here and in the log. No two clients have the
    same. `None` where clients cannot be distinguished: over HTTP without a session, as all modern
    clients are, and when the tool was run by `Registry.call`."""

    client_address: str | None = None
    """The address that an HTTP request came from, behind all trusted proxies; of IPv6, the network.
    Many clients may share it. `None` on other transports."""

    revision: str | None = None
    """The protocol revision that the caller speaks."""

    client: Implementation | None = None
    """Who the caller says it is. It is not verified, so nothing should depend on it."""

    capabilities: dict[str, Any] = field(factory=dict, repr=False)
    """What the caller has declared, as it came; `supports` reads it."""

    principal: str | None = None
    """Whose token the request came with, by `HttpPolicy`; `None` if no token is required.

    With a `ResourceServer` it names issuer, subject and client together; see `authorization`."""

    authorization: Authorization | None = None
    """What that token allows: subject, client, scopes, claims; `None` where no token is needed."""

    meta: dict[str, Any] | None = None
    """The `_meta` of the request."""

    http: HttpInfo | None = None
    """The HTTP request, with its headers; on the transport HTTP+SSE, the one that began the
    stream. `None` on other transports, and for a task."""

    _state: KeptState | None = field(default=None, repr=False, eq=False)
    _conversation: Conversation | None = field(default=None, repr=False)
    _opened: Opened | None = field(default=None, repr=False, eq=False)

    if not TYPE_CHECKING:  # where any name would do then

        def __getattr__(self, name: str) -> Any:
            from trio_mcp.registry.equivalents import missing

            raise missing("context", self, name)

    @property
    def state(self) -> KeptState:
        """What lasts from call to call: JSON values by names, as the entry's option `state` says.

        What a call has changed is kept when it returns; if it fails, is cancelled or takes too
        long, it is not. Of what two calls change at the same time, both is kept; of the same name,
        what was written last.

        Raises:
            RuntimeError: What runs was registered without `state`.
        """
        if self._state is None:
            raise RuntimeError(
                f"{self.tool} keeps no state: register it with state='caller', 'session' or "
                "'handle'. What the lifespan yielded is Context.lifespan"
            )
        return self._state

    async def save_state(self) -> None:
        """Keep what is in `state` now, however the call ends.

        Raises:
            TypeError: Something in it is not JSON.
            ToolError: It is too long, there is no room for it, or its handle is good no more.
            McpError: The store cannot be used (`-32603`).

        If cancelled, it may have been kept or not.
        """
        if self.state._opened is not None:  # as it is not in a test of the function alone
            await self.state._opened.save()

    @property
    def caller(self) -> Authorization | None:
        """Who calls, by the access token: subject, name, email, claims (as `authorization`)."""
        return self.authorization

    async def provider_token(self) -> str:
        """Return the access token of the provider at which the caller has logged in.

        It is for calls upstream on behalf of the caller. It is renewed when it is about to expire,
        by one request however many calls wait. Ask for it each time; do not keep it.

        Raises:
            RuntimeError: The server has no `OAuthProxy`, where callers log in at a provider.
            ProviderTokenError: The login has ended, or the provider cannot be reached. It is a
                `ToolError`: in a tool that does not catch it, its text is the answer.

        A task may ask for it as well, after its request, and after a restart of the server. If
        cancelled, a renewal that was begun goes on.
        """
        caller, opened = self.authorization, self._opened
        ways = {} if opened is None else opened.provider_tokens
        provider_token = None if caller is None else ways.get(caller.issuer or "")
        if caller is None or caller.login is None or provider_token is None:
            raise RuntimeError(
                "there is no provider's token: serve with HttpPolicy(auth=...) of an OAuthProxy, "
                "such as github(...)"
            )
        return await provider_token(caller.login)

    @property
    def params(self) -> dict[str, Json]:
        """The parameters of the request as they came; none when there is no request."""
        return {} if self._conversation is None else self._conversation.params

    @property
    def passes_questions(self) -> bool:
        """Whether a result of another server that asks the caller something can be passed on.

        If not, `ask` may still be able to ask it.
        """
        return self._conversation is not None and self._conversation.passes_questions

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that the caller wants; `None` for no messages.

        `log` looks at it. You need it only where it takes long to put a message together.
        """
        return None if self._conversation is None else self._conversation.log_level

    # -- saying ---------------------------------------------------------------------------

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the caller (2026-07-28, "Progress").

        Nothing is sent if the caller did not ask for progress, if the number is not greater than
        the last one, or after the answer. If you report too often, only some reports are sent, but
        always the last one.

        Args:
            progress: How far the work is, in any unit.
            total: How far it will go, if that is known.
            message: A few words for a person.

        Raises:
            ValueError: A number is not finite.

        This is always a checkpoint, so a loop that reports progress can be cancelled.
        """
        if self._conversation is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._conversation.progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Json, *, logger: str | None = None) -> None:
        """Send a log message to the caller, if it wants messages of that level.

        Args:
            level: How severe it is: `debug`, `info`, `notice`, `warning`, `error`, `critical`,
                `alert` or `emergency`.
            data: The message: any JSON.
            logger: The name of the logger that it comes from.

        Raises:
            ValueError: There is no such level.
            TypeError: The data is not JSON.

        If cancelled while the connection is full, the message is dropped.
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

    async def warning(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `warning`. As `log`."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Json, *, logger: str | None = None) -> None:
        """Send a log message of level `error`. As `log`."""
        await self.log("error", data, logger=logger)

    async def notify(self, method: str, params: Mapping[str, Json] | None = None) -> None:
        """Send a notification of an extension to the caller, if it has declared that extension.

        Args:
            method: One that an extension of the registry `sends`.
            params: Its parameters.

        Raises:
            ValueError: No extension of the registry sends that.
            TypeError: The parameters are not JSON.
        """
        if self._conversation is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._conversation.notify(method, dict(params or {}))

    def close_sse_stream(self) -> None:
        """Close the HTTP response of this request, but not the request (2025-11-25, "Polling").

        A client with a session comes back for the rest after a while, so a long job need not keep
        a connection open. On any other transport, and in modern revisions, this does nothing.
        """
        if self._conversation is not None:
            self._conversation.close_sse_stream()

    # -- asking ---------------------------------------------------------------------------

    def supports(self, *capability: str) -> bool:
        """Whether the caller has declared a capability, such as `"elicitation", "url"`.

        It is also `False` if the caller's revision does not have such questions. So if it is
        `True`, a question is never refused because of the revision.
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

    @overload  # `Literal[…]` and unions, which are not classes
    async def elicit(
        self, message: str, kind: object, *, key: str | None = None
    ) -> ElicitResult[Any]: ...

    async def elicit(self, message: str, kind: Any, *, key: str | None = None) -> ElicitResult[Any]:
        """Ask the user to fill in a form (2026-07-28, "Elicitation").

        In a modern revision, the handler is ended with `trio.Cancelled`, and runs again from its
        beginning once the answer is there, so whatever comes before a question runs again.
        Questions that you ask side by side in a nursery travel together. Inside a shielded scope
        and in a worker thread, which cancellation does not reach, another exception ends the run.

        In a legacy revision, the question is a request. The handler's clock stops while it waits
        for the answer, which has a limit of its own (`Limits.question_timeout`). If cancelled, it
        withdraws the question.

        Args:
            message: The question, or the reason for it.
            kind: A flat class (attrs, dataclass, TypedDict) of text, numbers, booleans and
                choices; one of these alone; or a JSON Schema of that kind.
            key: A name for the question, which must be the same each time the handler runs. Without
                one, the question is recognised by its text and its form.

        Returns:
            The answer: accepted with a value, declined, or cancelled.

        Raises:
            McpError: The client cannot be asked (`-32021`, in legacy revisions `-32600`), or its
                answer does not fit (`-32602`).
            SchemaError: The form is not one that the caller's revision allows.
        """
        from trio_mcp.registry import asking  # few handlers ask, and no start waits for those

        return await asking.elicit(self._to_ask(), message, kind, key)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, id: str | None = None
    ) -> ElicitResult[None]:
        """Ask the user to visit a web page, for what must not pass through the client.

        If the answer is accepted, the user has agreed to go there. It does not mean that anything
        was done there: `complete_elicitation` says so.

        Args:
            message: Why the user should go there.
            url: The page.
            key: As for `elicit`.
            id: What `complete_elicitation` will call it; without one, it has an id that only the
                client knows. Revisions other than 2025-11-25 do without.

        Raises:
            McpError: As for `elicit`.
            ValueError: The URL is not one of `https:` or `http:`.
        """
        from trio_mcp.registry import asking

        return await asking.elicit_url(self._to_ask(), message, url, key, id)

    async def complete_elicitation(self, id: str) -> None:
        """Notify the client that what it was asked to do at a page is done (2025-11-25).

        Only 2025-11-25 has such a notification; in other revisions, nothing is sent. It may be
        called after the request has ended, for as long as the client is connected.

        Args:
            id: The id from `elicit_url`, or the `elicitationId` that an error with the code -32042
                has named.
        """
        if self._conversation is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._conversation.complete_elicitation(id)

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
        """Ask the client's model to write something (2026-07-28, "Sampling").

        Args:
            messages: The conversation so far; a string is what the user says.
            max_tokens: The most that the model may write.
            system_prompt: Instructions for the model.
            temperature: How random the model may be.
            stop_sequences: Texts at which the model stops.
            model_preferences: What matters in the choice of a model.
            tools: Tools that the model may ask for.
            tool_choice: Whether it does so: `auto`, `required` or `none`.
            key: As for `elicit`.

        Raises:
            McpError: The client cannot be asked, it refused, or its answer is not MCP.
        """
        from trio_mcp.registry import asking

        return await asking.sample(
            self._to_ask(),
            messages,
            tools,
            tool_choice,
            key,
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else list(stop_sequences),
            model_preferences=model_preferences,
        )

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask the client for the directories and files that it considers relevant.

        Args:
            key: As for `elicit`.

        Raises:
            McpError: The client cannot be asked, or its answer is not MCP.
        """
        from trio_mcp.registry import asking

        return await asking.roots(self._to_ask(), key)

    async def ask(
        self, method: str, params: Mapping[str, Json] | None = None, *, key: str | None = None
    ) -> Json:
        """Send a question as it is, and return the answer as it came.

        This is for questions of others, such as a server behind this one. `elicit`,
        `sample` and `roots` check what they ask and what comes back; this only makes sure that the
        caller has declared that it can be asked. Otherwise it is as `elicit` in either era.

        Args:
            method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
            params: Its parameters.
            key: As for `elicit`.

        Raises:
            McpError: The client cannot be asked that (`-32021`, in legacy revisions `-32600`), or
                it answered with an error, whose code and data these are.
        """
        from trio_mcp.registry import asking

        return await asking.ask(self._to_ask(), method, dict(params or {}), key)

    def _to_ask(self) -> Conversation:
        if self._conversation is None:
            raise McpError(INVALID_REQUEST, "There is no client to ask")
        return self._conversation


def inside(context: Context, provider: object, tool: str) -> Context:
    """Return the context with what a mounted provider's lifespan yielded, and its own name."""
    opened = context._opened
    state = None if opened is None else opened.state_of(provider)
    return evolve(context, tool=tool, lifespan=state)
