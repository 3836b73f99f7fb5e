"""The floor of apps on uvicorn: each request gets the same bytes; the argument is the port."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

_BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]


async def app(
    scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Read a request, and answer it without looking at it."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


options: Any = {"log_level": "error", "access_log": False, "lifespan": "off"}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), **options)
