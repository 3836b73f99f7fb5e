"""`trio-mcp openapi`: serve what an OpenAPI document describes."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen
from cyclopts import Parameter

from trio_mcp.cli.failures import Usage, require
from trio_mcp.cli.http_options import HttpServerOptions
from trio_mcp.cli.options import ConnectionOptions, Count, FileWord, Seconds, pairs, secret_from
from trio_mcp.cli.serve import RunOptions, run_registry
from trio_mcp.wire.limits import Limits


@Parameter(name="*", group="The service")
@frozen(kw_only=True)
class ServiceOptions:
    """Where the service is, who we are to it, and what of it is offered."""

    base_url: str | None = None
    """Where the service is, instead of what the document says."""
    variable: tuple[str, ...] = ()
    """A variable KEY=VALUE of the document's server URL. May be repeated."""
    header: tuple[str, ...] = field(default=(), repr=False)
    """A header 'Name: value' of each request. May be repeated."""
    auth_env: tuple[str, ...] = ()
    """SCHEME=VARIABLE: the credential for a security scheme of the document is the value of that
    variable of the environment: a key, a token, or user:password. May be repeated."""
    only: tuple[str, ...] = ()
    """An operation to offer: an operationId, a path such as /pets/*, 'GET /pets', tag:NAME. May be
    repeated."""
    leave_out: tuple[str, ...] = ()
    """An operation that is not offered, written in the same way. May be repeated."""
    as_resource: tuple[str, ...] = ()
    """A GET operation that is a resource, written in the same way. May be repeated."""
    output_schemas: bool = False
    """Say what tools return, and refuse answers that are something else."""
    pages: Count = 1
    """Pages of a list that are put together."""
    timeout: Seconds = 30.0
    """Seconds until an answer of the service must be there."""
    follow_files: bool = False
    """Follow references to other files below the document's folder."""


_STDIO = HttpServerOptions()
_OPTIONS = RunOptions()


def openapi(
    document: Annotated[FileWord, Parameter(help="A file, or a URL, of JSON or YAML.")],
    /,
    *,
    service: ServiceOptions = ServiceOptions(),
    http: HttpServerOptions = _STDIO,
    options: RunOptions = _OPTIONS,
) -> int:
    """Serve the operations of an OpenAPI document as tools, on stdin and stdout or over HTTP."""
    http.check()
    options.configure()
    require("httpx2", "this", "openapi")
    from trio_mcp.compose.openapi import openapi as registry_of

    credentials = pairs(service.auth_env)
    auth = {scheme: secret_from(name, "credential") for scheme, name in credentials.items()}
    try:
        registry = registry_of(
            document,
            base_url=service.base_url,
            variables=pairs(service.variable),
            headers=ConnectionOptions(header=service.header).headers(),
            auth=auth,
            only=service.only or None,
            leave_out=service.leave_out or None,
            resources=service.as_resource or None,
            output_schemas=service.output_schemas,
            pages=service.pages,
            timeout=service.timeout,
            follow_files=service.follow_files,
        )
    except ValueError as error:
        raise Usage(str(error)) from None
    return run_registry(registry, http, Limits(shutdown_grace=options.shutdown_grace))
