"""An HTTP/1.1 server on Trio for any ASGI 3 app. It knows nothing of MCP.

From the wire up: `head`, `body` and `response` turn bytes into requests and responses into bytes
and do no I/O; `pipe` moves the bytes; `connection` holds both together for one client, with an
`Exchange` per request; `service` looks after all connections and their deadlines; `listeners` and
`serve` bring them in.
"""

from trio_mcp.transports.http.server.limits import HttpLimits
from trio_mcp.transports.http.server.listeners import (
    Listeners,
    SharedListener,
    open_tcp,
    open_unix,
    secured,
)
from trio_mcp.transports.http.server.serve import HttpServer, addresses_of, close_all, serve_asgi
from trio_mcp.transports.http.server.service import HttpCounters

__all__ = [
    "HttpCounters",
    "HttpLimits",
    "HttpServer",
    "Listeners",
    "SharedListener",
    "addresses_of",
    "close_all",
    "open_tcp",
    "open_unix",
    "secured",
    "serve_asgi",
]
