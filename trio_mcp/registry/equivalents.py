"""What FastMCP 4 and the official SDK 2 have, and what it is here.

By kind: names that are imported, attributes of a server, a context or a client, options of a
server, of decorators and of what runs it, fields of messages, default values of parameters, what
tools raise, and libraries. Imported where something is missing, and by `trio-mcp port`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Names = Mapping[str, str]


def _each(text: str, names: str) -> Names:
    """Return a text for each of some names; the name takes the place of `{}`."""
    return {name: text.replace("{}", name) for name in names.split()}


_LISTS: Final = "registry.tools, or connect(registry) and the lists of its client"
_LOOP: Final = "trio_mcp.aio.Registry, whose handlers run on asyncio"
_OPTIONS: Final = _each("{}=", "name title description icons tags meta annotations")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_REQUEST: Final = "what an async middleware gets: an McpRequest, or an McpCall"
_PROGRESS: Final = "context.progress(1, total=3)"
_HTTP: Final = "await serve_http(registry, port=8000); on asyncio, an ASGI server and http_app"
_POLICY: Final = "HttpPolicy(allowed_hosts=…, allowed_origins=…)"
_STATELESS: Final = "sessions=SessionOptions(stateless=True)"
_NOTHING: Final = "nothing: what is registered is listed and called"
_ELICIT: Final = "await context.elicit(…), in the tool, which returns the answer"
_SAMPLE: Final = "await context.sample(…), in the tool, which returns the answer"
_ROOTS: Final = "await context.roots(), in the tool"
_COMPLETION: Final = "@registry.completion(prompt=…, argument=…), one for each argument"
_RESPECTED: Final = "nothing: context.info and the others respect it"
_SUBSCRIBED: Final = "nothing; registry.notify_resource_updated(uri) for news"
_NOTIFIED: Final = "nothing: add_tool, remove_tool and their like notify"
_ENABLED: Final = 'Registry(leave_out=["its name"]), or visible='
_AUTH: Final = "serve_http(registry, auth=…), with a ResourceServer(…), or github(…), google(…), …"

EQUIVALENTS: Final[Mapping[str, Names]] = {
    "import": {
        **_each("Registry", "FastMCP MCPServer"),
        **_each("{}, from trio_mcp", "Context Image Audio File Icon ToolError Depends EventStore"),
        **_each("connect(…)", "Client ClientSession"),
        "ResourceError": "ResourceNotFound, or McpError",
        **_each("ResourceNotFound", "ResourceNotFoundError NotFoundError"),
        "PromptError": "McpError",
        **_each("McpError(code, message)", "McpError MCPError"),
        "ErrorData": "McpError(code, message, data)",
        "Message": 'PromptMessage("user", "…")',
        **_each(
            "{}",
            "PromptMessage TextContent ImageContent AudioContent EmbeddedResource "
            "ResourceLink Annotations CallToolResult SamplingMessage Implementation "
            "BlobResourceContents TextResourceContents GetPromptResult Completion "
            "ElicitResult Root CreateMessageResult PromptArgument",
        ),
        "UserMessage": 'PromptMessage("user", "…")',
        "AssistantMessage": 'PromptMessage("assistant", "…")',
        "ToolAnnotations": 'ToolAnnotations(read_only_hint=…), or {"readOnlyHint": …}',
        "ToolResult": "CallToolResult",
        "CurrentContext": "a parameter of type Context",
        "get_context": "a parameter of type Context; far from tools, a ContextVar of one's own",
        **_each("context.http.headers", "get_http_headers CurrentHeaders"),
        "get_http_request": "context.http",
        **_each("context.authorization", "get_access_token CurrentAccessToken"),
        "AccessToken": "Authorization, from trio_mcp.auth",
        "Middleware": "an async function with call_next",
        "MiddlewareContext": "the McpRequest that such a function gets",
        "CallToolRequestParams": "the McpRequest that a middleware gets",
        "ClientCapabilities": "context.capabilities",
        "StreamableHttpTransport": 'connect("https://…/mcp", http=HttpOptions(…))',
        "ProxyProvider": "Remote(…), mounted",
        "GoogleTokenVerifier": "serve_http(…, auth=google(…)), from trio_mcp.auth",
        "TokenVerifier": "HttpPolicy(verify=…)",
        "StaticTokenVerifier": "HttpPolicy(tokens=…)",
        "JWTVerifier": "ResourceServer(resource=…, issuers=[…]), from trio_mcp.auth",
        "IntrospectionTokenVerifier": "ResourceServer(verifier=Introspection(…))",
        **_each("ResourceServer(resource=…, issuers=[…])", "RemoteAuthProvider AuthSettings"),
        "GitHubProvider": "serve_http(…, auth=github(…)), from trio_mcp.auth",
        "GoogleProvider": "serve_http(…, auth=google(…)), from trio_mcp.auth",
        "AzureProvider": "serve_http(…, auth=entra(…)), from trio_mcp.auth",
        "Auth0Provider": "serve_http(…, auth=auth0(…)), from trio_mcp.auth",
        "AWSCognitoProvider": "serve_http(…, auth=cognito(…)), from trio_mcp.auth",
        "OIDCProxy": "serve_http(…, auth=oidc(…)), from trio_mcp.auth",
        "OAuthProxy": "serve_http(…, auth=oidc(…)), from trio_mcp.auth",
        "require_scopes": 'scopes=["…"] of the tool',
        "create_proxy": "Remote(…), mounted; or trio-mcp proxy",
        "StdioServerParameters": 'connect(["python", "server.py"])',
        "stdio_client": "connect([…])",
        **_each(
            'connect("https://…/mcp")',
            "streamable_http_client streamablehttp_client sse_client",
        ),
        **_each(
            "HttpOptions(auth=OAuth())",
            "OAuthClientProvider OAuthClientMetadata AuthorizationCodeResult",
        ),
        "TokenStorage": "TokenStore, from trio_mcp.auth",
        "ClientCredentialsOAuthProvider": "ClientCredentials, from trio_mcp.auth",
        "PrivateKeyJWTOAuthProvider": "ClientCredentials, from trio_mcp.auth",
        "IdentityAssertionOAuthProvider": "EnterpriseManaged, from trio_mcp.auth",
        "UrlElicitationRequiredError": "await context.elicit_url(…), in the tool",
        "ClientRequestContext": "Handlers(…), whose functions get the parameters",
        "stdio_server": "trio.run(serve, registry)",
        "ContentBlock": "any of the content classes, such as TextContent",
        **_each(
            "TextResourceContents or BlobResourceContents",
            "ReadResourceContents ReadResourceResult",
        ),
        "CompleteResult": "Completion",
        "ListRootsResult": "await context.roots()",
        "RootsCapability": "context.capabilities",
        **_each(
            _PROGRESS,
            "ProgressNotification ProgressNotificationParams ProgressToken Progress",
        ),
        **_each("Context, from trio_mcp", "ServerRequestContext RequestContext"),
        **_each(_NOTHING, "ListToolsResult ListResourcesResult ListPromptsResult"),
        "PaginatedRequestParams": "Registry(page_size=…)",
        **_each(_REQUEST, "ListToolsRequest CallToolRequest Request"),
        **_each(
            "AuditLog, from trio_mcp.middleware",
            "LoggingMiddleware StructuredLoggingMiddleware",
        ),
        "TimingMiddleware": "SlowCalls, from trio_mcp.middleware",
        "RateLimitingMiddleware": "RateLimit, from trio_mcp.middleware",
        "RetryMiddleware": "Retry, from trio_mcp.middleware",
        "ErrorHandlingMiddleware": "ShowErrors, from trio_mcp.middleware",
        "ResponseCachingMiddleware": "Cache, from trio_mcp.middleware",
        "ResponseLimitingMiddleware": "ResultSize, from trio_mcp.middleware",
        "StarletteWithLifespan": "the ASGI app that http_app(registry) makes",
        "FastMCPTransport": "connect(registry)",
        "create_connected_server_and_client_session": "connect(registry)",
        "OAuth": "HttpOptions(auth=OAuth())",
        "Provider": "Provider, from trio_mcp.compose",
        "lifespan": "an async context manager: Registry(lifespan=…)",
        "tool": "a function, and registry.add_tool",
        "resource": "a function, and registry.add_resource",
        "prompt": "a function, and registry.add_prompt",
        **_each("openapi(…, only=…, leave_out=…, resources=…)", "RouteMap MCPType"),
        "SkillsDirectoryProvider": "the extension Skills",
        "settings": "arguments of Registry, serve and serve_http",
        "PromptsAsTools": "searchable(registry, prompts=True)",
        "ResourcesAsTools": "searchable(registry, resources=True)",
        "Prompt": "a function with @registry.prompt",
        **_each("a function with @registry.resource", "Resource ResourceTemplate"),
        "Tool": "a function with @registry.tool; to describe one, ToolDescription",
        "FunctionTool": "a function with @registry.tool",
        "ToolTransformConfig": "Transform",
        "CallNext": "the call_next that an async function gets",
        "INVALID_PARAMS": "-32602",
        "INTERNAL_ERROR": "-32603",
        "METHOD_NOT_FOUND": "-32601",
        **_each("answer.accepted", "AcceptedElicitation DeclinedElicitation CancelledElicitation"),
        "ElicitationResult": "ElicitResult",
        "Resolve": "Annotated[T, Depends(f)], whose function asks: await context.elicit(…)",
        "InputRequiredResult": _ELICIT,
        **_each(_ELICIT, "InputRequest Elicit ElicitRequest ElicitRequestParams"),
        "ElicitRequestFormParams": _ELICIT,
        "ElicitRequestURLParams": "await context.elicit_url(…), in the tool",
        **_each(_SAMPLE, "Sample CreateMessageRequest CreateMessageRequestParams"),
        **_each(_ROOTS, "ListRoots ListRootsRequest"),
        "RequestStateSecurity": "Registry(state_keys=…)",
        "MISSING_REQUIRED_CLIENT_CAPABILITY": "-32021",
        **_each(_COMPLETION, "PromptReference ResourceTemplateReference"),
        **_each(_COMPLETION, "CompletionArgument CompletionContext"),
        "SetLevelRequestParams": _RESPECTED,
        **_each(_SUBSCRIBED, "SubscribeRequestParams UnsubscribeRequestParams"),
        "EmptyResult": "nothing: it is answered",
        **_each("EventStore, from trio_mcp", "EventCallback EventMessage"),
        "OpenAPIProvider": "openapi(…), from trio_mcp.compose.openapi",
        "ProxyClient": "Remote",
        "TransportSecuritySettings": "HttpPolicy(allowed_hosts=…, allowed_origins=…)",
        "OAuthProvider": "serve_http(…, auth=oidc(…)): people log in at a provider",
        "ServerSession": "context.ask, context.notify",
    },
    "server": {
        "tool": "@registry.tool",
        "resource": "@registry.resource(uri)",
        "prompt": "@registry.prompt",
        "completion": _COMPLETION,
        **_each(
            "registry.{}",
            "add_tool add_resource add_prompt remove_tool remove_prompt add_extension name "
            "instructions",
        ),
        "add_template": "registry.add_resource",
        **_each("Registry(middleware=[…])", "add_middleware middleware _call_tool_mcp"),
        "add_provider": "registry.mount",
        **_each(
            "registry.mount(…, tools={…: Transform(…)})",
            "add_transform add_tool_transformation",
        ),
        **_each(
            _LISTS,
            "list_tools get_tools get_tool list_resources list_resource_templates "
            "list_prompts get_resources get_resource_templates get_prompts _tool_manager",
        ),
        "_list_tools_mcp": "Registry(middleware=[…]), around requests",
        **_each(
            "an extension, for methods of one's own: registry.add_extension",
            "_lowlevel_server _mcp_server",
        ),
        **_each("registry.mount(other, prefix)", "mount import_server"),
        "as_proxy": "Remote(…), mounted; or trio-mcp proxy",
        "from_openapi": "openapi(…), from trio_mcp.compose.openapi",
        "from_fastapi": "from_fastapi(app), from trio_mcp.aio",
        "run": "trio.run(serve, registry), or trio-mcp serve",
        **_each("await serve(registry)", "run_async run_stdio_async"),
        **_each(_HTTP, "run_http_async run_streamable_http_async"),
        "run_sse_async": 'await serve_http(registry, sse_path="/sse")',
        **_each("http_app(registry)", "http_app streamable_http_app"),
        "sse_app": 'http_app(registry, sse_path="/sse")',
        "session_manager": "nothing: http_app has a lifespan of its own",
        "call_tool": "await registry.call(name, arguments)",
        "read_resource": "connect(registry), and client.read_resource",
        "get_prompt": "connect(registry), and client.get_prompt",
        "version": "registry.info.version",
        "auth": _AUTH,
        "get_context": "a parameter of type Context",
        "settings": "serve_http(registry, host=…, port=…)",
    },
    "context": {
        **_each(
            "context.{}",
            "debug info warning error elicit_url sample request_id close_sse_stream",
        ),
        "log": "context.log(level, …)",
        "report_progress": "context.progress(1, total=3)",
        "elicit": "context.elicit(message, Type)",
        "list_roots": "context.roots()",
        "client_id": "context.authorization.client_id, or context.client",
        "session_id": "context.connection_id",
        "client_capabilities": "context.capabilities",
        "client_supports_extension": "context.supports",
        "lifespan_context": "context.lifespan",
        "transport": "context.http, which is None over stdio",
        "input_responses": _ELICIT,
        "request_state": "nothing: a tool that asks runs again, with its answers",
        **_each(_NOTIFIED, "notify_tools_changed notify_prompts_changed notify_resources_changed"),
        "request_context": "context.lifespan, context.meta, context.request_id",
        "protocol_version": "context.revision",
        "headers": "context.http.headers",
        **_each(
            'context.state, of a tool with state="session" or another',
            "get_state set_state delete_state",
        ),
        "send_notification": "context.notify, or registry.notify_resource_updated",
        "notify_resource_updated": "registry.notify_resource_updated(uri)",
        "session": "context.ask, context.notify; for what else it is used, see the guide",
        **_each("the registry itself", "fastmcp mcp_server"),
    },
    "low-level server": {
        **_each(_NOTHING, "list_tools list_prompts list_resources list_resource_templates"),
        "call_tool": "registry.add_tool(function, name=…, input_schema=…), for each tool",
        "get_prompt": "@registry.prompt, for each prompt",
        "read_resource": "@registry.resource(uri), for each resource or template",
        "completion": _COMPLETION,
        "set_logging_level": _RESPECTED,
        "subscribe_resource": _SUBSCRIBED,
        **_each("nothing", "unsubscribe_resource progress_notification"),
        "request_context": "a parameter of type Context",
        **_each(
            "nothing: serve has them from the registry",
            "create_initialization_options get_capabilities notification_options",
        ),
        "run": "trio.run(serve, registry)",
        "name": "registry.name",
        "version": "registry.info.version",
        "streamable_http_app": "http_app(registry)",
    },
    "client": {
        **_each(
            "client.{}",
            "call_tool list_resources list_resource_templates list_prompts read_resource "
            "get_prompt complete ping is_connected server_info instructions",
        ),
        "list_tools": "client.tools",
        "set_logging_level": "client.set_log_level",
        **_each("client.subscribe", "listen subscribe_resource"),
        "initialize": "nothing: connect(…) does it",
        "initialize_result": "client.server_info, client.capabilities, client.instructions",
        "protocol_version": "client.revision",
        "server_capabilities": "client.capabilities",
        "session": "client.request, for any method",
        "send_request": "client.request",
        "send_roots_list_changed": "client.set_roots",
    },
    "connect option": {
        "headers": "http=HttpOptions(headers=…)",
        "auth": "http=HttpOptions(auth=…)",
        "verify": "http=HttpOptions(verify=…)",
        "env": "process_options=ProcessOptions(env=…)",
        "cwd": "process_options=ProcessOptions(cwd=…)",
        "timeout": "tool_timeout=, in seconds; request_timeout= for other requests",
        "read_timeout_seconds": "tool_timeout=; request_timeout= for other requests",
        "init_timeout": "connect_timeout=",
        "mode": 'era="modern" or era="legacy"',
        "roots": "handlers=Handlers(roots=[…])",
        **_each("handlers=Handlers(sampling=…)", "sampling_handler sampling_callback"),
        **_each("handlers=Handlers(elicitation=…)", "elicitation_handler elicitation_callback"),
        **_each("on_log=", "log_handler logging_callback"),
        "progress_handler": "on_progress= of each call",
    },
    "server option": {
        **_each(
            "Registry({}=)",
            "name title description version instructions website_url icons lifespan "
            "extensions cache_ttl cache_scope",
        ),
        "middleware": "Registry(middleware=), with async functions",
        "cache_hints": "Registry(cache_ttl=, cache_scope=)",
        "request_state_security": "Registry(state_keys=…)",
        "list_page_size": "Registry(page_size=)",
        "tools": "registry.add_tool(function), for each",
        "providers": "registry.mount, for each",
        "transforms": "registry.mount(…, tools={…: Transform(…)})",
        **_each(_AUTH, "auth auth_server_provider"),
        "token_verifier": "HttpPolicy(verify=…)",
        "tool_serializer": "CallToolResult([TextContent(…)], structured_content=…)",
        "mask_error_details": "middleware=[ShowErrors(…)], which says what is not masked",
        "strict_input_validation": "Registry(lenient_arguments=False)",
        "log_level": "logging.basicConfig(level=…)",
        "debug": "logging.basicConfig(level=logging.DEBUG)",
        "dependencies": "the project's pyproject.toml",
        "session_state_store": "serve_http(…, store=…), for all that is kept",
        **_each(
            "nothing: two of one name are a SchemaError",
            "on_duplicate warn_on_duplicate_tools warn_on_duplicate_resources "
            "warn_on_duplicate_prompts",
        ),
        **_each("serve_http(registry, {}=…)", "host port"),
        "json_response": "nothing: an answer is JSON unless something comes before it",
        "stateless_http": f"serve_http(…, {_STATELESS})",
        "include_tags": 'Registry(only=["tag:…"])',
        "exclude_tags": 'Registry(leave_out=["tag:…"])',
        "transport_security": _POLICY,
        "streamable_http_path": "serve_http(registry, path=…)",
        "event_store": "sessions=SessionOptions(event_store=…)",
    },
    "run option": {
        "transport": "trio.run(serve, registry), or serve_http",
        **_each("serve_http(registry, {}=…)", "host port"),
        **_each('serve_http(registry, path=…), "/mcp" by default', "path streamable_http_path"),
        "stateless_http": _STATELESS,
        "json_response": "nothing: an answer is JSON unless something comes before it",
        "middleware": f"{_POLICY}; or around the ASGI app of http_app(registry)",
        **_each(_POLICY, "transport_security host_origin_protection allowed_hosts allowed_origins"),
        "event_store": "sessions=SessionOptions(event_store=…)",
        "retry_interval": "sessions=SessionOptions(retry=…), in seconds",
        "show_banner": "nothing: there is none",
        "log_level": "logging.basicConfig(level=…)",
        "uvicorn_config": "uvicorn, with http_app(registry) of trio_mcp.aio",
    },
    "field": {
        "type": "nothing: the class says it",
        "readOnlyHint": "read_only_hint=",
        "destructiveHint": "destructive_hint=",
        "idempotentHint": "idempotent_hint=",
        "openWorldHint": "open_world_hint=",
        "mimeType": "mime_type=",
        "inputSchema": "input_schema=",
        "outputSchema": "output_schema=",
        "uriTemplate": "uri_template=",
        "isError": "is_error=",
        "structuredContent": "structured_content=",
        "lastModified": "last_modified=",
        "websiteUrl": "website_url=",
        "_meta": "meta=",
    },
    "tool option": {
        **_OPTIONS,
        "timeout": "timeout=, 60 seconds by default",
        "task": "task=True, with the extension Tasks",
        "output_schema": "output_schema=",
        "structured_output": "the function's return annotation",
        "serializer": "CallToolResult([TextContent(…)], structured_content=…)",
        "auth": 'scopes=["…"]',
        "run_in_thread": "nothing: plain functions run in threads",
        "app": "extensions={UI: App(…)}",
        "exclude_args": "Annotated[T, Depends(f)] for what is not the client's",
        **{hint: f'annotations={{"{hint}": …}}' for hint in _HINTS},
    },
    "resource option": {
        **_OPTIONS,
        "mime_type": "mime_type=",
        "uri": "the first argument",
        "auth": 'scopes=["…"]',
        "app": "the extension Apps",
    },
    "prompt option": {**_OPTIONS, "auth": 'scopes=["…"]'},
    "completion option": {},
    "default": {
        "Field": "the same",
        "Depends": "Depends, from trio_mcp",
        "CurrentContext": "a parameter of type Context",
        "Progress": _PROGRESS,
    },
    "generic": {
        "Context[…, …]": "Context, or Context[T] with the type of what the lifespan yields"
    },
    "implicit": {"None": "annotate it so: … | None"},
    "raised": {
        "McpError": "ToolError, or middleware=[ShowErrors(McpError)]; a model does not see it else"
    }
    | dict.fromkeys(
        ("Exception", "ValueError", "RuntimeError", "TypeError", "KeyError", "PermissionError"),
        "ToolError, or middleware=[ShowErrors(…)]; the text of any other stays in the log",
    ),
    "library": {
        "asyncio": _LOOP,
        "aiohttp": f"httpx, or {_LOOP}",
        "aiofiles": f"trio.open_file, or {_LOOP}",
        "redis.asyncio": f"coredis, or {_LOOP}",
        **_each(_LOOP, "aiosqlite asyncpg motor aioredis"),
    },
}
"""What a name is here, by kind and name."""

NOT_HERE: Final[Mapping[str, Names]] = {
    "import": {
        "Server": "Registry, with add_tool for each tool: see the guide",
        **_each(
            "people log in at a provider: serve_http(…, auth=oidc(…)) and others",
            "AuthorizationCode AuthorizationParams ClientRegistrationOptions "
            "OAuthAuthorizationServerProvider OAuthClientInformationFull OAuthToken "
            "RefreshToken",
        ),
        "VersionFilter": "a name of its own for each version",
        "FileSystemProvider": "registry.add_tool for each function",
        **_each(
            "context.sample for the client's model; else its own library",
            "AnthropicSamplingHandler OpenAISamplingHandler",
        ),
    },
    "server": {
        "custom_route": "an ASGI app: serve_http(registry, fallback=app); /health is there already",
        "enable": 'Registry(only=["tag:…"]), or visible=',
        "disable": 'Registry(leave_out=["tag:…"]), or visible=',
    },
    "context": {
        **_each(
            "Registry(visible=…), which is asked for each caller",
            "enable_components disable_components reset_visibility",
        ),
        "read_resource": "call the function behind it",
        **_each("call the functions behind them", "list_resources list_prompts"),
        "get_prompt": "call the function behind it",
    },
    "tool option": {"version": "a name of its own for each version", "enabled": _ENABLED},
    "resource option": {"version": "a URI of its own for each version", "enabled": _ENABLED},
    "prompt option": {"version": "a name of its own for each version", "enabled": _ENABLED},
    "server option": {
        "tasks": "task=True of each tool, with the extension Tasks",
        "sampling_handler": "context.sample for the client's model; else its own library",
        "sampling_handler_behavior": "context.sample, and an except for McpError",
    },
}
"""What there is no equivalent of, and what to do instead."""


def advice(kind: str, name: str) -> str:
    """Return what to write for a name that others have, as the end of a message, or nothing."""
    here = EQUIVALENTS[kind].get(name) or NOT_HERE.get(kind, {}).get(name)
    return "" if here is None else f"; here it is: {here}"


def missing(kind: str, owner: object, name: str) -> AttributeError:
    """Make the error for an attribute that an object does not have."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}{advice(kind, name)}"
    return AttributeError(text, name=name, obj=owner)
