"""Serving over HTTP, as the command line says."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_mcp.cli.failures import Failure, Usage, require
from trio_mcp.cli.http_options import HttpServerOptions, address
from trio_mcp.cli.options import secret_from
from trio_mcp.loggers import logger_of
from trio_mcp.registry import Registry
from trio_mcp.store.errors import StoreError
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:
    import ssl

    from trio_mcp import HttpPolicy
    from trio_mcp.auth import ResourceServer

logger = logger_of("trio_mcp.http")

_OPTIONS: Final = {
    "allowed_hosts": "--allow-host",
    "allowed_origins": "--allow-origin",
    "trusted_proxies": "--trust-proxy",
    "issuers": "--issuer",
    "resource": "--resource",
    "scopes": "--scope",
}
"""The command line's options, by their names in the library."""

_SOCKET_TROUBLE: Final = {
    errno.EEXIST: "there is a file that is not a socket; remove it, or take another path",
    errno.EADDRINUSE: "another server listens there",
    errno.ENOENT: "there is no such directory",
}


def http_server(where: HttpServerOptions, limits: Limits) -> Callable[[Registry], Awaitable[None]]:
    require("httptools", "HTTP", "http")
    from trio_mcp import SessionOptions

    options = {
        **_place(where),
        "path": where.path,
        "sse_path": where.sse_path,
        "policy": _policy(where),
        "sessions": SessionOptions(answer_unknown=where.answer_unknown),
        "ssl_context": _tls(where),
        "limits": limits,
        "explorer": where.explorer,
        "store": where.store,
        "workers": where.workers,
    }
    if where.prometheus:
        require("prometheus_client", "--prometheus", "prometheus")
        from prometheus_client import REGISTRY

        options["prometheus"] = REGISTRY
    named = where.allow_host or where.resource
    if where.http is not None and not named and not where.is_local:
        logger.warning(
            "Only clients that call this server localhost are served; --allow-host names what "
            "others call it, and --token-env the token that they need"
        )
    return partial(_serve, where, options)


async def _serve(where: HttpServerOptions, options: dict[str, Any], registry: Registry) -> None:
    from trio_mcp import serve_http

    serve = partial(serve_http, registry, own_process=True, **options)
    if where.workers is not None:  # what ends them all is an exit status, and comes out as it is
        with _explained(where):
            await serve()
        return
    async with trio.open_nursery() as nursery:
        with _explained(where):
            await nursery.start(serve)


def stand_in(where: HttpServerOptions) -> Callable[[str], Awaitable[None]]:
    """Make a function that answers 503 where a server cannot, with a reason, until cancelled."""
    place, tls = _place(where), _tls(where)

    async def answer(why: str) -> None:
        from trio_mcp.transports.http.server import open_tcp, open_unix, serve_asgi

        async def refuse(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"retry-after", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": f"{why}.\n".encode()})

        try:
            if where.unix_socket is not None:
                mode = place["unix_socket_mode"]
                listeners = await open_unix(where.unix_socket, mode=mode, ssl_context=tls)
            elif place["port"]:  # with 0, it is another one each time
                listeners = await open_tcp(**place, ssl_context=tls)
            else:
                return
        except OSError as error:  # which may be why the server has exited
            logger.error("%s", _cannot_listen(where, error))
            return
        await serve_asgi(refuse, listeners)

    return answer


@contextmanager
def _explained(where: HttpServerOptions) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(_cannot_listen(where, error)) from None
    except ValueError as error:  # the path, the store, or workers
        raise Usage(str(error)) from None
    except (StoreError, ImportError) as error:
        raise Failure(f"--store: {error}") from None


def _place(where: HttpServerOptions) -> dict[str, Any]:
    if where.http is None:
        return {"unix_socket": where.unix_socket, "unix_socket_mode": where.permissions()}
    host, port = address(where.http)
    return {"host": host, "port": port}


def _policy(where: HttpServerOptions) -> HttpPolicy:
    from trio_mcp import HttpPolicy

    token = None if where.token_env is None else secret_from(where.token_env)
    try:
        return HttpPolicy(
            allowed_hosts=[*HttpPolicy().allowed_hosts, *where.allow_host],
            allowed_origins=where.allow_origin,
            tokens={} if token is None else {token: "token"},
            auth=_resource_server(where),
            rate=where.rate,
            trusted_proxies=where.trust_proxy,
        )
    except ValueError as error:
        told = str(error)
        named = next((name for name in _OPTIONS if told.startswith(name)), "")
        raise Usage(_OPTIONS.get(named, "") + told.removeprefix(named)) from None


def _resource_server(where: HttpServerOptions) -> ResourceServer | None:
    if where.resource is None:
        return None
    require("joserfc", "--issuer", "auth")
    from trio_mcp.auth import ResourceServer

    return ResourceServer(
        resource=where.resource,
        issuers=where.issuer,
        scopes=where.scope,
        lenient_tokens=where.lenient_tokens,
    )


def _tls(where: HttpServerOptions) -> ssl.SSLContext | None:
    if where.tls_certificate is None:
        return None
    import ssl

    certificate, key = where.tls_certificate, where.tls_key
    for option, file in (("--tls-certificate", certificate), ("--tls-key", key)):
        try:  # OpenSSL does not say which file it cannot read
            if file is not None:
                open(file, "rb").close()
        except OSError as error:
            raise Failure(f"{option}: {file}: {error.strerror}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Failure(f"{key or certificate} has the key of another certificate") from None
        both = f"{certificate} and {key}" if key else f"{certificate}, without --tls-key,"
        raise Failure(f"{both} must hold a certificate and its key as PEM") from None
    return context


def _no_passphrase() -> str:
    raise Failure("the key of --tls-key has a passphrase, which is not asked for; remove it")


def _cannot_listen(where: HttpServerOptions, error: OSError) -> str:
    if where.http is not None:
        host, port = address(where.http)
        return f"cannot listen on {host}:{port}: {error.strerror or error}"
    why = _SOCKET_TROUBLE.get(error.errno or 0) or error.strerror or error
    return f"cannot listen on {where.unix_socket}: {why}"
