"""The registry: everything that a server offers, under one name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

import trio
from attrs import evolve

from trio_mcp.public import public
from trio_mcp.registry.checks import (
    check_bound,
    check_caching,
    check_payload,
    check_timeout,
    icons_of,
    is_text,
    scopes_of,
)
from trio_mcp.registry.composed import Composed, Visible
from trio_mcp.registry.context import Context, inside
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.functions import is_async, takes
from trio_mcp.registry.handlers import NO_EXTENSIONS, Forwarded, Handler, RefusedArguments
from trio_mcp.registry.lifespan import Opened
from trio_mcp.registry.options import (
    CacheScope,
    FileOptions,
    Icons,
    PromptOptions,
    ResourceOptions,
    ToolOptions,
)
from trio_mcp.registry.part import NOUN_OF, Table
from trio_mcp.registry.results import Prepared, prepare_result
from trio_mcp.registry.tools import Tool, make_tool, unknown, unknown_tool
from trio_mcp.schema import ArgumentError, SchemaError
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import METHODS, Method
from trio_mcp.wire.payloads import CallToolResult, Implementation
from trio_mcp.wire.safe_repr import safe_repr

# Many servers have tools and nothing else, and are started anew for every client. What only the
# others need is imported where it is first used.
if TYPE_CHECKING:
    from trio_mcp.registry.extensions import Extension, Offered
    from trio_mcp.registry.middleware import CallMiddleware, Middleware
    from trio_mcp.registry.prompts import Prompt
    from trio_mcp.registry.resources import Resource, ResourceTemplate
    from trio_mcp.registry.sealing import Sealer

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=Handler)
D = TypeVar("D", "Tool", "Resource", "ResourceTemplate", "Prompt")
M = TypeVar("M")
Lifespan = Callable[["Registry"], AbstractAsyncContextManager[Any]]

_CLOSED: Final = Opened()


@public
class Registry(Composed):
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
        lifespan: Makes an async context manager that opens what the server needs and yields it.
            It is entered once when serving begins and left when serving has ended. Handlers find
            what it yielded in `Context.state`.
        extensions: Extensions of the protocol that the server has (`ServerExtension`).
        middleware: Async functions that run around every request, the first one outermost: each
            gets an `McpRequest` and `call_next`, and returns the members of a result. They may be
            async callable objects, such as those in ``trio_mcp.middleware``. If one has a method
            `lifespan` that makes an async context manager, that is entered after the registry's.
        call_middleware: Async functions that run around every call of a tool, resource, prompt or
            completion, in the task and the time limit of the call, also by `Registry.call`: each
            gets an `McpCall` and `call_next`, and returns what a function may return.

    Raises:
        TypeError: The lifespan is no function, or the middleware no list of async functions.
        ValueError: The name or the version is empty, or a number is out of range.

    Example:
        >>> registry = Registry("calculator", version="1.0")
        >>> @registry.tool
        ... async def add(a: float, b: float) -> float:
        ...     "Add two numbers."
        ...     return a + b
    """

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
        lifespan: Lifespan | None = None,
        extensions: Sequence[Extension] = (),
        middleware: Sequence[Middleware] = (),
        call_middleware: Sequence[CallMiddleware] = (),
    ) -> None:
        if not name or not version:
            raise ValueError("a registry needs a name and a version that are not empty")
        check_timeout(tool_timeout, "tool_timeout")
        check_bound("page_size", page_size)
        check_caching(cache_ttl, cache_scope)
        check_timeout(state_ttl, "state_ttl")
        if isinstance(state_keys, str | bytes):
            raise ValueError("state_keys must be a list, even of one key: put it in brackets")
        if lifespan is not None and not callable(lifespan):
            raise TypeError(f"lifespan must be a function, not {type(lifespan).__name__}")
        if instructions is not None and not is_text(instructions):
            raise ValueError(f"instructions must be a string, not {safe_repr(instructions)}")
        super().__init__(name, lifespan)
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
        self.tool_timeout = tool_timeout
        self.page_size: Final = page_size
        self.cache_ttl: Final = cache_ttl
        self.cache_scope: Final = cache_scope
        self.scopes = scopes_of(scopes)
        self.filter_lists: Final = filter_lists
        self._visible = _checked_visible(visible)
        self.middleware = _checked_middleware("middleware", middleware)
        self.call_middleware = _checked_middleware("call_middleware", call_middleware)
        self._state_keys = state_keys
        self._state_ttl = state_ttl
        self._sealer: Sealer | None = None
        if not isinstance(extensions, Iterable):
            raise TypeError("extensions must be a list, even of one: put it in brackets")
        for extension in extensions:
            self.add_extension(extension)

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
            max_concurrent: How many calls of it may run at the same time, for all clients
                together. Further calls wait, and their time counts. A call that goes on after its
                time limit, such as one in a worker thread, keeps its slot until it ends.
            scopes: What a caller's access token must allow, where callers have one.
            task: `True`, or `TaskOptions`, if calls outlive their connection, for clients that know
                of tasks. The registry must have the extension `Tasks`.
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
        tool = make_tool(self._prepared(function), usual_timeout=self.tool_timeout, **options)
        return self._register("tools", self._extended(tool, "tool"))

    def _prepared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make of a function what is run, for a subclass whose functions are of another kind."""
        return function

    def _register(self, table: Table, item: H) -> H:
        if item.name in self.table(table):
            what = f"{NOUN_OF[table]} {item.name!r}"
            raise SchemaError(f"{what} is registered already; names must be unique.")
        self.put(table, item)
        placed: H = self._tables[table][item.name]  # with what this registry runs around it
        return placed

    def _extended(self, item: D, kind: Offered) -> D:
        """Have extensions check what something is registered with for them."""
        if item.extensions is NO_EXTENSIONS:
            return item
        from trio_mcp.registry.extensions import Extensions

        try:
            kept, meta = (self.extensions or Extensions()).options(kind, item.name, item.extensions)
        except SchemaError as error:
            raise SchemaError(f"{kind.capitalize()} {item.name!r}: {error}") from None
        shown = evolve(item.description, meta={**(item.description.meta or {}), **meta} or None)
        return evolve(item, extensions=MappingProxyType(kept), description=shown)

    def _remove(self, table: Table, name: str) -> None:
        if self.table(table)[name].origin is not None:
            what = f"{NOUN_OF[table]} {name!r:.200}"
            raise ValueError(f"{what} is a mounted part's: remove it there, or unmount the part")
        self.take(table, name)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Calls that are running are not disturbed.

        Raises:
            KeyError: There is no tool of that name.
            ValueError: It comes from a part that is mounted.
        """
        self._remove("tools", name)

    def find_tool(self, name: Json) -> Tool:
        """Return the tool of that name.

        Raises:
            McpError: There is none (`-32602`).
        """
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise unknown_tool(name, list(self.tools))
        return tool

    def usual_timeout(self, limits: Limits) -> float:
        """Return the seconds that a call may take, where its handler does not say."""
        return limits.tool_timeout if self.tool_timeout is None else self.tool_timeout

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
        check_trio("Registry.call")
        tool = self.find_tool(name)
        try:
            keywords = tool.bind({} if arguments is None else dict(arguments))
        except ArgumentError as error:
            raise McpError(INVALID_PARAMS, f"Invalid arguments for tool {name}: {error}") from None
        async with self.opened() as open_:
            usual = self.usual_timeout(limits or Limits())
            with trio.fail_after(usual if tool.timeout is None else tool.timeout):
                try:
                    value = await tool.run(keywords, partial(_context_of, tool, open_))
                except RefusedArguments as error:
                    raise McpError(INVALID_PARAMS, str(error)) from None
        if isinstance(value, Forwarded):
            assert tool.origin is not None  # only parts have such
            make = partial(_result_of, value, tool.origin)
            return await trio.to_thread.run_sync(make) if value.is_much else make()
        prepared = value if isinstance(value, Prepared) else None
        if prepared is None and tool.check_output is not None:
            prepared = prepare_result(tool, value)
        if prepared is None:
            return value
        _ = prepared.result  # which is refused here if it does not fit
        return prepared.value

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
            return self._register("resources", self._extended(made, "resource"))
        return self._register("resource_templates", self._extended(made, "resource template"))

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
        from trio_mcp.registry.directories import Directory
        from trio_mcp.registry.resources import ResourceTemplate

        check_bound("max_bytes", max_bytes)
        directory = Directory(uri, Path(root), max_bytes, options.get("mime_type"))
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
        """Register a file as a resource. It is read anew each time.

        Args:
            uri: Its URI.
            path: Where it is.
            max_bytes: The largest size that is served.
            **options: Those of `resource`.

        Raises:
            SchemaError: As for `resource`, or the URI has variables.
        """
        from trio_mcp.registry.directories import File
        from trio_mcp.registry.resources import Resource

        check_bound("max_bytes", max_bytes)
        file = File(uri, Path(path), max_bytes, options.get("mime_type"))
        shown: ResourceOptions = {**file.described, **options}
        made = self.add_resource(uri, file.read, **shown)
        assert isinstance(made, Resource)
        return made

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template. Reads that are running are not disturbed.

        Raises:
            KeyError: There is none with that URI.
            ValueError: It comes from a part that is mounted.
        """
        self._remove("resources" if uri in self.resources else "resource_templates", uri)
        self.completers.forget("ref/resource", uri)

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

        prompt = self._extended(make_prompt(self._prepared(function), **options), "prompt")
        return self._register("prompts", prompt)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Requests that are running are not disturbed.

        Raises:
            KeyError: There is no prompt of that name.
            ValueError: It comes from a part that is mounted.
        """
        self._remove("prompts", name)
        self.completers.forget("ref/prompt", name)

    def find_prompt(self, name: str) -> Prompt:
        """Return the prompt of that name.

        Raises:
            McpError: There is none (`-32602`).
        """
        prompt = self.prompts.get(name)
        if prompt is None:
            raise unknown("prompt", name, list(self.prompts))
        return prompt

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
            ...     return [each for each in ("python", "rust") if each.startswith(value)]
        """
        return _registering(  # a function, and no list, which `add_completion` takes as well
            lambda each: self.completers.add(
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
        self.completers.add(function, prompt, resource, argument, timeout)

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
        from trio_mcp.registry.extensions import Extensions

        if self._times_open:
            raise RuntimeError(f"registry {self.name!r} is being served; add extensions before")
        if self.followers:
            raise SchemaError(f"registry {self.name!r} is mounted; add extensions before")
        added = self.extensions or Extensions()
        added.add(extension)
        self.extensions = added
        self.has_scopes |= any(each.scopes for each in added.methods.values())
        extension.added_to(self)

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods that there are: those of the protocol, and those of extensions."""
        return METHODS if self.extensions is None else self.extensions.rows

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
        from trio_mcp.registry.log_bridge import LogBridge

        if self.log_bridge is None:
            self.log_bridge = LogBridge()
        return self.log_bridge.handler(level)

    # -- what there is --------------------------------------------------------------------

    @property
    def offers(self) -> frozenset[str]:
        """The kinds of things that there are; each is a capability of the server."""
        there = {
            "tools": bool(self.tools),
            "resources": bool(self.resources or self.resource_templates),
            "prompts": bool(self.prompts),
            "completions": self.completes,
            "logging": True,
        }
        found = frozenset(offer for offer, is_there in there.items() if is_there)
        return found.union(self.may_offer) if self._mounts else found

    def share_state_keys(self, keys: Sequence[str | bytes]) -> None:
        """Take these keys, which other processes have as well, unless it has some of its own."""
        # Without the package nothing is sealed, and keys would be an error of the program's.
        if self._state_keys is None and find_spec("cryptography") is not None:
            self._state_keys, self._sealer = keys, None

    @property
    def sealer(self) -> Sealer:
        """Seals what a client carries from one question to the next."""
        if self._sealer is None:
            from trio_mcp.registry.sealing import Sealer

            self._sealer = Sealer(self._state_keys, ttl=self._state_ttl)
        return self._sealer


