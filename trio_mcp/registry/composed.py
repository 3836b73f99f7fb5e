"""A part with parts of its own: what is mounted in it, and one lifespan around all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self

from attrs import evolve

from trio_mcp.background import run_all
from trio_mcp.registry.context import Context
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.lifespan import Opened, opened
from trio_mcp.registry.part import Part, RefType, Table
from trio_mcp.schema import SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits

# Many servers have tools and nothing else, and are started anew for every client.
if TYPE_CHECKING:
    from trio_mcp.registry.completers import Completers
    from trio_mcp.registry.completions import Completer
    from trio_mcp.registry.extensions import Extensions
    from trio_mcp.registry.middleware import OpenLifespan
    from trio_mcp.registry.mounting import Mount
    from trio_mcp.registry.resources import Resource
    from trio_mcp.registry.transform import Transform

Visible = Callable[[Any, Context], bool]
"""Says whether a caller sees something, by what lists show of it."""

_CLOSED: Final = Opened()


class Composed(Part):
    """A part that others can be mounted in (see `Registry`, which is one)."""

    def __init__(
        self, name: str, lifespan: Callable[[Self], AbstractAsyncContextManager[Any]] | None
    ) -> None:
        super().__init__(name)
        self.extensions: Extensions | None = None
        """What its extensions add; `None` where there are none."""
        self.middleware: Sequence[Any] = ()
        """What runs around requests, the first one outermost."""
        self.call_middleware: Sequence[Any] = ()
        """What runs around calls, the first one outermost."""
        self._visible: Visible | None = None
        self._lifespan: Any = lifespan
        self._is_running = False
        self._shared = _CLOSED
        self._times_open = 0
        self._mounts: list[Mount] = []

    # -- parts ----------------------------------------------------------------------------

    def mount(
        self,
        part: Part,
        prefix: str | None = None,
        *,
        only: Collection[str] | None = None,
        tools: Mapping[str, Transform | None] | None = None,
        resources: Mapping[str, Transform | None] | None = None,
        prompts: Mapping[str, Transform | None] | None = None,
    ) -> None:
        """Have what a part offers appear in this registry as well.

        The part may be another registry, or a server elsewhere. What is added to it or removed
        from it later appears and disappears here, too, and clients are told. It can be mounted in
        several places, and have parts itself.

        A call runs as in the part: with the state of the part's lifespan, its time limit, its
        middleware around calls, and its scopes besides those of the tool. The lifespan is opened
        after this registry's own, once, however often the part is mounted, and closed before it.

        Args:
            part: A `Registry`, or another `Part`.
            prefix: Tools and prompts appear as `prefix_name`. Resources have it as the first
                segment: `config://app` appears as `config://prefix/app`. `None` leaves all names
                as they are.
            only: The names of tools and prompts and the URIs of resources that appear, as the part
                has them; `None` for all.
            tools: By the part's names, how tools appear: a `Transform`, or `None` for one that
                does not appear.
            resources: Likewise, by URI or URI template.
            prompts: Likewise, by name.

        Raises:
            SchemaError: The prefix cannot be part of a name, a name is taken, there is nothing of
                a name that is to appear otherwise, the part would contain itself, or it needs an
                extension that this registry does not have. Nothing is mounted then.
            RuntimeError: The registry is being served, and the part has to be opened first.

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
        from trio_mcp.registry.mounting import Mount, View, check_mount

        view = View(prefix, only, tools or {}, resources or {}, prompts or {})
        check_mount(self, part, view)
        if self._times_open and part.needs_running:
            raise RuntimeError(
                f"registry {self.name!r} is being served; mount {part.name!r} before, or open it "
                "around all of it with `async with part.running():`"
            )
        mount = Mount(self, part, view)
        mount.open()
        self._mounts.append(mount)

    def unmount(self, part: Part) -> None:
        """Take a part out, wherever it is mounted in this registry. Calls go on that are running.

        While the registry is served, the part's lifespan stays open; it is closed when that ends.

        Raises:
            ValueError: It is not mounted.
        """
        gone = [each for each in self._mounts if each.part is part]
        if not gone:
            raise ValueError(f"{part.name!r} is not mounted in {self.name!r}")
        for mount in gone:
            self._mounts.remove(mount)
            mount.close()

    @property
    def mounts(self) -> Sequence[Mount]:
        """Where parts are mounted in it, in their order."""
        return tuple(self._mounts)

    @property
    def is_settled(self) -> bool:  # type: ignore[override]  # of others, it is an attribute
        """Whether its tables are filled: they are, but for what servers elsewhere have."""
        return all(each.part.is_settled for each in self._mounts)

    @property
    def may_offer(self) -> Collection[str]:  # type: ignore[override]  # likewise
        """What there may be, because parts may have it later."""
        return frozenset[str]().union(*(each.part.may_offer for each in self._mounts))

    def health(self) -> dict[str, Json]:
        """Tell how the parts stand that are servers elsewhere, by their names, for `/health`."""
        told = {each.name: each.status for each in self.all_parts()}
        parts = {name: status for name, status in told.items() if status is not None}
        return {"servers": parts} if parts else {}

    def check_extensions(self, part: Part) -> None:
        """Make sure that there is here what a part needs of extensions and of middleware.

        Raises:
            SchemaError: There is not.
        """
        if not isinstance(part, Composed):
            return
        what = f"{part.name!r} cannot be mounted in {self.name!r}"
        if part.middleware:
            raise SchemaError(
                f"{what}: it has middleware around requests, which are this registry's then; give "
                f"that to {self.name!r}, or have it around calls (call_middleware)"
            )
        for each in part.extensions or ():
            if self.extensions is None or each.identifier not in self.extensions:
                raise SchemaError(
                    f"{what}: it has the extension {each.identifier}, which is for the registry "
                    f"that is served to have; give one to {self.name!r} as well"
                )
            if not each.mountable:
                raise SchemaError(
                    f"{what}: what its extension {each.identifier} serves would be lost; give that "
                    f"to the one of {self.name!r}"
                )

    # -- what parts have --------------------------------------------------------------------

    def placements(self, table: Table, item: Any) -> Iterator[tuple[Part, Table, Any]]:
        """Yield where an entry has to be put, with what this registry runs around it."""
        return super().placements(table, self._around(item))

    def _around(self, item: Any) -> Any:
        """Add to an entry what this registry asks for who sees it, and runs around its calls."""
        if self._visible is not None:
            shows = partial(self._visible, item.description)
            item = evolve(item, visible=(*item.visible, shows))
        return self._with_middleware(item)

    def _with_middleware(self, item: Any) -> Any:
        """Put this registry's middleware around what an entry of a part brings along."""
        if not self.call_middleware:
            return item
        inner = item.middleware
        if item.origin is not None and not inner:
            inner = (item.origin.enter_all,)  # each goes by the names of its own registry
        return evolve(item, middleware=(*self.call_middleware, *inner))

    def watched(self, uri: str) -> None:
        """Have the part that a resource comes from tell of its changes."""
        for each in self._mounts:
            each.watch(uri)

    def unwatched(self, uri: str) -> None:
        """Have it tell of them no more."""
        for each in self._mounts:
            each.unwatch(uri)

    def find_unlisted(self, uri: str) -> Resource | None:
        """Find a part that says what is at a URI that is in no list."""
        found = (each.unlisted(uri) for each in self._mounts)
        first = next((each for each in found if each is not None), None)
        return None if first is None else self._around(first)

    @cached_property
    def completers(self) -> Completers:
        """Who completes which argument."""
        from trio_mcp.registry.completers import Completers

        versions = self.changes.versions
        return Completers(self.prompts, self.resources, self.resource_templates, versions)

    def find_completer(self, kind: RefType, target: str, argument: str) -> Completer:
        """Return who completes an argument; where nobody does, somebody who knows nothing.

        Raises:
            McpError: There is no such prompt, template or argument (`-32602`).
        """
        found = self.completers.find(kind, target, argument)
        return found if found.origin is None else self._with_middleware(found)

    @property
    def completes(self) -> bool:  # type: ignore[override]  # of others, it is an attribute
        """Whether anything can be completed."""
        own = bool((self.prompts or self.resource_templates) and self.completers)
        return own or any(each.part.completes for each in self._mounts)

    # -- lifespan -------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, *, limits: Limits | None = None) -> AsyncIterator[Any]:
        """Open the lifespan for everything that is served inside the block.

        Without it, each `serve…` opens the lifespan for itself. Inside the block, all connections
        share one.

        Args:
            limits: `Limits.lifespan_timeout` is how long it may take to close.

        Yields:
            What the lifespan yielded; `None` without a lifespan.

        Raises:
            RuntimeError: The registry is running already.
            LifespanError: The lifespan failed when it was opened, or closed.
        """
        check_trio("Registry.running")
        if self._is_running:
            raise RuntimeError(f"registry {self.name!r} is running already")
        self._is_running = True
        try:
            async with self.opened(limits) as shared:
                self._shared = shared
                try:
                    yield shared.state
                finally:
                    self._shared = _CLOSED
        finally:
            self._is_running = False

    @property
    def needs_running(self) -> bool:
        """Whether there is a lifespan, of its own or of what it has, and it is not open."""
        there = self._has_lifespan or self.extensions is not None
        closed = self._shared is _CLOSED
        return closed and (there or any(each.part.needs_running for each in self._mounts))

    @property
    def shared_state(self) -> Any:
        """What its lifespan yielded, inside of `running`; else `None`."""
        return self._shared.state

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[Any]:
        """Open its own lifespan alone, where the registry is a part of another one."""
        if not self._has_lifespan or self._shared is not _CLOSED:
            yield self._shared.state
            return
        async with opened(self.name, self._open_own, limits.lifespan_timeout) as state:
            yield state

    @asynccontextmanager
    async def _open_own(self) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            state = None
            if self._lifespan is not None:
                state = await stack.enter_async_context(self._lifespan(self))
            for each in self._lifespans_of_middleware():
                await stack.enter_async_context(each())
            yield state

    def _lifespans_of_middleware(self) -> Sequence[OpenLifespan]:
        if not (self.middleware or self.call_middleware):
            return ()
        from trio_mcp.registry.middleware import lifespans_of

        return lifespans_of([*self.middleware, *self.call_middleware])

    @property
    def _has_lifespan(self) -> bool:
        return self._lifespan is not None or bool(self._lifespans_of_middleware())

    @asynccontextmanager
    async def opened(self, limits: Limits | None = None) -> AsyncIterator[Opened]:
        """Yield what `running` shares; outside of it, open the lifespans for the block.

        After the registry's own and those of its middleware come those of its parts, then those of
        extensions. They are closed in the opposite order.

        Raises:
            LifespanError: A lifespan failed when it was opened, or closed.
        """
        if self._shared is not _CLOSED:
            yield self._shared
            return
        self._times_open += 1
        try:
            if not (self._has_lifespan or self.extensions is not None or self._mounts):
                yield Opened()
            else:
                async with AsyncExitStack() as stack:
                    yield await self._open(stack, limits or Limits())
        finally:
            self._times_open -= 1

    async def _open(self, stack: AsyncExitStack, limits: Limits) -> Opened:
        found = Opened(await stack.enter_async_context(self.lifespan(limits)))
        for part in self.all_parts():
            found.parts[part] = await stack.enter_async_context(part.lifespan(limits))
        await _all_ready(found.parts, limits)
        for each in self.extensions or ():
            serving = await stack.enter_async_context(each.opened(self, found, limits))
            found.extensions[each.identifier] = serving
        found.complete.set()
        return found


async def _all_ready(parts: Collection[Part], limits: Limits) -> None:
    """Wait until all parts are ready, however long each of them lets us wait."""
    if parts:
        await run_all([partial(each.ready, limits) for each in parts])
