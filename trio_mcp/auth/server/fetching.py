"""Asking an authorization server for a JSON document: of bounded size, in bounded time.

No redirect is followed, and nothing compressed is taken: a small body could become a large one.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

import httpx2
import orjson
import trio
from attrs import frozen

MAX_DOCUMENT: Final = 1024 * 1024
"""Bytes that a document may have."""

_HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity"}


class FetchFailed(Exception):
    """There is no such document, in words for the log."""


class NotThere(FetchFailed):
    """The server answers, but not with a document.

    Args:
        url: Where it was asked for.
        status: How it answers.
    """

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} answers {status}")
        self.status = status


@frozen
class Document:
    """A JSON object, and for how long it may be kept."""

    content: dict[str, Any]
    max_age: float | None
    """Seconds (`Cache-Control`); `None` if nothing is said."""


async def fetch_json(
    client: httpx2.AsyncClient,
    url: str,
    timeout: float,
    *,
    form: dict[str, str] | None = None,
    auth: httpx2.Auth | None = None,
) -> Document:
    """Fetch a document.

    Args:
        client: Asks.
        url: Whom.
        timeout: Seconds that it may take, from the beginning to the last byte.
        form: What is posted; without it, it is a GET.
        auth: Says who asks.

    Raises:
        NotThere: The answer is another one than 200.
        FetchFailed: There is no answer in time, it is too long, or no JSON object.
    """
    try:
        with trio.fail_after(timeout):
            return await _fetch(client, url, form, auth)
    except trio.TooSlowError:
        raise FetchFailed(f"{url} did not answer within {timeout:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
        # The last two are for addresses that no resolver or codec takes: an issuer may send us to
        # any, and nothing that it says may end the server.
        raise FetchFailed(f"{url}: {type(error).__name__}") from None


async def _fetch(
    client: httpx2.AsyncClient, url: str, form: dict[str, str] | None, auth: httpx2.Auth | None
) -> Document:
    method = "GET" if form is None else "POST"
    request = client.build_request(method, url, headers=_HEADERS, data=form)
    response = await client.send(request, stream=True, auth=auth, follow_redirects=False)
    try:
        if response.status_code != 200:
            raise NotThere(url, response.status_code)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise FetchFailed(f"{url} answers with something compressed")
        body = bytearray()
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_DOCUMENT:
                    raise FetchFailed(f"{url} answers with more than {MAX_DOCUMENT} bytes")
    finally:
        await response.aclose()
    return Document(_object(bytes(body), url), _max_age(response.headers.get("cache-control", "")))


def _object(body: bytes, url: str) -> dict[str, Any]:
    try:
        content = orjson.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise FetchFailed(f"{url} answers with what is no JSON object")
    return content


def _max_age(cache_control: str) -> float | None:
    for each in cache_control.lower().split(","):
        name, _, value = each.strip().partition("=")
        if name in ("no-store", "no-cache"):
            return 0.0
        if name == "max-age" and value.isdecimal() and len(value) < 10:
            return float(value)
    return None
