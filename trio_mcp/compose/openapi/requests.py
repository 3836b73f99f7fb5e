"""Requests to a service: an operation and arguments, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
from attrs import frozen

from trio_mcp.compose.openapi.bodies import ReadFile, body_of
from trio_mcp.compose.openapi.operations import Arguments, Location, Operation
from trio_mcp.compose.openapi.parameters import (
    Pair,
    checked_line,
    cookies_of,
    header_of,
    joined,
    path_of,
    query_of,
    text_of,
)
from trio_mcp.compose.openapi.security import Shown
from trio_mcp.errors import ToolError
from trio_mcp.schema import Validator
from trio_mcp.wire.jsonrpc import Json


@frozen(eq=False)
class Plan:
    """How an operation is called: what is known before there are arguments."""

    operation: Operation
    arguments: Arguments
    base_url: str
    shown: Shown
    accept: str
    check: Validator | None = None
    """Says what is wrong with the JSON of an answer, if that is to be checked."""


async def build(
    client: httpx2.AsyncClient,
    plan: Plan,
    arguments: Mapping[str, Json],
    after: Mapping[str, str],
    read_file: ReadFile | None,
) -> httpx2.Request:
    """Build a request, or raise `ToolError` if an argument cannot be sent."""
    locations, body, label = plan.arguments.locations, plan.arguments.body, plan.operation.label
    sent = [
        (locations[each], value)
        for each, value in arguments.items()
        if each in locations and value is not None
    ]
    in_path = {
        location.name: (location, value) for location, value in sent if location.where == "path"
    }
    # Some documents tell operations at the same path apart by a query or a fragment.
    path, _, own = plan.operation.path.partition("#")[0].partition("?")
    query = "&".join(part for part in (own, _query(plan, sent, after)) if part)
    rest = path_of(path, in_path) + (f"?{query}" if query else "")
    url = _checked_url(plan.base_url, rest)
    content: dict[str, Any] = {}
    if body is not None:
        content = await body_of(body, arguments, read_file)
    headers = {**_headers(plan, sent), **content.pop("headers", {}), **plan.shown.headers}
    try:
        return client.build_request(plan.operation.method, url, headers=headers, **content)
    except (TypeError, ValueError):  # a name in the document that no header can have
        raise ToolError(f"{label} cannot be sent with these arguments") from None


def _headers(plan: Plan, sent: list[tuple[Location, Json]]) -> dict[str, str]:
    headers = {"Accept": plan.accept, "Accept-Encoding": "gzip"}
    cookies = list(plan.shown.cookies)
    for location, value in sent:
        if location.where == "header":
            headers[location.name] = header_of(location, value)
        elif location.where == "cookie":
            cookies += cookies_of(location, value)
    if cookies:
        pairs = (f"{name}={checked_line(name, value)}" for name, value in cookies)
        headers["Cookie"] = "; ".join(pairs)
    return headers


def _query(plan: Plan, sent: list[tuple[Location, Json]], after: Mapping[str, str]) -> str:
    pairs: list[Pair] = []
    for location, value in sent:
        if location.where == "query" and location.name not in after:
            pairs += query_of(location.name, location.style, value)
    keys = {name for name, _ in plan.shown.query}
    paging = ((quote(name, safe=""), quote(value, safe="")) for name, value in after.items())
    pairs += [(name, value) for name, value in paging if name not in keys]
    whole = [text for location, value in sent for text in _whole_query(location, value)]
    return "&".join(part for part in (joined([*pairs, *plan.shown.query]), *whole) if part)


def _whole_query(location: Location, value: Json) -> Iterator[str]:
    """Yield a query that is one argument (OpenAPI 3.2)."""
    if location.where == "querystring" and location.style.name == "json":
        yield quote(text_of(value), safe="")
    elif location.where == "querystring":
        yield joined(query_of(location.name, location.style, value))


def _checked_url(base_url: str, rest: str) -> httpx2.URL:
    """Join a URL, and refuse one that leads away from its base."""
    try:
        base, url = httpx2.URL(base_url), httpx2.URL(base_url + rest)
    except httpx2.InvalidURL:
        raise ToolError("The arguments make no URL; they may be too long for one") from None
    if origin_of(url) != origin_of(base) or not url.path.startswith(base.path.rstrip("/") + "/"):
        raise ToolError("The arguments would lead the request to another place")
    return url


def origin_of(url: httpx2.URL) -> tuple[str, str, int | None, bytes]:
    """Return what must stay the same on the way: scheme, host, port, and the user in the URL."""
    return url.scheme, url.host, url.port, url.userinfo
