"""The client's side of a connection: all that a server offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import trio
from attrs import evolve

from trio_mcp.client.cache import ttl_of
from trio_mcp.client.changes import ChangeStream
from trio_mcp.client.notifications import ProgressCallback
from trio_mcp.client.result import (
    CallResult,
    ReadResult,
    call_result,
    convert_result,
    is_not_found,
    payload,
    plain_result,
    read_result,
    unwrapped,
)
from trio_mcp.client.session import ClientRequest, ClientSession
from trio_mcp.client.state import ClientState, Connected, Connecting
from trio_mcp.client.subscription import subscription
from trio_mcp.client.tools import RemoteTool
from trio_mcp.errors import ClientError, InvalidResult, ProtocolError, ResponseTooLarge
from trio_mcp.loggers import logger_of
from trio_mcp.public import public
from trio_mcp.registry.changes import Kind
from trio_mcp.threads import offload
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import HEADER_MISMATCH, METHOD_NOT_FOUND, McpError, ResourceNotFound
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.messages import ListParams, ListResult
from trio_mcp.wire.offers import (
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionRef,
    GetPromptParams,
    GetPromptResult,
    PromptDescription,
    ResourceParams,
    ResourceTemplateDescription,
)
from trio_mcp.wire.payloads import Implementation, LoggingLevel
from trio_mcp.wire.questions import Root
from trio_mcp.wire.revisions import Era

logger = logger_of("trio_mcp.client")

T = TypeVar("T")

_MOST_PAGES: Final = 1000
_OF_A_PAGE: Final = ("nextCursor", "resultType")


@public
class Client:
    """A connection to a server. Made by `connect`, and usable only within its block."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._tools = session.options.tools
        self._renewing = trio.Lock()

    # -- who is there ---------------------------------------------------------------------

    @property
    def era(self) -> Era:
        """The era of the revision that the client speaks: `modern` or `legacy`."""
        return self._session.negotiated.era

    @property
    def revision(self) -> str:
        """The protocol revision that the client speaks."""
        return self._session.negotiated.revision.name

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is."""
        return self._session.negotiated.server_info

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """What the server offers, as it declared it."""
        return MappingProxyType(self._session.negotiated.capabilities)

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Json]]:
        """The extensions that both sides have, with what the server declares of each."""
        return MappingProxyType(self._session.shared_extensions)

    @property
    def instructions(self) -> str | None:
        """How the server is meant to be used."""
        return self._session.negotiated.instructions

    @property
    def tools(self) -> Mapping[str, RemoteTool]:
        """The server's tools by their names on this side, in the server's order."""
        return MappingProxyType(self._tools.tools)

    # -- the connection -------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        """The state of the connection: `Connecting`, `Connected` or `Disconnected`."""
        return self._session.options.states.current or Connecting()

    @property
    def is_connected(self) -> bool:
        """Whether the connection is there: the handshake is done, and it has not ended."""
        return isinstance(self.state, Connected)

    def states(self) -> AsyncIterator[ClientState]:
        """Iterate over the states, from the present one to `Disconnected`, which is the last.

        `ClientConnection.states` also has the earlier ones.
        """
        return self._session.options.states.listen()

    def messages(self) -> AsyncIterator[bytes]:
        """Iterate over the raw messages of the server, from now on.

        A slow listener misses the oldest ones: a thousand are kept, and together they are no
        longer than one message may be. `ClientConnection.messages` also has the earlier ones.
        """
        return self._session.inbound.lines.listen()

    @property
    def stray_output(self) -> Sequence[bytes]:
        """Lines from the server that are not messages.

        These are the first hundred, and of each the first KiB.
        """
        return self._session.inbound.lines.stray

    def stderr(self) -> str:
        """Return the end of what the server wrote to stderr, as far as it is known."""
        return self._session.stderr()

    # -- requests -------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: dict[str, Json] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> dict[str, Json]:
        """Send any request and return its result, answering what the server asks meanwhile.

        Args:
            method: The method.
            params: Its parameters; `_meta` is completed as the revision wants it.
            timeout: Seconds to wait, in place of the connection's default; no progress puts that
                off.
            on_progress: Called with the progress so far, the total if it is known, and a message
                if there is one.

        Raises:
            McpError: The server answered with an error.
            CallTimeout: It did not answer in time. The request was cancelled.
            ProtocolError: Its answer is not MCP.
            NotConnected: The connection ended (a subclass tells how).
            Exception: Whatever your handler raises when a modern server asks it something.

        If cancelled, it tells the server to stop, and ignores a late answer.
        """
        request = ClientRequest(
            method=method, params=params or {}, timeout=timeout, on_progress=on_progress
        )
        return await self._session.send(request)

    async def answer(self, questions: Mapping[str, Json]) -> dict[str, Json]:
        """Answer a server's questions by the handlers that were given to `connect`.

        This is for extensions; what a server asks during a request is answered anyway. They are
        asked side by side.

        Args:
            questions: By key, each with its `method` and `params`, as in `inputRequests`.

        Returns:
            By key, the results for the server, as in `inputResponses`.

        Raises:
            McpError: There is no handler for one of them.
            CallTimeout: `Limits.question_timeout` has passed.
            ProtocolError: One of them is not a question.
            Exception: Whatever a handler raises.
        """
        return await self._session.answer(ClientRequest(method="a question"), questions)

    async def notify(self, method: str, params: dict[str, Json] | None = None) -> None:
        """Send a notification, which has no answer.

        Args:
            method: The method, such as `notifications/roots/list_changed`.
            params: Its parameters; `_meta` is completed as the revision wants it.

        Raises:
            NotConnected: The connection has ended.
            TypeError: The parameters are not JSON.

        It waits while the connection is full, and over HTTP until the server has taken it; a
        notification that the server refuses is a warning in the log. Cancelled, it may or may not
        have been sent.
        """
        await self._session.notify(method, params or {})

    async def set_roots(self, roots: Sequence[str | Root]) -> None:
        """Change the roots that the server may see, and tell a legacy server so.

        Modern servers ask for the roots whenever they need them.

        Args:
            roots: The roots, as for `Handlers`, with which some have to have been declared.

        Raises:
            ValueError: None have been declared: connect with `Handlers(roots=[])`.
            TypeError: They are no list of roots.
            NotConnected: The connection has ended.
        """
        await self._session.set_roots(roots)

    async def list_all(
        self,
        method: str,
        key: str,
        *,
        params: Mapping[str, Json] | None = None,
        fresh: bool = False,
    ) -> list[Json]:
        """Ask for all pages of a list, and return its items as the server sent them.

        Pages that the server allows to be kept are asked for again when their time is over, or when
        the server has told of a change.

        Args:
            method: The method, such as `tools/list`.
            key: Where the items are in its result, such as `tools`.
            params: What each request has besides the cursor.
            fresh: Whether to ask the server even for what may be kept.

        Raises:
            ResponseTooLarge: All pages together are longer than a message may be.
            ClientError: As for `request`.
        """
        items, _ = await self._list_pages(method, key, params, fresh)
        return items

    async def _list_pages(
        self, method: str, key: str, params: Mapping[str, Json] | None, fresh: bool
    ) -> tuple[list[Json], dict[str, Json]]:
        """Return the items of all pages of a list, and what the pages have besides."""
        items: list[Json] = []
        members: list[dict[str, Json]] = []
        limit = room = self._session.limits.max_message_bytes
        cursor = None
        for _ in range(_MOST_PAGES):
            asked = {**(params or {}), **to_wire(ListParams(cursor))}
            page = await self._kept_or_asked(method, asked, fresh=fresh)
            found = page.get(key)
            if not isinstance(found, list):
                raise ProtocolError(f"{method}: the result has no {key}")
            room -= len(encode(found, is_encodable=True))
            if room < 0:
                raise ResponseTooLarge(f"{method}: all pages together have more than {limit} bytes")
            items += found
            members.append({name: page[name] for name in page if name not in (key, *_OF_A_PAGE)})
            following = payload(ListResult, method, page).next_cursor
            if following is None:
                return items, _joined(members)
            if following == cursor:
                break
            cursor = following
        raise ProtocolError(f"{method}: the list has no end")

    async def _payloads(self, method: str, key: str, kind: type[T], fresh: bool) -> list[T]:
        try:
            listed = await self.list_all(method, key, fresh=fresh)
        except McpError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            return []  # who has no such list has nothing in it
        return await offload(lambda items: [payload(kind, method, item) for item in items], listed)

    async def _kept_or_asked(
        self, method: str, params: dict[str, Json], *, fresh: bool, **options: Any
    ) -> dict[str, Json]:
        """Return a result that the server allows to be kept, or ask for it."""
        cache = self._session.notifications.cache
        found = None if fresh else cache.find(method, params)
        if found is not None:
            await trio.lowlevel.checkpoint()
            return found
        changes = cache.changes
        result = await self.request(method, params, **options)
        cache.put(method, params, result, changes)
        return result

    async def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server answers, with `ping`, or `server/discover` if it is a modern one.

        Raises:
            ClientError: As for `request`.
        """
        method = "ping" if self.era == "legacy" else "server/discover"
        await self.request(method, timeout=timeout)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Ask for log messages of this level and above. They go to the `on_log` of `connect`.

        A legacy server gets it at once, a modern one with each request from now on.

        Raises:
            ValueError: There is no such level.
            ClientError: As for `request`.
        """
        await self._session.set_log_level(level)

    # -- tools ----------------------------------------------------------------------------

    async def refresh_tools(self, *, fresh: bool = True) -> None:
        """Ask for the tools again. Tools that are still there keep their `timeout` and `enabled`.

        Args:
            fresh: Whether to ask the server even if it allows the list to be kept for longer.

        A tool that cannot be called, for example because it has no schema, is left out with a
        warning.

        Raises:
            ClientError: As for `request`.
        """
        tools, since, changes = self._tools, self._session.now(), self._tools.changes
        listed, members = await self._list_pages("tools/list", "tools", None, fresh)
        await self._session.take_tools(listed)
        ttl = ttl_of(members) / 1000
        lasts = ttl if tools.changes == changes else 0.0
        tools.fresh_until = since + lasts if ttl else inf

    async def _renew_tools(self) -> None:
        """Ask for the tools again, now that their time is over. If that fails, they still do."""
        async with self._renewing:
            if self._session.now() >= self._tools.fresh_until:
                try:
                    await self.refresh_tools(fresh=False)
                except (McpError, ClientError) as error:
                    logger.warning("The server's tools are out of date: %s", error)

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> CallResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> T: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        returns: Any = None,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Any:
        """Call a tool and wait for its result.

        Args:
            name: The tool's name, as in `tools`.
            arguments: Its arguments, as JSON; checked against the tool's schema before they are
                sent.
            returns: A type to convert the result into.
            timeout: Seconds to wait, in place of `RemoteTool.timeout`. Progress does not extend it.
            on_progress: Called with the call's progress. With or without it, each progress
                restarts the wait of a call without `timeout`, up to the `max_timeout` of `connect`.
            meta: What to put into the request's `_meta`, where the server's handlers find it
                (`Context.meta`).

        Returns:
            A `CallResult`; with `returns`, a value of that type.

        Raises:
            UnknownTool: The server has no such tool.
            ToolDisabled: The tool is disabled on this side.
            InvalidArguments: The arguments do not fit the tool's schema.
            CallTimeout: The server did not answer in time. The call was cancelled.
            McpError: The server answered with an error.
            ToolFailed: With `returns` only: the tool failed.
            InvalidResult: The structured content does not fit the tool's output schema.
            ProtocolError: The result is not MCP, or does not fit `returns`.
            NotConnected: The connection ended (a subclass tells how).

        If cancelled, it tells the server to stop, and ignores a late answer. If a server over HTTP
        misses headers, the client asks for the tools again, and repeats the call once.

        Example:
            >>> async def total(client: Client) -> float:
            ...     return await client.call_tool("add", {"a": 1, "b": 2}, returns=float)
        """
        if self._session.now() >= self._tools.fresh_until:
            await self._renew_tools()
        tool = self._tools.tool_for(name)
        given = dict(arguments or {})
        if not tool.fits_at_sight(given):
            given = await self._tools.checked(tool, given)
        params: dict[str, Json] = {"name": tool.mcp_name, "arguments": given}
        if meta is not None:
            params["_meta"] = dict(meta)
        seconds = tool.timeout if timeout is None else timeout
        request = ClientRequest(
            method="tools/call",
            params=params,
            timeout=seconds,
            is_exact=timeout is not None,
            on_progress=on_progress,
        )
        session, started, wire = self._session, self._session.now(), None
        sent = session.start(request)
        if sent is not None and (wire := await session.plain_result(sent)) is not None:
            result = plain_result(wire, session.now() - started)
            if result is not None and returns is None and tool.fits_result_at_sight(wire):
                return result
        sending = session.send(request) if sent is None else session.finish(request, sent, wire)
        return await self._called(tool, request, sending, started, returns)

    def _plain_call(
        self, name: str, arguments: Mapping[str, Json] | None
    ) -> tuple[RemoteTool, ClientRequest] | None:
        """Return a call that can be sent as it is; `None` if something has to be done first."""
        tool, given = self._tools.tools.get(name), dict(arguments or {})
        if tool is None or not tool.enabled or self._session.now() >= self._tools.fresh_until:
            return None
        if not tool.fits_at_sight(given):
            return None
        params: dict[str, Json] = {"name": tool.mcp_name, "arguments": given}
        return tool, ClientRequest(
            method="tools/call", params=params, timeout=tool.timeout, is_exact=False
        )

    async def _called(
        self,
        tool: RemoteTool,
        request: ClientRequest,
        sending: Awaitable[dict[str, Json]],
        started: float,
        returns: Any = None,
    ) -> Any:
        """Make what a call returns of its result, once that is there."""
        name = tool.name
        try:
            wire = await sending
        except McpError as error:
            if error.code != HEADER_MISMATCH:
                raise
            await self.refresh_tools()  # another schema wants other headers
            tool = self._tools.tools.get(name, tool)
            left = max((request.timeout or 0.0) - (self._session.now() - started), 0.0)
            wire = await self._session.send(evolve(request, timeout=left))
        try:
            duration = self._session.now() - started
            result = plain_result(wire, duration)
            if result is None:
                result = await offload(call_result, wire, duration)
        except ValueError as error:
            raise ProtocolError(f"the result of tool {name!r} is not MCP: {error}") from None
        if tool.output_schema is not None:
            problem = await tool.check_result(wire)
            if problem is not None:
                raise InvalidResult(f"tool {name!r}: {problem}")
        if returns is None:
            return result
        if tool.wraps_results:
            result = unwrapped(result)
        return await convert_result(result, returns)

    # -- resources ------------------------------------------------------------------------

    async def list_resources(self, *, fresh: bool = False) -> list[ResourceDescription]:
        """Ask for the server's resources; none if it has no such list.

        Args:
            fresh: Whether to ask the server even if it allows the list to be kept for longer.

        Raises:
            ClientError: As for `request`.
        """
        return await self._payloads("resources/list", "resources", ResourceDescription, fresh)

    async def list_resource_templates(
        self, *, fresh: bool = False
    ) -> list[ResourceTemplateDescription]:
        """Ask for the server's resource templates; none if it has no such list.

        Args:
            fresh: Whether to ask the server even if it allows the list to be kept for longer.

        Raises:
            ClientError: As for `request`.
        """
        method = "resources/templates/list"
        return await self._payloads(method, "resourceTemplates", ResourceTemplateDescription, fresh)

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        fresh: bool = False,
    ) -> ReadResult:
        """Read a resource.

        Args:
            uri: Its URI.
            timeout: Seconds to wait, in place of the connection's default.
            on_progress: Called with its progress, as in `request`.
            fresh: Whether to ask the server even if it allows the contents to be kept for longer.

        Raises:
            ResourceNotFound: There is nothing at that URI.
            ClientError: As for `request`.

        If cancelled, it tells the server to stop, and ignores a late answer.
        """
        method, params = "resources/read", to_wire(ResourceParams(uri))
        try:
            wire = await self._kept_or_asked(
                method, params, fresh=fresh, timeout=timeout, on_progress=on_progress
            )
        except McpError as error:
            if is_not_found(error, uri):
                raise ResourceNotFound(uri) from error
            raise
        return await offload(read_result, wire)

    # -- prompts --------------------------------------------------------------------------

    async def list_prompts(self, *, fresh: bool = False) -> list[PromptDescription]:
        """Ask for the server's prompts; none if it has no such list.

        Args:
            fresh: Whether to ask the server even if it allows the list to be kept for longer.

        Raises:
            ClientError: As for `request`.
        """
        return await self._payloads("prompts/list", "prompts", PromptDescription, fresh)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> GetPromptResult:
        """Get a prompt, filled in with arguments.

        Args:
            name: Its name.
            arguments: Its arguments, which are always text.
            timeout: Seconds to wait, in place of the connection's default.
            on_progress: Called with its progress, as in `request`.

        Raises:
            McpError: There is no such prompt, or the arguments do not fit.
            ClientError: As for `request`.

        If cancelled, it tells the server to stop, and ignores a late answer.
        """
        method, params = "prompts/get", to_wire(GetPromptParams(name, dict(arguments or {})))
        wire = await self.request(method, params, timeout=timeout, on_progress=on_progress)
        return await offload(partial(payload, GetPromptResult, method), wire)

    # -- completion -----------------------------------------------------------------------

    async def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        chosen: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Completion:
        """Ask for suggestions for the value of an argument.

        Args:
            argument: The argument of the prompt, or the variable of the template.
            value: What has been typed so far.
            prompt: The prompt's name; or
            resource: the URI template.
            chosen: Other arguments that have been chosen already.
            timeout: Seconds to wait, in place of the connection's default.

        Raises:
            TypeError: You named neither a prompt nor a template, or both.
            ClientError: As for `request`.
        """
        if (prompt is None) == (resource is None):
            raise TypeError("complete() needs either prompt=... or resource=...")
        params = CompleteParams(
            CompletionRef("ref/prompt" if resource is None else "ref/resource", prompt, resource),
            CompletionArgument(argument, value),
            {"arguments": dict(chosen)} if chosen else None,
        )
        method = "completion/complete"
        wire = await self.request(method, to_wire(params), timeout=timeout)
        result = await offload(partial(payload, CompleteResult, method), wire)
        return result.completion

    # -- changes --------------------------------------------------------------------------

    def subscribe(
        self,
        *,
        resources: Sequence[str] = (),
        lists: Sequence[Kind] = (),
        extensions: Mapping[str, Sequence[str] | bool] | None = None,
    ) -> AbstractAsyncContextManager[ChangeStream]:
        """Subscribe to changes for as long as the block lasts.

        Args:
            resources: URIs of resources.
            lists: Which lists: `tools`, `resources`, `prompts`.
            extensions: What extensions are to tell of, by the keys that they have for it. Their
                notifications go to the extensions. Only modern servers are asked.

        Returns:
            A context manager that yields an asynchronous iterator of `ResourceUpdated` and
            `ListChanged`. Its `uris`, `kinds` and `extensions` say what the server has agreed to;
            it may tell of less than was wanted, or of nothing.

        Raises:
            ValueError: There is no such list, or no extension has one of the keys.
            McpError: The server refused.
            ClientError: As for `request`; also while you iterate, if the connection ends.

        When the block is left or cancelled, so is the subscription.

        Example:
            >>> async def follow(client: Client) -> None:
            ...     async with client.subscribe(resources=["config://app"]) as changes:
            ...         async for change in changes:
            ...             print(change)
        """
        return subscription(self._session, lists, resources, extensions or {})


def _joined(pages: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Join what the pages of a list have besides items: it is fresh for as long as all of them."""
    whole: dict[str, Json] = {}
    for page in reversed(pages):
        whole |= page
    if any("ttlMs" in page for page in pages):
        whole["ttlMs"] = min(ttl_of(page) for page in pages)
    if any(page.get("cacheScope") == "private" for page in pages):
        whole["cacheScope"] = "private"
    return whole


async def list_pages(
    client: Client, method: str, key: str, params: Mapping[str, Json] | None = None
) -> tuple[list[Json], dict[str, Json]]:
    """Do what `Client.list_all` does, and return also what the list has besides its items."""
    return await client._list_pages(method, key, params, fresh=True)


def session_of(client: Client) -> ClientSession:
    """Return the session below a client. It is not public."""
    return client._session
