"""The service behind a document: requests to it, and its answers as results.

There are bounds for all that a service can do: the time until its answer is there, the bytes of it,
how often a request is sent again. No request, and no credential, goes to another host.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

import httpx2
import trio
from attrs import define, field

from trio_mcp.background import of_this_run
from trio_mcp.compose.openapi.document import members
from trio_mcp.compose.openapi.operations import REPEATABLE
from trio_mcp.compose.openapi.pages import Pages, changed
from trio_mcp.compose.openapi.parameters import Pair
from trio_mcp.compose.openapi.requests import Plan, ReadFile, build, origin_of
from trio_mcp.compose.openapi.responses import NOTHING, Answer, contents_of, read, refusal_of
from trio_mcp.errors import AuthorizationError, McpError, ResourceNotFound, ToolError
from trio_mcp.registry.content_results import ConvertedResult
from trio_mcp.system.certificates import trusted
from trio_mcp.system.responses import SHOWN, shown_urls
from trio_mcp.telemetry import current_trace
from trio_mcp.threads import in_thread, offload
from trio_mcp.wire.content import CallToolResult, ResourceLink, TextContent
from trio_mcp.wire.errors import INTERNAL_ERROR
from trio_mcp.wire.jsonrpc import Json

T = TypeVar("T")

MakeClient = Callable[[], httpx2.AsyncClient]

_MOST_TRIES: Final = 3
_MOST_REDIRECTS: Final = 5
_LONGEST_WAIT: Final = 10.0
"""Seconds that a call waits at most when a service says that it has to."""
_BUSY: Final = (429, 503)
_REDIRECTS: Final = (301, 302, 303, 307, 308)


@define(eq=False)
class _Opened:
    """The client of a Trio run, which the first connection opens and the last one closes."""

    turn: trio.Lock = field(factory=trio.Lock, init=False)
    users: int = field(default=0, init=False)
    client: httpx2.AsyncClient | None = field(default=None, init=False)
    closing: AsyncExitStack = field(factory=AsyncExitStack, init=False)


@define(eq=False)
class Service:
    """Sends requests for tools and resources."""

    _given: httpx2.AsyncClient | MakeClient
    """A client that its owner opens and closes, or what makes one while a registry is open."""
    _timeout: float
    _most_bytes: int
    _pages: Pages
    _read_file: ReadFile | None
    # Each connection opens the service, and each thread may have a Trio run of its own.
    _opened: trio.lowlevel.RunVar[_Opened] = field(
        factory=partial(trio.lowlevel.RunVar, "openapi"), init=False
    )

    @asynccontextmanager
    async def opened(self, _: Any) -> AsyncIterator[None]:
        """Keep a client open during the block: the lifespan of a registry."""
        opened = of_this_run(self._opened, _Opened)
        async with opened.turn:
            if opened.client is None:
                opened.client = await self._open(opened.closing)
            opened.users += 1
        try:
            yield
        finally:
            opened.users -= 1
            if not opened.users:
                opened.client = None
                await opened.closing.pop_all().aclose()

    async def _open(self, closing: AsyncExitStack) -> httpx2.AsyncClient:
        closing.enter_context(shown_urls())
        if isinstance(self._given, httpx2.AsyncClient):
            return self._given
        return await closing.enter_async_context(self._given())

    async def call(self, plan: Plan, /, **arguments: Json) -> CallToolResult:
        answer, more = await self._answer(plan, arguments)
        if 300 <= answer.code < 400:
            return _redirection(plan, answer)
        if not 200 <= answer.code < 300:
            raise ToolError(_refusal(plan, answer))
        content, value = await _read(answer, contents_of)
        if more:
            content = [*content, TextContent(_more(plan, more))]
        problem = await _problem(plan, value)
        if problem is not None:
            why = f"{plan.operation.label}: the answer is not what the document says: {problem}"
            return CallToolResult([TextContent(why), *content], is_error=True)
        is_shown = plan.check is not None or isinstance(value, dict | list)
        structured = value if value is not NOTHING and is_shown else None
        result = CallToolResult(content, structured_content=structured)
        if plan.check is not None:
            return result
        # It is JSON, so it need not be walked through again.
        return ConvertedResult(result)  # type: ignore[return-value]

    async def read(self, plan: Plan, uri: str, arguments: dict[str, Json]) -> str | bytes:
        """Read a resource, or raise `ResourceNotFound`, or `McpError` if the service refuses."""
        try:
            answer, _ = await self._answer(plan, arguments)
        except ToolError as error:
            raise McpError(INTERNAL_ERROR, str(error)) from None
        if answer.code in (404, 410):
            raise ResourceNotFound(uri)
        if not 200 <= answer.code < 300:
            raise McpError(INTERNAL_ERROR, _refusal(plan, answer))
        content, _ = await _read(answer, contents_of)
        return content[0].text if isinstance(content[0], TextContent) else answer.body

    # -- requests ------------------------------------------------------------------------------

    async def _answer(self, plan: Plan, arguments: Mapping[str, Json]) -> tuple[Answer, list[Pair]]:
        """Return an answer with the pages that follow it, and the parameters of the next page."""
        try:
            with trio.fail_after(self._timeout):
                return await self._paged(plan, arguments)
        except trio.TooSlowError:
            why = f"{plan.operation.label}: no answer within {self._timeout:g} s"
            raise ToolError(why) from None
        except AuthorizationError as error:
            raise ToolError(f"{plan.operation.label}: logging in failed: {error}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # The texts of these may have the URL in them, and that a key.
            why = f"{plan.operation.label}: the service cannot be reached ({type(error).__name__})"
            raise ToolError(why) from None

    async def _paged(self, plan: Plan, arguments: Mapping[str, Json]) -> tuple[Answer, list[Pair]]:
        pages: list[Answer] = []
        room, query = self._most_bytes, b""
        after: Mapping[str, str] = {}
        while True:
            request = await build(self._opened_client, plan, arguments, after, self._read_file)
            answer = await self._exchange(plan, request)
            room -= len(answer.body)
            query = query if pages else request.url.query
            if pages and (room < 0 or answer.code != 200):
                break  # the pages so far are better than nothing; `after` leads on
            pages.append(answer)
            following = await _read(answer, self._pages.after)
            before, after = after, following or {}
            if after == before or request.method != "GET":
                after = {}
            if not after or len(pages) == self._pages.limit:
                break
            if await _read(answer, self._pages.items_of) is None:
                break
        whole = pages[0]
        if len(pages) > 1:
            whole = await in_thread(self._pages.joined, pages)
        return whole, list(changed(after, query.decode()))

    @property
    def _opened_client(self) -> httpx2.AsyncClient:
        client = of_this_run(self._opened, _Opened).client
        if client is None:
            raise RuntimeError("the registry is not open: serve it, or use Registry.running()")
        return client

    async def _exchange(self, plan: Plan, request: httpx2.Request) -> Answer:
        """Send a request, again if the service is busy, and follow redirects within the host."""
        tries, redirects = 1, 0
        while True:
            answer = await self._send(plan, request)
            if answer.code in _BUSY and tries < _MOST_TRIES and request.method in REPEATABLE:
                wait = _wait(answer.headers.get("retry-after", ""))
                room = trio.current_effective_deadline() - trio.current_time()
                if wait is not None and wait < room:
                    tries += 1
                    await trio.sleep(wait)
                    continue
            target = _target(request, answer) if redirects < _MOST_REDIRECTS else None
            if target is None:
                return answer
            redirects += 1
            request = self._opened_client.build_request(
                request.method, target, headers=request.headers
            )
            request.url = target  # without the client's own parameters, which it may have

    async def _send(self, plan: Plan, request: httpx2.Request) -> Answer:
        auth: Any = plan.shown.auth
        options = {} if auth is None else {"auth": auth}
        trace = current_trace().get("traceparent")  # and no baggage, which is the caller's
        if trace is not None:
            request.headers.setdefault("traceparent", trace)
        shown = SHOWN.set(_without_path)
        try:
            response = await self._opened_client.send(
                request, stream=True, follow_redirects=False, **options
            )
        finally:
            SHOWN.reset(shown)
        return await read(response, self._most_bytes)


def _without_path(url: httpx2.URL) -> str:
    """Keep arguments and credentials out of what httpx2 logs of our requests."""
    return f"{url.scheme}://{url.netloc.decode()}/…"


def _target(request: httpx2.Request, answer: Answer) -> httpx2.URL | None:
    """Return where a redirect leads if it may be followed: no other host may see credentials."""
    if answer.code not in _REDIRECTS or request.method not in ("GET", "HEAD"):
        return None
    try:
        target = httpx2.URL(urljoin(str(request.url), answer.headers.get("location", "")))
    except (httpx2.InvalidURL, ValueError):
        return None
    return target if origin_of(target) == origin_of(request.url) else None


def _refusal(plan: Plan, answer: Answer) -> str:
    return plan.shown.hide(refusal_of(answer, plan.operation.label))


def _redirection(plan: Plan, answer: Answer) -> CallToolResult:
    """What an operation that redirects elsewhere returns: a link, if it is meant to."""
    location = plan.shown.hide(answer.headers.get("location", ""))[:2000]
    known = {code.upper() for code, _ in members(plan.operation.details.get("responses"))}
    if answer.code == 304 or not location or not known & {str(answer.code), "3XX"}:
        where = f" to {location}, which is not followed" if location else ""
        raise ToolError(f"{plan.operation.label}: {answer.status}{where}")
    link = urljoin(str(answer.url), location)
    return CallToolResult([ResourceLink(link, plan.operation.label)])


def _wait(after: str) -> float | None:
    """Return the seconds that a service asks to wait; `None` if it does not say, or too many."""
    try:
        seconds = float(after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(after).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) and seconds <= _LONGEST_WAIT else None


async def _read(answer: Answer, work: Callable[[Answer], T]) -> T:
    """Parse an answer, in a thread if it is large."""
    return await offload(lambda _: work(answer), answer.body)


async def _problem(plan: Plan, value: Json) -> str | None:
    """Return what is wrong with an answer that is to be checked."""
    if plan.check is None:
        return None
    if value is NOTHING:
        return "it is not JSON."
    return await offload(plan.check, value)


def _more(plan: Plan, pairs: list[Pair]) -> str:
    """Say how to get the next page, in the names of the arguments."""
    names = {
        location.name: name
        for name, location in plan.arguments.locations.items()
        if location.where == "query"
    }
    known = [f"{names[name]}={value}" for name, value in pairs if name in names]
    return "There are more results" + (f": call again with {', '.join(known)}." if known else ".")


def make_client(
    headers: Mapping[str, str], transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    """Make a client that keeps no cookies: its calls may be those of different people."""
    nothing = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    way: dict[str, Any] = {"verify": trusted()} if transport is None else {"transport": transport}
    return httpx2.AsyncClient(headers=dict(headers), cookies=nothing, timeout=None, **way)
