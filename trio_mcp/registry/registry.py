"""The registry: everything that a server offers, under one name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack, overload

import trio
from attrs import evolve

from trio_mcp.layers.binding import RefusedArguments, UncheckedArguments
from trio_mcp.layers.call import Call
from trio_mcp.public import public
from trio_mcp.registry.catalogue import Catalogue, CatalogueOptions
from trio_mcp.registry.checks import (
    check_bound,
    check_caching,
    check_payload,
    check_timeout,
    icons_of,
    is_text,
    scopes_of,
)
from trio_mcp.registry.describing import advising
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.functions import awaited
from trio_mcp.registry.options import (
    CacheScope,
    FileOptions,
    Icons,
    PromptOptions,
    ResourceOptions,
    ToolOptions,
)
from trio_mcp.registry.selection import Visible, checked_visible, selection_of
from trio_mcp.registry.tools import Tool, make_tool, unknown_tool
from trio_mcp.schema import ArgumentError, SchemaError
from trio_mcp.threads import offload
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import Implementation
from trio_mcp.wire.safe_repr import safe_repr

# Many servers have tools and nothing else, and are started for every client. What only the others
# need is imported where it is first used.
if TYPE_CHECKING:
    from trio_mcp.registry.extensions import Extension
    from trio_mcp.registry.middleware import CallMiddleware, Middleware
    from trio_mcp.registry.prompts import Prompt
    from trio_mcp.registry.provider import Provider
    from trio_mcp.registry.resources import Resource, ResourceTemplate
    from trio_mcp.registry.transform import Transform

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[["Registry"], AbstractAsyncContextManager[Any]]


@public
class Registry:
    """What a server offers: tools, resources, prompts and completions.

    Args:
        name: The server's name, for programs.
        version: The server's own version.
        title: The server's name, for people.
        description: One sentence that says what the server is for.
        instructions: How a model should use the server.
        website_url: Where to read about it.
        icons: Pictures for user interfaces.
        tool_timeout: Seconds that a tool may run, unless it has a time limit of its own; `None`
            for `Limits.tool_timeout`.
        page_size: Items in one page of a list; `None` for a single page, of up to 5000.
        cache_ttl: Seconds for which a client may keep a list without asking again.
        cache_scope: Whether clients may keep lists for everybody or for one caller alone.
        state_keys: Keys to encrypt what a client of a modern revision carries from one question to
            the next. The first one encrypts, all of them decrypt, so you can rotate keys. Servers
            that share their clients need the same keys. By default, each process makes its own.
        state_ttl: Seconds that a client has for its answers.
        scopes: What a caller's access token must allow for any request, where callers have one
            (over HTTP, see `ResourceServer`).
        filter_lists: Whether lists show a caller with an access token only what it may use.
        visible: Says whether a caller sees a tool, a resource, a template or a prompt: gets what
            the lists show of it, such as a `ToolDescription`, and the `Context` of the request.
            What a caller does not see is not there for it, wherever it asks. It must not wait.
        only: What clients see of what is registered or mounted: names of tools and prompts, URIs of
            resources, and `tag:` with a tag for all that have it. `None` for everything. When
            serving begins, the log names what there is not.
        leave_out: Likewise, what clients do not see.
        lifespan: Makes an async context manager that opens what the server needs and yields it.
            It is entered once when serving begins and left when serving has ended. Handlers find
            what it yielded in `Context.lifespan`.
        extensions: Extensions of the protocol that the server has (`ServerExtension`).
        lenient_arguments: Whether an argument that is a text is read as JSON where a tool's schema
            has no use for a text: `'["a"]'` for a list, `"3"` for a number, as many models write
            them. It has to fit then.
        dereference_schemas: Whether lists show the schemas of tools without references (`$ref`),
            which several hosts do not follow: what is referred to is written out where it is used,
            unless it refers to itself or the schema would get too large. Those of servers elsewhere
            stay as they are (see `Remote`).
        middleware: Async functions that run around every request, or around every call of a tool,
            resource, prompt or completion; the first one is outermost. Each takes an `McpRequest`
            or an `McpCall`, which the annotation of its first parameter says, and `call_next`. It
            returns the members of a result, or what a function may return. Calls are those of
            `Registry.call`, too. They may be async callable objects, such as those in
            ``trio_mcp.middleware``, which say in an attribute `around` what they go around:
            `requests` or `calls`. If one has a method `lifespan` that makes an async context
            manager, that is entered after the registry's.

    Raises:
        TypeError: The lifespan is not a function, or the middleware no list of async functions that
            say what they go around.
        ValueError: The name or the version is empty, or a number is out of range.

    Example:
        >>> registry = Registry("calculator", version="1.0")
        >>> @registry.tool
        ... async def add(a: float, b: float) -> float:
        ...     "Add two numbers."
        ...     return a + b
    """

    _catalogue_type: ClassVar[type[Catalogue]] = Catalogue

    @advising("server option")
    def __init__(
        self,
        name: str,
        version: str = "0.0.0",
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Icons | None = None,
        tool_timeout: float | None = None,
        page_size: int | None = None,
        cache_ttl: float = 0.0,
        cache_scope: CacheScope = "public",
        state_keys: Sequence[str | bytes] | None = None,
        state_ttl: float = 600.0,
        scopes: Sequence[str] = (),
        filter_lists: bool = False,
        visible: Visible | None = None,
        only: Collection[str] | None = None,
        leave_out: Collection[str] = (),
        lifespan: Lifespan | None = None,
        extensions: Sequence[Extension] = (),
        lenient_arguments: bool = True,
        dereference_schemas: bool = True,
        middleware: Sequence[Middleware | CallMiddleware] = (),
    ) -> None:
        if not name or not version:
            raise ValueError("a registry needs a name and a version that are not empty")
        check_timeout(tool_timeout, "tool_timeout")
        check_bound("page_size", page_size)
        check_caching(cache_ttl, cache_scope)
        check_timeout(state_ttl, "state_ttl")
        if state_keys is not None:
            from trio_mcp.registry.sealing import check_keys

            check_keys(state_keys, "state_keys")
        if lifespan is not None and not callable(lifespan):
            raise TypeError(f"lifespan must be a function, not {type(lifespan).__name__}")
        if instructions is not None and not is_text(instructions):
            raise ValueError(f"instructions must be a string, not {safe_repr(instructions)}")
        self.info: Final = Implementation(
            name,
            version,
            title=title,
            description=description,
            website_url=website_url,
            icons=icons_of(icons),
        )
        check_payload(self.info)
        self.instructions: Final = instructions
        self._lenient_arguments = lenient_arguments
        self._dereference_schemas = dereference_schemas
        around_requests, around_calls = _sorted_out(middleware)
        options = CatalogueOptions(
            page_size=page_size,
            cache_ttl=cache_ttl,
            cache_scope=cache_scope,
            filter_lists=filter_lists,
            state_keys=state_keys,
            state_ttl=state_ttl,
            visible=checked_visible(visible),
            selection=selection_of(only, leave_out),
            lifespan=lifespan,
            around_requests=around_requests,
            around_calls=around_calls,
        )
        own = self._catalogue = self._catalogue_type(self, name, options)
        own.tool_timeout = tool_timeout
        own.scopes = scopes_of(scopes)
        self.tools: Final[Mapping[str, Tool]] = own.tools
        """The tools by name, in the order of their registration."""
        self.resources: Final[Mapping[str, Resource]] = own.resources
        """The resources by URI, in the order of their registration."""
        self.resource_templates: Final[Mapping[str, ResourceTemplate]] = own.resource_templates
        """The resource templates by URI template, in the order of their registration."""
        self.prompts: Final[Mapping[str, Prompt]] = own.prompts
        """The prompts by name, in the order of their registration."""
        if not isinstance(extensions, Iterable):
            raise TypeError("extensions must be a list, even of one: put it in brackets")
        for extension in extensions:
            self.add_extension(extension)

    @property
    def name(self) -> str:
        """The server's name, for programs."""
        return self._catalogue.name

    if not TYPE_CHECKING:  # where any name would do then

        def __getattr__(self, name: str) -> Any:
            from trio_mcp.registry.equivalents import missing

            raise missing("server", self, name)

    # -- tools ----------------------------------------------------------------------------

    @overload
    def tool(self, function: F) -> F: ...

    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, function: F | None = None, **options: Unpack[ToolOptions]) -> Any:
        """Register a function as a tool. Use it as a decorator, with or without arguments.

        Name, description and schemas come from the function: its name, its docstring, its
        annotations and defaults. An `async def` function runs on the Trio thread, a plain `def`
        function in a worker thread.

        Args:
            function: The function.
            **options: See below.
            name: The tool's name, instead of the function's.
            title: A name for people.
            description: What it does, instead of the docstring.
            input_schema: A JSON Schema for the arguments, instead of the annotations. The function
                gets the arguments as they came. The properties must be parameters of the function.
            output_schema: A JSON Schema for the result, instead of the return annotation.
            parameters: Explicit declarations, instead of the annotations or of `input_schema`.
            annotations: Hints on what the tool does to the world: `ToolAnnotations`, or a dict with
                their names on the wire, such as `{"readOnlyHint": True}`.
            icons: Pictures for user interfaces.
            meta: The tool's `_meta`, under namespaced keys.
            timeout: Seconds that a call may take, instead of the registry's. Clients see this, or
                the registry's `tool_timeout`, in the tool's `_meta`, as `trio-mcp/timeout`.
            max_concurrent: How many calls of it may run at the same time in a process, for all
                clients together. Further calls wait, and their time counts. A call that goes on
                after its time limit, such as one in a worker thread, keeps its slot until it ends.
            scopes: What a caller's access token must allow, where callers have one.
            tags: Words to choose it by, in `Registry`, `mount` and `visible`. They are in its
                `_meta`, as `fastmcp.tags`.
            task: `True`, or `TaskOptions`, if calls outlive their connection, for clients that know
                of tasks. The registry must have the extension `Tasks`.
            state: What it keeps in `Context.state` from call to call: state of a `session`, of a
                `caller`, or of a `handle`, which callers give as the argument `handle`. One that
                begins such a state, and gives out `context.state.handle`, has `new handle`.
            extensions: What extensions are to know of it, by their identifiers.

        Returns:
            The function, unchanged.

        Raises:
            SchemaError: The tool cannot be registered; the message says why and what to do.
            TypeError: There is no such option.

        Example:
            >>> registry = Registry("clock")
            >>> @registry.tool(title="What time is it?", timeout=1.0)
            ... async def now() -> str:
            ...     return "noon"
        """
        register = _registering(lambda each: self.add_tool(each, **options))
        return register if function is None else register(function)

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        """Register a function as a tool. The options are those of `tool`.

        Raises:
            SchemaError: As for `tool`.
        """
        tool = make_tool(
            self._prepared(function), usual_timeout=self._catalogue.tool_timeout, **options
        )
        if not self._lenient_arguments:
            tool = evolve(tool, lenient=False)
        if self._dereference_schemas:
            tool = tool.dereferenced()
        return self._catalogue.register("tools", tool)

    def _prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make of a function what is run; a subclass may have functions of another kind."""
        return awaited(function, partial(trio.to_thread.run_sync, abandon_on_cancel=True))

    def _prepared_dependency(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Likewise, of a function that fills parameters of others."""
        return self._prepared(function)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Calls that are running are not disturbed.

        Raises:
            KeyError: There is no tool of that name.
            ValueError: It comes from what is mounted here.
        """
        self._catalogue.unregister("tools", name)

    def _find_tool(self, name: Json) -> Tool:
        """Return the tool of that name.

        Raises:
            McpError: There is none (`-32602`).
        """
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise unknown_tool(name, list(self.tools))
        return tool

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        limits: Limits | None = None,
    ) -> Any:
        """Run a tool directly, with the same checks and time limit as for a client.

        Args:
            name: The tool's name.
            arguments: Its arguments, as JSON.
            limits: Has the time limit to use if neither the tool nor the registry has one.

        Returns:
            What the function returned; of a tool of a server elsewhere, a `CallToolResult`.

        Raises:
            McpError: There is no such tool, the arguments do not fit it (`-32602`), or its result
                does not fit its output schema (`-32603`).
            trio.TooSlowError: Its time limit passed.
            Exception: Whatever the function raises.
        """
        from trio_mcp.registry.direct import DirectCall, checked_value  # few call their own tools

        check_trio("Registry.call")
        tool = self._find_tool(name)
        try:
            tool, keywords = _ready(tool, {} if arguments is None else dict(arguments))
        except ArgumentError as error:
            raise McpError(INVALID_PARAMS, f"Invalid arguments for tool {name}: {error}") from None
        async with self._catalogue.opened() as open_:
            limits = limits or Limits()
            usual = self._catalogue.usual_timeout(limits)
            with trio.fail_after(usual if tool.timeout is None else tool.timeout):
                try:
                    if isinstance(keywords, UncheckedArguments):
                        keywords = await keywords.bind()
                    exchange = DirectCall(self._catalogue, limits, open_, tool)
                    value = await tool.run(Call(exchange, tool, tool.name, keywords))
                except RefusedArguments as error:
                    raise McpError(INVALID_PARAMS, str(error)) from None
        return await offload(partial(checked_value, tool), value)

    # -- resources ------------------------------------------------------------------------

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource or resource template. Use it as a decorator.

        A URI with variables, such as `users://{id}/profile` (RFC 6570), is a template: the
        function has a parameter for each variable, and gets it in the type of its annotation. It
        returns the contents: text, bytes, anything that can be JSON, or contents objects. If there
        is nothing at the URI, it raises `ResourceNotFound`.

        Args:
            uri: The URI, or the URI template.
            **options: See below.
            name: Its name for programs, instead of the function's.
            title: A name for people.
            description: What it is, instead of the docstring.
            mime_type: Its media type; by default, it depends on what the function returns.
            size: Its size in bytes; not for templates.
            annotations: Hints on how to use it.
            icons: Pictures for user interfaces.
            meta: Its `_meta`, under namespaced keys.
            timeout: Seconds that reading it may take, instead of the registry's `tool_timeout`.
            cache_ttl: Seconds for which a client may keep what it has read.
            cache_scope: Whether clients may keep it for everybody (`public`) or for one caller.
            scopes: What a caller's access token must allow, where callers have one.
            tags: Words to choose it by, in `Registry`, `mount` and `visible`. They are in its
                `_meta`, as `fastmcp.tags`.
            state: What it keeps in `Context.state` from call to call, as for `tool`.
            extensions: What extensions are to know of it, by their identifiers.

        Raises:
            SchemaError: It cannot be registered; the message says why and what to do.

        Example:
            >>> registry = Registry("users")
            >>> @registry.resource("users://{id}/profile")
            ... async def profile(id: int) -> dict[str, object]:
            ...     return {"id": id}
        """
        if not isinstance(uri, str):  # a decorator without its argument would register nothing
            raise SchemaError("a resource needs a URI: write @registry.resource('config://app')")

        return _registering(lambda each: self.add_resource(uri, each, **options))

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> Resource | ResourceTemplate:
        """Register a function as a resource. The options are those of `resource`.

        Raises:
            SchemaError: As for `resource`.
        """
        from trio_mcp.registry.resources import Resource, make_resource

        made = make_resource(self._prepared(function), uri, **options)
        if isinstance(made, Resource):
            return self._catalogue.register("resources", made)
        return self._catalogue.register("resource_templates", made)

    def add_directory(
        self,
        uri: str,
        root: str | Path,
        *,
        max_bytes: int = 10 * 1024 * 1024,
        **options: Unpack[FileOptions],
    ) -> ResourceTemplate:
        """Register the files below a directory.

        No URI leads outside it: `..`, encoded separators and symbolic links (even those that stay
        inside) are not followed. Text files are served as text, others as bytes. The variable is
        completed with the names of files.

        Args:
            uri: A template with one variable that takes slashes, such as `docs:///{+path}`.
            root: The directory.
            max_bytes: The largest file that is served.
            **options: Those of `resource`.

        Raises:
            SchemaError: As for `resource`, or the URI does not have exactly one variable.
        """
        from trio_mcp.registry.directories import DirectoryResource
        from trio_mcp.registry.resources import ResourceTemplate

        check_bound("max_bytes", max_bytes)
        directory = DirectoryResource(uri, Path(root), max_bytes, options.get("mime_type"))
        shown: FileOptions = {**directory.described, **options}
        made = self.add_resource(uri, directory.function, **shown)
        assert isinstance(made, ResourceTemplate)
        self.add_completion(directory.complete, resource=uri, argument=directory.variable)
        return made

    def add_file(
        self,
        uri: str,
        path: str | Path,
        *,
        max_bytes: int = 10 * 1024 * 1024,
        **options: Unpack[ResourceOptions],
    ) -> Resource:
        """Register a file as a resource. It is read each time.

        Args:
            uri: Its URI.
            path: Where it is.
            max_bytes: The largest size that is served.
            **options: Those of `resource`.

        Raises:
            SchemaError: As for `resource`, or the URI has variables.
        """
        from trio_mcp.registry.directories import FileResource
        from trio_mcp.registry.resources import Resource

        check_bound("max_bytes", max_bytes)
        file = FileResource(uri, Path(path), max_bytes, options.get("mime_type"))
        shown: ResourceOptions = {**file.described, **options}
        made = self.add_resource(uri, file.read, **shown)
        assert isinstance(made, Resource)
        return made

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template. Reads that are running are not disturbed.

        Raises:
            KeyError: There is none with that URI.
            ValueError: It comes from what is mounted here.
        """
        self._catalogue.unregister(
            "resources" if uri in self.resources else "resource_templates", uri
        )
        self._catalogue.completers.forget("ref/resource", uri)

    # -- prompts --------------------------------------------------------------------------

    @overload
    def prompt(self, function: F) -> F: ...

    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(self, function: F | None = None, **options: Unpack[PromptOptions]) -> Any:
        """Register a function as a prompt. Use it as a decorator, with or without arguments.

        Its parameters are the prompt's arguments. They are always sent as text; if a parameter is
        not annotated as text, it is parsed as JSON. The function returns what the user says: text,
        a content block, a `PromptMessage`, or a list of these.

        Args:
            function: The function.
            **options: See below.
            name: The prompt's name, instead of the function's.
            title: A name for people.
            description: What it is for, instead of the docstring.
            icons: Pictures for user interfaces.
            meta: The prompt's `_meta`, under namespaced keys.
            timeout: Seconds that it may take, instead of the registry's `tool_timeout`.
            scopes: What a caller's access token must allow, where callers have one.
            tags: Words to choose it by, in `Registry`, `mount` and `visible`. They are in its
                `_meta`, as `fastmcp.tags`.
            state: What it keeps in `Context.state` from call to call, as for `tool`.
            extensions: What extensions are to know of it, by their identifiers.

        Raises:
            SchemaError: The prompt cannot be registered; the message says why and what to do.

        Example:
            >>> registry = Registry("reviews")
            >>> @registry.prompt
            ... async def review(code: str, language: str = "python") -> str:
            ...     return f"Review this {language} code: {code}"
        """
        register = _registering(lambda each: self.add_prompt(each, **options))
        return register if function is None else register(function)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> Prompt:
        """Register a function as a prompt. The options are those of `prompt`.

        Raises:
            SchemaError: As for `prompt`.
        """
        from trio_mcp.registry.prompts import make_prompt

        prompt = make_prompt(self._prepared(function), **options)
        return self._catalogue.register("prompts", prompt)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Requests that are running are not disturbed.

        Raises:
            KeyError: There is no prompt of that name.
            ValueError: It comes from what is mounted here.
        """
        self._catalogue.unregister("prompts", name)
        self._catalogue.completers.forget("ref/prompt", name)

    # -- completion -----------------------------------------------------------------------

    def completion(
        self,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str,
        timeout: float | None = None,
    ) -> Callable[[F], F]:
        """Register a function that completes an argument. Use it as a decorator.

        The function takes `value`, what has been typed so far. It can also take `arguments`, the
        other arguments that were chosen already, as text. It returns a list of strings, the best
        first, or a `Completion`.

        Args:
            prompt: The prompt that the argument belongs to; or
            resource: the URI template that the variable belongs to.
            argument: The argument or variable.
            timeout: Seconds that it may take.

        Raises:
            SchemaError: There is no such prompt, template or argument, or the function has the
                wrong parameters.

        Example:
            >>> registry = Registry("reviews")
            >>> @registry.prompt
            ... async def review(language: str) -> str:
            ...     return f"Review this {language} code."
            >>> @registry.completion(prompt="review", argument="language")
            ... async def languages(value: str) -> list[str]:
            ...     return [name for name in ("python", "rust") if name.startswith(value)]
        """
        return _registering(  # a function, and no list, which `add_completion` takes as well
            lambda each: self._catalogue.completers.add(
                self._prepared(each), prompt, resource, argument, timeout
            )
        )

    def add_completion(
        self,
        source: Callable[..., Any] | Sequence[str],
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str,
        timeout: float | None = None,
    ) -> None:
        """Register a completion: a function as for `completion`, or a list of values.

        Raises:
            SchemaError: As for `completion`.
        """
        from trio_mcp.registry.completions import from_values

        function = self._prepared(source) if callable(source) else from_values(source)
        self._catalogue.completers.add(function, prompt, resource, argument, timeout)

    # -- extensions -----------------------------------------------------------------------

    def add_extension(self, extension: Extension) -> None:
        """Add an extension of the protocol.

        Add it before the tools, resources and prompts that have options for it, and before the
        registry is served.

        Args:
            extension: A `ServerExtension`.

        Raises:
            SchemaError: It clashes with the protocol or another extension; the message says how.
            RuntimeError: The registry is being served.
        """
        self._catalogue.add_extension(extension)

    # -- logging --------------------------------------------------------------------------

    def log_handler(self, level: int | str = logging.INFO) -> logging.Handler:
        """Make a handler that forwards the standard library's log to clients.

        Attach it to a logger. When a tool, resource, prompt or completion of this registry logs
        something while it serves a request, in a task or a worker thread, the caller of that
        request gets the message, if it wants messages of that level. Messages that are logged
        elsewhere, tracebacks and the log of this library are not forwarded. In a flood, only some
        messages are sent.

        Args:
            level: The least severe level to forward.

        Raises:
            ValueError: There is no such level.
            TypeError: The level is neither a number nor a name.

        Example:
            >>> registry = Registry("clock")
            >>> handler = registry.log_handler(logging.WARNING)
            >>> logging.getLogger("clock").addHandler(handler)
        """
        return self._catalogue.bridge_log().handler(level)

    # -- mounting and serving -------------------------------------------------------------

    def mount(
        self,
        provider: Registry | Provider,
        prefix: str | None = None,
        *,
        only: Collection[str] | None = None,
        tools: Mapping[str, Transform | None] | None = None,
        resources: Mapping[str, Transform | None] | None = None,
        prompts: Mapping[str, Transform | None] | None = None,
    ) -> None:
        """Offer what another registry, or any other provider, offers.

        A provider may also be a server elsewhere. What is added to it or removed from it later
        appears and disappears here, too, and clients are notified. A registry can be mounted in
        several others, and mount others itself.

        A call runs as in the provider: with the state of the provider's lifespan, its time limit,
        its middleware around calls, and its scopes besides those of the tool. The lifespan is
        opened after this registry's own, once, however often the provider is mounted, and closed
        before it.

        Args:
            provider: A `Registry`, or another `Provider`.
            prefix: Tools and prompts appear as `prefix_name`. Resources have it as the first
                segment: `config://app` appears as `config://prefix/app`. `None` leaves all names
                as they are.
            only: The names of tools and prompts and the URIs of resources that appear, as the
                provider has them, and `tag:` with a tag for all that have it; `None` for all.
            tools: By the provider's names, how tools appear: a `Transform`, or `None` for one that
                does not appear. `tag:` with a tag means all that have it and are not named.
            resources: Likewise, by URI or URI template.
            prompts: Likewise, by name.

        Raises:
            SchemaError: The prefix cannot be part of a name, a name is taken, there is nothing of
                a name or tag that is to appear otherwise (of a server elsewhere, the log says so
                when serving begins), the provider would contain itself, or what its
                extensions serve cannot be here. Nothing is mounted then.
            RuntimeError: The registry is being served, and the provider has to be opened first.

        Example:
            >>> weather = Registry("weather")
            >>> @weather.tool
            ... async def forecast(city: str) -> str:
            ...     return f"Sunny in {city}"
            >>> registry = Registry("assistant")
            >>> registry.mount(weather, "weather")
            >>> list(registry.tools)
            ['weather_forecast']
        """
        from trio_mcp.registry.mounting import View

        shown = {"tools": tools or {}, "resources": resources or {}, "prompts": prompts or {}}
        self._catalogue.mount(_mountable(provider), View(prefix, only, shown))

    def unmount(self, provider: Registry | Provider) -> None:
        """Unmount a provider, wherever it is in this registry. Calls go on that are running.

        While the registry is served, the provider's lifespan stays open; it is closed when that
        ends.

        Raises:
            ValueError: It is not mounted.
        """
        self._catalogue.unmount(_mountable(provider))

    def notify_resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that its contents have changed.

        You can call this in any thread. Several calls before a notification is sent become one.
        """
        self._catalogue.changes.resource_updated(uri)

    def running(self, *, limits: Limits | None = None) -> AbstractAsyncContextManager[Any]:
        """Open the lifespan for everything that is served inside the block.

        Without it, each `serve…` opens the lifespan for itself. Inside the block, all connections
        share one.

        Args:
            limits: `Limits.startup_timeout` is how long it may take to open, and
                `Limits.lifespan_timeout` to close.

        Yields:
            What the lifespan yielded; `None` without a lifespan.

        Raises:
            RuntimeError: The registry is running already.
            LifespanError: The lifespan failed when it was opened, or closed.
        """
        return self._catalogue.running(limits)


def catalogue_of(registry: Registry) -> Catalogue:
    """Return the catalogue of a registry, for what serves or mounts it."""
    return registry._catalogue


def _ready(tool: Tool, arguments: Json) -> tuple[Tool, Any]:
    """Return the tool to run, which is another one if it is to call that, and its arguments."""
    if tool.delegate is None:
        return tool, tool.bind(arguments)
    from trio_mcp.registry.delegation import target_of

    return target_of(tool, arguments, lambda entry: True).ready(tool)


def _mountable(provider: Any) -> Any:
    return provider._catalogue if isinstance(provider, Registry) else provider


def _registering(add: Callable[[Any], object]) -> Callable[[F], F]:
    """Make a decorator that registers a function, and leaves it as it is."""

    def register(function: F) -> F:
        add(function)
        return function

    return register


def _sorted_out(middleware: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if not middleware:
        return (), ()
    from trio_mcp.registry.middleware import sorted_out

    return sorted_out(middleware)


def check_registry(registry: object) -> None:
    """Raise `TypeError`, which says what to do, unless this is a registry."""
    if not isinstance(registry, Registry):
        raise TypeError(
            f"a Registry is needed, not {type(registry).__name__}: make one with "
            "Registry('name'), register tools with @registry.tool, and serve that"
        )
