"""The registry: everything that a server offers, under one name."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, overload

import trio

from trio_mcp.registry.context import Context
from trio_mcp.registry.results import check_result, make_result
from trio_mcp.registry.tools import Tool, make_tool, unknown_tool
from trio_mcp.schema import ArgumentError, Parameter, SchemaError
from trio_mcp.wire.errors import INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import Icon, Implementation, ToolAnnotations

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[["Registry"], AbstractAsyncContextManager[Any]]

_CLOSED: Final = object()


class Registry:
    """What a server offers, and who it is.

    Args:
        name: The server's name, for programs.
        version: The server's own version.
        title: The server's name, for people.
        description: One sentence on what the server is for.
        instructions: How a model should use the server.
        website_url: Where to read about it.
        icons: Pictures for user interfaces.
        tool_timeout: Seconds that a tool may run, unless it says otherwise itself; `None` for
            `Limits.tool_timeout`.
        page_size: Items in one page of a list; `None` for all in one.
        cache_ttl: Seconds for which a client may keep a list without asking again.
        cache_scope: Whether lists may be kept for everybody or for one caller alone.
        lifespan: Makes an async context manager that opens what the server needs and yields it.
            It is entered once when serving begins and left when serving has ended; handlers find
            what it yielded in `Context.state`.

    Raises:
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
        icons: Sequence[Icon] | None = None,
        tool_timeout: float | None = None,
        page_size: int | None = None,
        cache_ttl: float = 0.0,
        cache_scope: Literal["public", "private"] = "public",
        lifespan: Lifespan | None = None,
    ) -> None:
        if not name or not version:
            raise ValueError("a registry needs a name and a version that are not empty")
        if tool_timeout is not None and not tool_timeout > 0:
            raise ValueError(f"tool_timeout must be more than 0 seconds, not {tool_timeout!r}")
        if page_size is not None and page_size < 1:
            raise ValueError(f"page_size must be at least 1, not {page_size!r}")
        if cache_ttl < 0:
            raise ValueError(f"cache_ttl must be at least 0 seconds, not {cache_ttl!r}")
        self.info: Final = Implementation(
            name,
            version,
            title=title,
            description=description,
            website_url=website_url,
            icons=list(icons) if icons else None,
        )
        self.instructions: Final = instructions
        self.tool_timeout: Final = tool_timeout
        self.page_size: Final = page_size
        self.cache_ttl: Final = cache_ttl
        self.cache_scope: Final = cache_scope
        self._lifespan = lifespan
        self._is_running = False
        self._shared_state: Any = _CLOSED
        self._tools: dict[str, Tool] = {}
        self.tools: Final[Mapping[str, Tool]] = MappingProxyType(self._tools)
        """The tools by name, in the order of their registration."""
        self.changes = 0
        """How often something was added or removed."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self.info.name

    # -- tools ----------------------------------------------------------------------------

    @overload
    def tool(self, function: F) -> F: ...

    @overload
    def tool(
        self,
        *,
        name: str | None = ...,
        title: str | None = ...,
        description: str | None = ...,
        input_schema: Mapping[str, Json] | None = ...,
        output_schema: Mapping[str, Json] | None = ...,
        parameters: Sequence[Parameter] | None = ...,
        annotations: ToolAnnotations | None = ...,
        icons: Sequence[Icon] | None = ...,
        meta: Mapping[str, Json] | None = ...,
        timeout: float | None = ...,
    ) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Register a function as a tool; a decorator, with or without arguments.

        Name, description and schemas come from the function: its name, its docstring, its
        annotations and defaults. An `async def` function runs on the Trio thread, a plain `def`
        function in a worker thread.

        Args:
            function: The function.
            **options: The following.
            name: The tool's name, in place of the function's.
            title: A name for people.
            description: What it does, in place of the docstring.
            input_schema: A JSON Schema for the arguments, in place of the annotations; the
                function gets them as they came.
            output_schema: A JSON Schema for the result, in place of the return annotation.
            parameters: Explicit declarations, in place of the annotations.
            annotations: Hints on what the tool does to the world.
            icons: Pictures for user interfaces.
            meta: The tool's `_meta`, under namespaced keys.
            timeout: Seconds that a call may take, in place of the registry's.

        Returns:
            The function, unchanged.

        Raises:
            SchemaError: The tool cannot be registered; the message says why and what to do.

        Example:
            >>> registry = Registry("clock")
            >>> @registry.tool(title="What time is it?", timeout=1.0)
            ... async def now() -> str:
            ...     return "noon"
        """
        if function is None:
            return partial(self._add, **options)
        return self._add(function, **options)

    def _add(self, function: F, **options: Any) -> F:
        self.add_tool(function, **options)
        return function

    def add_tool(self, function: Callable[..., Any], **options: Any) -> Tool:
        """Register a function as a tool. The options are those of `tool`.

        Raises:
            SchemaError: As for `tool`.
        """
        tool = make_tool(function, **options)
        if tool.name in self._tools:
            raise SchemaError(f"Tool {tool.name!r} is registered already; names must be unique.")
        self._tools[tool.name] = tool
        self.changes += 1
        return tool

    def remove_tool(self, name: str) -> None:
        """Take a tool out. Calls that run already are not disturbed.

        Raises:
            KeyError: There is no tool of that name.
        """
        del self._tools[name]
        self.changes += 1

    def find_tool(self, name: Json) -> Tool:
        """Return the tool of that name.

        Raises:
            McpError: There is none (`-32602`).
        """
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise unknown_tool(name, list(self._tools))
        return tool

    def timeout_of(self, tool: Tool, limits: Limits) -> float:
        """Return the seconds that a call of the tool may take."""
        if tool.timeout is not None:
            return tool.timeout
        return limits.tool_timeout if self.tool_timeout is None else self.tool_timeout

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        limits: Limits | None = None,
    ) -> Any:
        """Run a tool directly, with the checks and the time limit that a client's call has.

        Args:
            name: The tool's name.
            arguments: Its arguments, as JSON.
            limits: Where the time limit comes from if neither tool nor registry has one.

        Returns:
            What the function returned.

        Raises:
            McpError: There is no such tool, the arguments do not fit it (`-32602`), or its result
                does not fit its output schema (`-32603`).
            trio.TooSlowError: It outran its time limit.
            Exception: Whatever the function raises.
        """
        tool = self.find_tool(name)
        try:
            keywords = tool.bind({} if arguments is None else dict(arguments))
        except ArgumentError as error:
            raise McpError(INVALID_PARAMS, f"Invalid arguments for tool {name}: {error}") from None
        async with self.state() as state:
            with trio.fail_after(self.timeout_of(tool, limits or Limits())):
                value = await tool.run(keywords, lambda: Context(tool=name, state=state))
        if tool.check_output is not None:
            check_result(tool, make_result(tool, value))
        return value

    # -- lifespan -------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Open the lifespan for everything that is served inside the block.

        Without it each `serve…` opens the lifespan for itself. With it, connections that are
        served side by side share one.

        Yields:
            What the lifespan yielded; `None` without a lifespan.

        Raises:
            RuntimeError: The registry is running already.
        """
        if self._is_running:
            raise RuntimeError(f"registry {self.name!r} is running already")
        self._is_running = True
        try:
            async with self.state() as state:
                self._shared_state = state
                try:
                    yield state
                finally:
                    self._shared_state = _CLOSED
        finally:
            self._is_running = False

    @property
    def needs_running(self) -> bool:
        """Whether there is a lifespan, and it is not open."""
        return self._lifespan is not None and self._shared_state is _CLOSED

    @asynccontextmanager
    async def state(self) -> AsyncIterator[Any]:
        """Yield the state that `running` shares; outside of it, open the lifespan for the block."""
        if self._shared_state is not _CLOSED:
            yield self._shared_state
        elif self._lifespan is None:
            yield None
        else:
            async with self._lifespan(self) as state:
                yield state