def _registering(add: Callable[[Any], object]) -> Callable[[F], F]:
    """Make a decorator that registers a function, and leaves it as it is."""

    def register(function: F) -> F:
        add(function)
        return function

    return register


def _checked_visible(visible: Visible | None) -> Visible | None:
    if visible is None or (callable(visible) and not is_async(visible) and takes(visible, 2)):
        return visible
    raise TypeError(
        "visible must be a plain function, which does not wait, and takes what is shown and the "
        f"caller, not {visible!r:.100}"
    )


def _checked_middleware(name: str, middleware: Sequence[M]) -> tuple[M, ...]:
    if not middleware:
        return ()
    from trio_mcp.registry.middleware import middleware_of

    return middleware_of(name, middleware)


def _result_of(value: Forwarded, origin: Any) -> CallToolResult:
    return from_wire(origin.outward(value.result), CallToolResult)


def _context_of(tool: Tool, opened: Opened) -> Context:
    """Make the context of a call that no client has made."""
    context = Context(tool=tool.name, state=opened.state, opened=opened)
    origin = tool.origin
    if origin is None or tool.middleware:
        return context
    return inside(context, origin.part, origin.target(tool.name))


def check_registry(registry: object) -> None:
    """Make sure that there is a registry to serve.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(registry, Registry):
        raise TypeError(
            f"a Registry is needed, not {type(registry).__name__}: make one with "
            "Registry('name'), register tools with @registry.tool, and serve that"
        )
