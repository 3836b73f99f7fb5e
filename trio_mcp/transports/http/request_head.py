"""The heads of requests on one connection: a client that keeps it sends much the same one again."""

from __future__ import annotations

from typing import Any, Final

from trio_mcp.transports.http.server.asgi import Scope

_MOST_KEPT: Final = 16 * 1024
"""Bytes of a head that is kept. Many connections may be open, and not all servers bound a head."""


class RequestHead:
    """What an app knows of a request from its head alone.

    Requests that follow one another on a connection share one, if their heads are equal but for the
    length of the body. So only what depends on the head, and on nothing else that may change, is
    noted here.
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
        given = list(scope["headers"])
        headers = dict(given)
        if len(headers) < len(given):  # some are repeated
            headers = {}
            for name, value in given:
                headers[name] = headers[name] + b", " + value if name in headers else value
        self.headers: Final = headers
        self.digests: Final = digests
        """The digest of the last token on the connection, by its header."""
        self._seen = self.method, root, path, client
        self._given = given

    def headers_of(self, scope: Scope) -> dict[bytes, bytes] | None:
        """Return the headers of a request, if it has this head but for the length of its body."""
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
        headers = dict(given)
        length = headers.get(b"content-length")
        same = len(headers) == len(given) and headers == {**self.headers, b"content-length": length}
        return headers if same else None


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
    size = len(scope["path"]) + sum(len(name) + len(value) for name, value in scope["headers"])
    if size > _MOST_KEPT:
        head = RequestHead(scope, {})
    else:
        head = kept[app] = RequestHead(scope, {} if last is None else last.digests)
    return head, head.headers


def _path_below(root: str, path: str) -> str:
    root = root.rstrip("/")
    return path[len(root) :] if path.startswith(f"{root}/") else path
