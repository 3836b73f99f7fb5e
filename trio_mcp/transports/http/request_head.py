"""The heads of requests on one connection: a client that keeps it sends much the same one again."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from trio_mcp.transports.http.server.asgi import Headers, Scope

_MOST_KEPT: Final = 16 * 1024
"""Bytes of a head that is kept. Many connections may be open, and not all servers bound a head."""

_DECISIVE: Final = (
    b"host",
    b"origin",
    b"x-forwarded-for",
    b"content-type",
    b"accept",
    b"mcp-protocol-version",
    b"mcp-method",
    b"mcp-name",
)
"""The headers that decide on what is noted of a head."""


class RequestHead:
    """What an app knows of a request from its head alone.

    Requests that follow one another on a connection share one, if they agree on the method, the
    path, and the headers that are named above. Their tokens and sessions may differ, say. So only
    what depends on these, and on nothing else that may change, is noted here.
    """

    visitor: tuple[str, tuple[tuple[bytes, bytes], ...]] | None = None
    """The address that it came from, and headers for its answers. The guard of the app notes them
    once it has accepted host and origin."""
    is_message: bool = False
    """Whether the media types in it were found to be right for a POST with a message."""
    meant: tuple[str | None, str, str | None] | None = None
    """Revision, method and name of the last message whose body was found to agree with it."""

    def __init__(self, scope: Scope, digests: dict[bytes, bytes]) -> None:
        self.method: Final[str] = scope["method"]
        root, path = scope.get("root_path"), scope["path"]
        self.path: Final[str] = _path_below(root, path) if root else path
        client: Any = scope.get("client")
        self.peer: Final[str | None] = client[0] if client else None
        self._given: Final[Headers] = list(scope["headers"])
        self.headers: Final = _by_name(self._given)
        """Those of the first request that has it."""
        self.digests: Final = digests
        """The digest of the last token on the connection, by its header."""
        self._seen = self.method, root, path, client
        self._decisive = tuple(map(self.headers.get, _DECISIVE))

    def headers_of(self, scope: Scope) -> dict[bytes, bytes] | None:
        """Return the headers of a request, if it shares this head."""
        if self._seen != (
            scope["method"],
            scope.get("root_path"),
            scope["path"],
            scope.get("client"),
        ):
            return None
        given = scope["headers"]
        if given == self._given:
            return self.headers
        headers = _by_name(given)
        return headers if self._decisive == tuple(map(headers.get, _DECISIVE)) else None


def head_of(
    scope: Scope, kept: dict[Any, Any], app: object
) -> tuple[RequestHead, dict[bytes, bytes]]:
    """Return the head of a request, and its headers.

    Args:
        scope: That of the request in ASGI.
        kept: What is kept for its connection: the last head, by the app that has seen it.
        app: The app that answers the request.
    """
    last: RequestHead | None = kept.get(app)
    if last is not None:
        headers = last.headers_of(scope)
        if headers is not None:
            return last, headers
    if len(scope["path"]) + sum(map(len, chain.from_iterable(scope["headers"]))) > _MOST_KEPT:
        head = RequestHead(scope, {})
    else:
        head = kept[app] = RequestHead(scope, {} if last is None else last.digests)
    return head, head.headers


def _by_name(given: Headers) -> dict[bytes, bytes]:
    """Return headers by their names; of a repeated one, all values with commas between."""
    headers = dict(given)
    if len(headers) < len(given):
        headers = {}
        for name, value in given:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def _path_below(root: str, path: str) -> str:
    root = root.rstrip("/")
    return path[len(root) :] if path.startswith(f"{root}/") else path
