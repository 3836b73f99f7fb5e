"""Requests to a service: an operation and arguments, put together; and their bodies."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_to_bytes

import httpx2
from attrs import frozen

from trio_mcp.compose.openapi.arguments import (
    AS_JSON,
    Arguments,
    Body,
    Location,
    kind_of,
    style_of,
)
from trio_mcp.compose.openapi.leftout import Reachable
from trio_mcp.compose.openapi.names import folded
from trio_mcp.compose.openapi.operations import Operation
from trio_mcp.compose.openapi.parameters import (
    Pair,
    cookies_of,
    header_of,
    joined,
    json_of,
    path_of,
    query_of,
    text_of,
)
from trio_mcp.compose.openapi.security import Shown
from trio_mcp.errors import ToolError
from trio_mcp.schema import Validator
from trio_mcp.threads import offload
from trio_mcp.wire.jsonrpc import Json

ReadFile = Callable[[str], Awaitable[bytes]]
"""Reads the bytes at a URI that was given for a file."""

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DATA: Final = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]*?)*?(?P<coded>;base64)?,", re.IGNORECASE)
_STYLED: Final = frozenset({"style", "explode", "allowReserved"})
_PLAIN: Final = re.compile(r"[\w.+-]+/[\w.+-]+(;[\x20-\x7e]*)?")
_OCTETS: Final = "application/octet-stream"
_LONGEST_PREFIX: Final = 500
_MOST_PARTS: Final = 1000
"""Of a multipart body. Most frameworks take no more."""


@frozen
class File:
    """A file that was given as an argument."""

    data: bytes
    media_type: str | None = None


async def body_of(
    body: Body, arguments: Mapping[str, Json], read_file: ReadFile | None
) -> dict[str, Any]:
    """Return the body as keywords for `httpx2.AsyncClient.build_request`; none without a body."""
    if body.argument is not None:
        if body.argument not in arguments:
            return {}
        value = arguments[body.argument]
    else:
        members = body.fields.items()
        value = {name: arguments[each] for each, name in members if each in arguments}
        if not value and not body.required:
            return {}
    kind = kind_of(body.media_type)
    if kind == "binary":
        file = await _file(body.argument or "body", value, read_file)
        media_type = body.media_type if "*" not in body.media_type else file.media_type
        return _content(file.data, media_type or _OCTETS)
    if kind == "multipart":
        parts = value if isinstance(value, dict) else {"body": value}
        if sum(len(part) if isinstance(part, list) else 1 for part in parts.values()) > _MOST_PARTS:
            raise ToolError(f"A body may have at most {_MOST_PARTS} parts")
        return {"files": [part async for part in _parts(body, parts, read_file)]}
    return await offload(_encoded, value, body, kind)


def _encoded(value: Json, body: Body, kind: str) -> dict[str, Any]:
    if kind == "form":
        pairs = list(_form(body, value)) if isinstance(value, dict) else []
        return _content(joined(pairs).encode(), "application/x-www-form-urlencoded")
    if kind == "text":
        return _content(text_of(value).encode(), body.media_type)
    media_type = "application/json" if "*" in body.media_type else body.media_type
    return _content(json_of(value), media_type)


def _content(data: bytes, media_type: str) -> dict[str, Any]:
    return {"content": data, "headers": {"Content-Type": media_type}}


def _form(body: Body, value: Mapping[str, Json]) -> Iterator[Pair]:
    for name, each in value.items():
        said = _said(body, name)
        style = style_of(said, "query") if _STYLED & said.keys() else AS_JSON
        location = Location(body.names.checked(name, name), "body", style, body.names)
        is_several = style is AS_JSON and isinstance(each, list) and "contentType" not in said
        for one in each if is_several else [each]:
            yield from query_of(location, one)


async def _parts(body: Body, value: Mapping[str, Json], read_file: ReadFile | None) -> Any:
    """Yield the parts of a multipart body, with their names, file names, contents and types."""
    for name, each in value.items():
        body.names.checked(name, name)
        said = _said(body, name).get("contentType")
        media_type = said if isinstance(said, str) and _PLAIN.fullmatch(said) else None
        for one in each if isinstance(each, list) else [each]:
            if name in body.files:
                file = await _file(name, one, read_file)
                yield name, (name, file.data, file.media_type or media_type or _OCTETS)
            else:
                usual = "application/json" if isinstance(one, dict | list) else None
                yield name, (None, text_of(one).encode(), media_type or usual)


def _said(body: Body, name: str) -> Mapping[str, Json]:
    said = body.encoding.get(name)
    return said if isinstance(said, Mapping) else {}


async def _file(name: str, value: Json, read_file: ReadFile | None) -> File:
    """Read the file that an argument means."""
    text = value if isinstance(value, str) else ""
    data = _DATA.match(text, 0, _LONGEST_PREFIX)
    try:
        if data is not None:
            content = unquote_to_bytes(text[data.end() :])
            coded = base64.b64decode(content, validate=True) if data["coded"] else content
            given = data["type"] if _PLAIN.fullmatch(data["type"]) else None
            return File(coded, given)
        if _URI.match(text):
            if read_file is None:
                raise ToolError(f"{name} must be base64 or a data: URI; other URIs are not read")
            return File(await read_file(text))
        return File(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise ToolError(f"{name} is a file: give its bytes in base64, or a data: URI") from None


Sent = list[tuple[Location, Json]]
"""The parameters of a request, and their values."""


@frozen(eq=False)
class Plan:
    """How an operation is called: what is known before there are arguments."""

    operation: Operation
    arguments: Arguments
    base_url: str
    shown: Shown
    accept: str
    reachable: Reachable
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
    body = plan.arguments.body
    content = {} if body is None else await body_of(body, arguments, read_file)
    return await offload(_built, arguments, client, plan, after, content)


def _built(
    arguments: Mapping[str, Json],
    client: httpx2.AsyncClient,
    plan: Plan,
    after: Mapping[str, str],
    content: dict[str, Any],
) -> httpx2.Request:
    locations, label = plan.arguments.locations, plan.operation.label
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
    try:
        query = "&".join(part for part in (own, _query(plan, client, sent, after)) if part)
        filled = path_of(path, in_path)
        plan.reachable.check(filled)
        url = _checked_url(plan.base_url, filled + (f"?{query}" if query else ""))
        headers = httpx2.Headers(_headers(plan, client, sent))
        headers.update({**content.pop("headers", {}), **plan.shown.headers})
        request = client.build_request(plan.operation.method, url, headers=headers, **content)
        request.url = url  # which is whole, with the client's own parameters
        _add_cookies(request, plan, sent)
    except (TypeError, ValueError):  # half a surrogate pair, or a name that no header can have
        raise ToolError(f"{label} cannot be sent with these arguments") from None
    return request


def _headers(plan: Plan, client: httpx2.AsyncClient, sent: Sent) -> dict[str, str]:
    headers = {"Accept": plan.accept, "Accept-Encoding": "gzip"}
    for location, value in sent:
        if location.where == "header":
            _check_not_ours(location.name, client.headers.keys() - {"user-agent"})
            headers[location.name] = header_of(location, value)
    return headers


def _add_cookies(request: httpx2.Request, plan: Plan, sent: Sent) -> None:
    """Add cookies to those that the client has put on a request."""
    ours = [pair for pair in request.headers.get("Cookie", "").split("; ") if pair]
    cookies: list[Pair] = []
    for location, value in sent:
        if location.where == "cookie":
            cookies += cookies_of(location, value)
    for name, _ in cookies:
        _check_not_ours(name, (pair.partition("=")[0] for pair in ours))
    ours += [f"{name}={value}" for name, value in (*plan.shown.cookies, *cookies)]
    if ours:
        request.headers["Cookie"] = "; ".join(ours)


def _query(plan: Plan, client: httpx2.AsyncClient, sent: Sent, after: Mapping[str, str]) -> str:
    pairs: list[Pair] = []
    whole = ""
    for location, value in sent:
        if location.where == "querystring" and location.style.name == "json":
            whole = quote(location.names.checked(text_of(value), location.name), safe="")
        elif location.where.startswith("query") and location.name not in after:
            pairs += query_of(location, value)
    for name, _ in pairs if client.params else ():
        _check_not_ours(unquote(name), client.params.keys())
    keys = {name for name, _ in plan.shown.query}
    paging = ((quote(name, safe=""), quote(value, safe="")) for name, value in after.items())
    pairs += [(name, value) for name, value in paging if name not in keys]
    parts = (joined([*pairs, *plan.shown.query]), str(client.params), whole)
    return "&".join(part for part in parts if part)


def _check_not_ours(name: str, ours: Iterable[str]) -> None:
    """Refuse a name that the client puts on each request itself."""
    if folded(name) in map(folded, ours):
        raise ToolError(f"{name[:60]} is not for arguments to set: the client of the service does")


def _checked_url(base_url: str, rest: str) -> httpx2.URL:
    """Join a URL, and refuse one that leads away from its base."""
    try:
        base, url = _parsed(base_url), httpx2.URL(base_url + rest)
    except httpx2.InvalidURL:
        raise ToolError("The arguments make no URL; they may be too long for one") from None
    if origin_of(url) != origin_of(base) or not url.path.startswith(base.path.rstrip("/") + "/"):
        raise ToolError("The arguments would lead the request to another place")
    return url


@lru_cache(maxsize=32)
def _parsed(base_url: str) -> httpx2.URL:
    """Parse the base URL of a service, once for many requests."""
    return httpx2.URL(base_url)


def origin_of(url: httpx2.URL) -> tuple[str, str, int | None, bytes]:
    """Return what must stay the same on the way: scheme, host, port, and the user in the URL."""
    return url.scheme, url.host, url.port, url.userinfo
