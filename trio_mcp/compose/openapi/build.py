"""A document, made into a registry."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
from attrs import define, evolve, field

from trio_mcp.compose.openapi.arguments import arguments_of
from trio_mcp.compose.openapi.document import (
    Document,
    bundled,
    is_base,
    members,
    read_document,
)
from trio_mcp.compose.openapi.leftout import LeftOut
from trio_mcp.compose.openapi.names import folded
from trio_mcp.compose.openapi.operations import (
    LONGEST_NAME,
    READING,
    REPEATABLE,
    VARIABLE,
    Operation,
    Rule,
    chosen,
    operations_of,
    tool_names,
)
from trio_mcp.compose.openapi.pages import Pages
from trio_mcp.compose.openapi.requests import Plan, ReadFile
from trio_mcp.compose.openapi.schemas import Schema, Schemas
from trio_mcp.compose.openapi.security import Authenticate, CallerAuth, Credential, Security
from trio_mcp.compose.openapi.service import MakeClient, Service, make_client
from trio_mcp.compose.openapi.texts import plain_name, shortened
from trio_mcp.errors import SchemaError
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.registry.checks import check_bound, check_timeout
from trio_mcp.registry.middleware import CallMiddleware
from trio_mcp.registry.registry import Registry
from trio_mcp.schema import compile_validator
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import ToolAnnotations

logger = logger_of("trio_mcp.openapi")

_MOST_TYPES: Final = 5
_LONGEST_TITLE: Final = 200
_LONGEST_SCHEME: Final = 40
_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)
_NOT_IN_SCHEMES: Final = re.compile(r"[^a-z0-9]+")
_TYPE: Final = re.compile(r"[\w.+*-]+/[\w.+*-]+(; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)
_JSON: Final = re.compile(r"[\w.+-]+/(json|[\w.-]+\+json)\b")
_IN_URIS: Final = ("path", "query")
_PATH: Final = "/:@!$&'()*+,;=-._~"


@public_in("trio_mcp.compose.openapi")
def openapi(
    document: str | Path | Mapping[str, Json],
    *,
    name: str | None = None,
    base_url: str | None = None,
    variables: Mapping[str, str] | None = None,
    client: httpx2.AsyncClient | MakeClient | None = None,
    headers: Mapping[str, str] | None = None,
    auth: Mapping[str, Credential] | httpx2.Auth | None = None,
    authenticate: Authenticate | None = None,
    only: Rule | None = None,
    leave_out: Rule | None = None,
    rename: Mapping[str, str] | Callable[[Operation], str | None] | None = None,
    resources: Rule | None = None,
    output_schemas: bool = False,
    dereference_schemas: bool = True,
    max_description: int = 400,
    pages: int | Pages = 1,
    timeout: float = 30.0,
    max_response_bytes: int = 1024 * 1024,
    max_operations: int = 2500,
    follow_files: bool = False,
    read_file: ReadFile | None = None,
) -> Registry:
    """Make a registry of an OpenAPI document: each operation is a tool that calls the service.

    This reads, and may fetch, the document, which takes a second or two for a thousand operations:
    on a running event loop, call it by `trio.to_thread.run_sync`.

    Parameters are arguments of the tool, and so are the members of a body that is a plain object;
    any other body is the argument `body`. JSON is returned as structured content, text as text,
    pictures and sounds as such. What the service refuses is a result with `isError: true`.

    Rules choose operations: an `operationId`, a path (`/pets/*`), a method and a path
    (`GET /pets`), `tag:NAME`, or `deprecated`, with `*` for any characters; a list of these; or a
    function that is given each `Operation`.

    Args:
        document: A path or an `https://` URL of JSON or YAML, of OpenAPI 3.0 to 3.2; or what was
            parsed.
        name: The registry's name, instead of the title.
        base_url: Where the service is, instead of what the document says. Operations with servers
            of their own go there, too.
        variables: Values for the variables in the document's server URLs.
        client: An open `httpx2.AsyncClient`, which is used and not closed, or a function that makes
            one, which is called when the registry is opened. It knows of proxies and certificates.
        headers: Headers of each request. They exclude `client`.
        auth: Credentials by the name of a security scheme: a key or a token, `(user, password)`,
            `(client id, client secret)`, or an `httpx2.Auth`. Each operation shows the first of its
            alternatives that is there. Or one `httpx2.Auth` for all requests.
        authenticate: An async function that takes the `Context` of a call, and returns what to show
            for its caller: a bearer token, an `httpx2.Auth`, or `None` for nothing. Such are
            `trio_mcp.auth.provider_token` and `TokenExchange`. It excludes `auth`.
        only: The operations to offer.
        leave_out: Of these, the ones that are not offered.
        rename: Names for tools, by `operationId` or `METHOD path`; or a function that returns one.
        resources: The GET operations that are resources and not tools. Those with variables in
            their path are templates.
        output_schemas: Whether tools say what they return. Then an answer that is not what the
            document says is an error; by default, any answer is passed on.
        dereference_schemas: Whether schemas are shown with as few references (`$ref`) as can be, as
            those of any `Registry`.
        max_description: Characters of the longest description, of tools and arguments.
        pages: How many pages of a list to put together, or how to find the next one. A result
            whose list goes on says so.
        timeout: Seconds until the answer of a service must be there, all pages included.
        max_response_bytes: The largest answer.
        max_operations: The most operations.
        follow_files: Whether references lead to other files below the document's folder.
        read_file: An async function that returns the bytes at a URI which is given for a file.

    Returns:
        The registry. It opens its HTTP client in its lifespan. More can be registered in it, and
        it can be mounted in another.

    Raises:
        SchemaError: It is not a document that can be used; the message says what to do.
        OSError: The file cannot be read.
        ValueError: An option is wrong, such as a rule that means no operation.

    Example:
        >>> registry = openapi({
        ...     "openapi": "3.1.0",
        ...     "info": {"title": "Notes", "version": "1"},
        ...     "servers": [{"url": "https://notes.example"}],
        ...     "paths": {"/notes": {"get": {"operationId": "list_notes"}}},
        ... })
        >>> list(registry.tools)
        ['list_notes']
    """
    check_timeout(timeout)
    check_bound("max_response_bytes", max_response_bytes)
    check_bound("max_operations", max_operations)
    _check_client(client, headers)
    _check_auth(auth, authenticate)
    if not isinstance(pages, int | Pages):
        raise TypeError(f"pages must be a number or Pages, not {pages!r:.100}")
    read = read_document(document)
    if follow_files:
        read = bundled(read)
    if base_url is None and isinstance(client, httpx2.AsyncClient):
        base_url = str(client.base_url).rstrip("/") or None
    service = Service(
        client if client is not None else partial(make_client, headers or {}),
        timeout,
        max_response_bytes,
        Pages(limit=pages) if isinstance(pages, int) else pages,
        read_file,
    )
    operations, others = _chosen(read, only, leave_out, max_operations)
    caller = None if authenticate is None else CallerAuth(authenticate)
    builder = _Builder(
        read,
        service,
        base_url,
        variables or {},
        auth if caller is None else caller,
        headers or {},
        output_schemas,
        max_description,
        LeftOut(others),
    )
    middleware = [] if caller is None else [caller]
    registry = builder.registry(name, timeout, middleware, dereference_schemas)
    as_resources = chosen(operations, resources, "resources") or frozenset()
    tools = [operation for operation in operations if operation not in as_resources]
    for operation, tool in zip(tools, tool_names(tools, rename or {}), strict=True):
        builder.add_tool(registry, operation, tool)
    for operation in operations:
        if operation in as_resources:
            builder.add_resource(registry, operation)
    return registry


def _check_client(client: Any, headers: Any) -> None:
    if not (client is None or isinstance(client, httpx2.AsyncClient) or callable(client)):
        raise TypeError(f"client must be an httpx2.AsyncClient or make one, not {client!r:.100}")
    if client is not None and headers is not None:
        raise ValueError("client and headers exclude each other: give the headers to the client")


def _check_auth(auth: Any, authenticate: Any) -> None:
    if not (auth is None or isinstance(auth, Mapping | httpx2.Auth)):  # which is not shown
        raise TypeError(
            "auth must be a mapping from the names of security schemes to credentials, "
            f"or an httpx2.Auth, not {type(auth).__name__} (for who may use the server itself, "
            "it is serve_http(…, auth=…) or http_app(…, auth=…))"
        )
    if authenticate is not None and (auth is not None or not callable(authenticate)):
        raise ValueError("authenticate must be an async function, without auth beside it")


def _chosen(
    document: Document, only: Rule | None, leave_out: Rule | None, limit: int
) -> tuple[list[Operation], list[Operation]]:
    """Return the operations to offer, and those that are left out."""
    operations = list(operations_of(document))
    wanted = chosen(operations, only, "only")
    unwanted = chosen(operations, leave_out, "leave_out") or frozenset()
    found, others = list[Operation](), list[Operation]()
    for operation in operations:
        is_offered = (wanted is None or operation in wanted) and operation not in unwanted
        (found if is_offered else others).append(operation)
    if not found:
        raise SchemaError("the document has no operations, or none that are wanted")
    if len(found) > limit:
        raise SchemaError(
            f"the document has {len(found):,} operations, more than max_operations={limit}: choose "
            "some with only=, such as only='tag:…', or raise max_operations"
        )
    return found, others


@define(eq=False, repr=False, slots=False)
class _Builder:
    _document: Document
    _service: Service
    _base_url: str | None
    _variables: Mapping[str, str]
    _auth: Mapping[str, Credential] | httpx2.Auth | None = field(repr=False)
    _headers: Mapping[str, str] = field(repr=False)
    _output_schemas: bool
    _longest_text: int
    _left_out: LeftOut

    def __attrs_post_init__(self) -> None:
        document, base, longest = self._document, self._base_url, self._longest_text // 2
        if base is not None and not is_base(base):  # which is not shown: it may have a key
            raise ValueError("base_url must begin with https:// or http://, and have no query")
        self._base_url = None if base is None else base.rstrip("/")
        self._server_urls: dict[int, str | None] = {}  # many operations may share their servers
        self._sent = Schemas(document, True, longest)
        self._returned = Schemas(document, False, longest) if self._output_schemas else None
        base = self._base_url or document.server_url(document.servers, self._variables)
        self._security = Security(document, self._auth, base or "")
        ours = [*self._security.keys(), *((header, "header") for header in self._headers)]
        self._hidden = frozenset((folded(name, where), where) for name, where in ours)

    def registry(
        self,
        name: str | None,
        timeout: float,
        middleware: Sequence[CallMiddleware],
        dereference_schemas: bool,
    ) -> Registry:
        """Make a registry with the service's name."""
        info = self._document.resolve(self._document.root.get("info"))
        title = shortened(info.get("title"), _LONGEST_TITLE)
        return Registry(
            name or title or "openapi",
            shortened(str(info.get("version", "")), _LONGEST_TITLE) or "0.0.0",
            title=title or None,
            description=shortened(info.get("description"), self._longest_text) or None,
            # Clients wait this long. The service's own limit has the better message: it ends first.
            tool_timeout=timeout + 1,
            lifespan=self._service.opened,
            middleware=middleware,
            dereference_schemas=dereference_schemas,
        )

    # -- tools -----------------------------------------------------------------------------

    def add_tool(self, registry: Registry, operation: Operation, name: str) -> None:
        """Register an operation as a tool.

        What cannot be checked of its schema is left out and logged: the service checks arguments.
        """
        plan, returned = self._plan(operation)
        options: dict[str, Any] = {
            "name": name,
            "description": self._description(operation),
            "annotations": _annotations(operation.method),
            "tags": operation.tags,
        }
        schema = plan.arguments.schema
        if returned is not None:
            try:
                plan = evolve(plan, check=compile_validator(returned, noun="answer"))
                options["output_schema"] = returned
            except SchemaError as error:
                logger.warning("%s: no output schema: %s", operation.label, error)
        function = partial(self._service.call, plan)
        try:
            registry.add_tool(function, input_schema=schema, **options)
        except SchemaError as error:
            loose = {key: value for key, value in schema.items() if key != "$defs"}
            loose["properties"] = {
                key: {kept: each[kept] for kept in ("description",) if kept in each}
                for key, each in schema["properties"].items()
            }
            registry.add_tool(function, input_schema=loose, **options)
            logger.warning("%s: its arguments are not checked: %s", operation.label, error)

    def _plan(self, operation: Operation) -> tuple[Plan, Schema | None]:
        """Return how to call an operation, and the schema of what it returns."""
        arguments = arguments_of(operation, self._document, self._sent, self._hidden)
        types, node = self._answered(operation)
        accept = ", ".join([*types[:_MOST_TYPES], "*/*;q=0.1"])
        base, shown = self._base(operation), self._security.of(operation)
        plan = Plan(operation, arguments, base, shown, accept, self._left_out.reachable(operation))
        if self._returned is None or node is None:
            return plan, None
        made = self._returned.make(self._document.resolve(node))
        schema = made.schema if isinstance(made.schema, dict) else {}
        if "properties" in schema:
            schema = {"type": "object", **schema}
        return plan, self._returned.complete(schema, made.references)

    def _base(self, operation: Operation) -> str:
        if self._base_url is not None:
            return self._base_url
        for servers in (operation.said("servers"), self._document.servers):
            if id(servers) not in self._server_urls:
                url = self._document.server_url(servers, self._variables)
                self._server_urls[id(servers)] = url
            url = self._server_urls[id(servers)]
            if url is not None:
                return url
        raise SchemaError(
            "the document does not say where the service is: give base_url='https://…'"
        )

    def _answered(self, operation: Operation) -> tuple[list[str], Json]:
        """Return the media types of a good answer, and the schema of its JSON, if that is all."""
        responses = operation.details.get("responses")
        found = dict(members(responses))
        codes = sorted(code for code in found if code[:1] == "2") or ["default"]
        content = self._document.resolve(found.get(codes[0])).get("content")
        types = [each for each, _ in members(content) if _TYPE.fullmatch(each)]
        is_json = len(codes) == 1 and bool(types) and all(map(_JSON.match, types))
        media = self._document.resolve(content.get(types[0])) if is_json and content else {}
        return types, media.get("schema")

    def _description(self, operation: Operation) -> str:
        summary = shortened(operation.summary, self._longest_text)
        text = shortened(operation.details.get("description"), self._longest_text)
        if text.startswith(summary.rstrip(".")):
            summary = ""
        both = f"{summary.rstrip('.')}. {text}" if summary and text else summary or text
        mark = "Deprecated. " if operation.deprecated else ""
        return mark + (shortened(both, self._longest_text) or operation.label)

    # -- resources -------------------------------------------------------------------------

    def add_resource(self, registry: Registry, operation: Operation) -> None:
        """Register a GET as a resource or a template, if it needs no more than a URI says."""
        plan, _ = self._plan(operation)
        locations, required = plan.arguments.locations, plan.arguments.schema.get("required", [])
        in_uri = {_variable(name): name for name in locations if locations[name].where in _IN_URIS}
        other = [name for name in required if name not in in_uri.values()]
        if operation.method != "GET" or other:
            why = f"needs {other[0]!r}" if operation.method == "GET" else "is not a GET"
            raise ValueError(f"resources: {operation.label} cannot be one: it {why}")
        query = [each for each, name in in_uri.items() if locations[name].where == "query"]
        names = {locations[name].name: key for key, name in in_uri.items() if key not in query}
        path = "".join(
            f"{{{names[each]}}}" if index % 2 else quote(each, safe=_PATH)
            for index, each in enumerate(VARIABLE.split(operation.path))
        )
        uri = f"{_scheme(registry.name)}://{path}" + (f"{{?{','.join(query)}}}" if query else "")
        types, _ = self._answered(operation)
        registry.add_resource(
            uri,
            self._reader(plan, in_uri, required, uri),
            name=plain_name(operation.operation_id or operation.path, LONGEST_NAME),
            description=self._description(operation),
            mime_type=types[0] if types and "*" not in types[0] else None,
            tags=operation.tags,
        )

    def _reader(
        self, plan: Plan, in_uri: Mapping[str, str], required: Collection[str], uri: str
    ) -> Callable[..., Any]:
        """Make the function of a resource, which takes the variables of its URI."""

        async def read(**values: str | None) -> str | bytes:
            given = {in_uri[each]: value for each, value in values.items() if value is not None}
            return await self._service.read(plan, uri, given)

        kind = Parameter.KEYWORD_ONLY
        read.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter(each, kind, annotation=str)
                if name in required
                else Parameter(each, kind, annotation=str | None, default=None)
                for each, name in in_uri.items()
            ]
        )
        return read


def _annotations(method: str) -> ToolAnnotations | None:
    """Return the hints that follow from a method (RFC 9110, section 9.2)."""
    if method in READING:
        return ToolAnnotations(read_only_hint=True)
    if method in REPEATABLE:
        return ToolAnnotations(idempotent_hint=True, destructive_hint=method == "DELETE" or None)
    return None


def _variable(name: str) -> str:
    """Make of a name a variable of a URI template, which is a parameter of a function, too."""
    made = _NOT_IN_NAMES.sub("_", name)
    return f"{made}_" if iskeyword(made) else made if made.isidentifier() else f"_{made}"


def _scheme(name: str) -> str:
    """Make of a name the scheme of URIs."""
    made = _NOT_IN_SCHEMES.sub("-", name.lower()).strip("-")[:_LONGEST_SCHEME]
    return made if made[:1].isalpha() else f"api-{made}".rstrip("-")
