"""Clients of Redis: how a URL describes one, and what its errors mean for a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import anyio
import coredis
import trio
from coredis.connection import TCPLocation
from coredis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    WrongTypeError,
)
from coredis.retry import NoRetryPolicy

from trio_mcp.store.errors import StoreError, StoreFull, StoreUnavailable, StoreUnusable

Client = coredis.client.Client[bytes]

FAILURES: Final = (
    RedisError,
    OSError,
    trio.TooSlowError,
    anyio.ClosedResourceError,  # of a connection that has just ended
)


def client_of(url: str, timeout: float) -> tuple[Callable[[], Client], str, str]:
    """Return a factory of clients for a URL, its place for messages, and the prefix of keys."""
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    query = dict(parse_qsl(parts.query))
    prefix = query.pop("prefix", "trio-mcp")
    if set("{}:") & set(prefix) or not prefix.isprintable():
        raise ValueError(f"a prefix has no braces and no colon, unlike {prefix!r}")
    hosts = parts.netloc.rpartition("@")[2]
    place = hosts or parts.path
    options: dict[str, Any] = {
        "stream_timeout": timeout,
        "connect_timeout": timeout,
        "retry_policy": NoRetryPolicy(),
    }
    if kind == "cluster":
        options |= {"username": parts.username, "password": parts.password, **query}
        nodes = [_location_of(host) for host in hosts.split(",")]
        tls = scheme == "rediss"
        make = partial(coredis.RedisCluster, startup_nodes=nodes, ssl=tls, **options)
        return make, place, prefix
    plain = urlunsplit(("unix" if kind == "unix" else scheme, *parts[1:3], urlencode(query), ""))
    return partial(coredis.Redis.from_url, plain, decode_components=True, **options), place, prefix


def _location_of(host: str) -> TCPLocation:
    name, _, port = host.rpartition(":")
    if not name or not port.isdecimal():
        raise ValueError(f"a cluster is named by host:port,host:port, unlike {host!r}")
    return TCPLocation(name.strip("[]"), int(port))


def first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_MEANINGS: Final[Sequence[tuple[str | type[Exception], type[StoreError], str]]] = (
    ("OOM ", StoreFull, "it has no memory left (maxmemory)"),
    ("MISCONF ", StoreUnavailable, "it cannot write to its disk"),
    (AuthenticationError, StoreUnusable, "look at the user and the password"),
    (AuthorizationError, StoreUnusable, "its access rules do not let us"),
    (WrongTypeError, StoreUnusable, "its keys are something else's: choose another prefix"),
    (ReadOnlyError, StoreUnavailable, "it is a replica at the moment"),
    (BusyLoadingError, StoreUnavailable, "it is starting"),
    (ClusterDownError, StoreUnavailable, "its cluster is down"),
    (TimeoutError, StoreUnavailable, "it does not answer in time"),
    (trio.TooSlowError, StoreUnavailable, "it does not answer in time"),
)
"""What the errors of coredis and of the network mean, by their class or a text in them."""


def meaning(error: BaseException) -> tuple[type[StoreError], str]:
    """Return which error of a store an error of coredis, or of the network, is, and the reason."""
    for sign, kind, reason in _MEANINGS:
        if sign in str(error) if isinstance(sign, str) else isinstance(error, sign):
            return kind, reason
    return StoreUnavailable, f"no connection ({type(error).__name__})"


def is_answer(error: Exception) -> bool:
    """Whether an error is an answer of the server, so that its connection is still good."""
    # A replica may have been the primary: another machine has that name now.
    return isinstance(error, ResponseError) and not isinstance(error, ReadOnlyError)
