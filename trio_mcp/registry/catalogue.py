"""The catalogue of a registry: what it offers, what it mounts, and what is open while it is served.

Authors work with the `Registry`, which has one. What serves or mounts a registry works with its
catalogue (`catalogue_of`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio
from attrs import evolve, field, frozen

from trio_mcp.background import of_this_run, run_all
from trio_mcp.loggers import logger_of
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.handlers import NO_EXTENSIONS, Handler
from trio_mcp.registry.kinds import LISTED, RefType, Table
from trio_mcp.registry.lifespan import Opened, opened
from trio_mcp.registry.options import CacheScope
from trio_mcp.registry.provider import Provider
from trio_mcp.registry.states import UsedStates
from trio_mcp.schema import SchemaError
from trio_mcp.schema.errors import errors_at
from trio_mcp.store.shared import shared_store
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import CAPABILITIES, METHODS, Method

# Many servers have tools and nothing else, and are started for every client.
if TYPE_CHECKING:
    from trio_mcp.layers.log_bridge import LogBridge
    from trio_mcp.registry.completions import Completer, Completers
    from trio_mcp.registry.context import Context
    from trio_mcp.registry.dependencies import Dependencies
    from trio_mcp.registry.extensions import Added, Extension, Extensions
    from trio_mcp.registry.middleware import OpenLifespan
    from trio_mcp.registry.mounting import Mount, View
    from trio_mcp.registry.prompts import Prompt
    from trio_mcp.registry.resources import Resource, ResourceTemplate
    from trio_mcp.registry.sealing import Sealer
    from trio_mcp.registry.selection import Selection, Visible
    from trio_mcp.registry.tools import Tool
    from trio_mcp.store.protocol import Store

logger = logger_of("trio_mcp")

D = TypeVar("D", "Tool", "Resource", "ResourceTemplate", "Prompt")

_CLOSED: Final = Opened()


@frozen(eq=False, kw_only=True, repr=False)
class CatalogueOptions:
    """The arguments of a `Registry` that say how what it has is shown and run."""

    page_size: int | None
    cache_ttl: float
    cache_scope: CacheScope
    filter_lists: bool
    state_keys: Sequence[str | bytes] | None = field(repr=False)
    state_ttl: float
    visible: Visible | None
    selection: Selection | None
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None
    """Opens what the handlers need; gets the registry."""
    around_requests: Sequence[Any] = ()
    """Middleware, the first one outermost."""
    around_calls: Sequence[Any] = ()
    """Likewise."""


class Catalogue(Provider):
    """What one registry has: its entries, those of what it mounts, and what is open for them."""

    def __init__(self, registry: Any, name: str, options: CatalogueOptions) -> None:
        super().__init__(name)
        self.registry: Final = registry
        self.options: Final = options
        self.extensions: Extensions | None = None
        self._own_extensions: Sequence[Added] = ()
        self.handshake_members: Mapping[str, Json] = {}
        """What the answer to `server/discover` or `initialize` has besides what a registry says."""
        self._own: Counter[Table] = Counter()  # entries that no provider has brought
        self._is_running = False
        self._shared = _CLOSED
        self._times_open = 0
        self.mounts: Sequence[Mount] = ()
        self._logged: set[str] = set()  # what is chosen and is not there
        self._shared_keys: Sequence[str] | None = None
        self._sealer: Sealer | None = None
        self.used_states: Final = UsedStates()
        self._own_store: Final = trio.lowlevel.RunVar["Store"]("store")

    # -- its own entries ------------------------------------------------------------------

    def register(self, table: Table, item: D) -> D:
        """Add an entry of the registry's own, and return it as it stands in the table."""
        item = self._extended(table, item)
        self._adopt(item)
        if item.name in self.table(table):
            what = f"{LISTED[table].label} {item.name!r}"
            raise SchemaError(f"{what} is registered already; names must be unique.")
        self.add(table, item)
        self._own[table] += 1
        placed: D = self._tables[table][item.name]  # with what this registry runs around it
        return placed

    def _adopt(self, item: Handler) -> None:
        if item.injection is not None:
            self.dependencies.adopt(item.injection)

    @cached_property
    def dependencies(self) -> Dependencies:
        from trio_mcp.registry.dependencies import Dependencies  # few functions have any

        return Dependencies(self.registry._prepared_dependency)

    def _extended(self, table: Table, item: D) -> D:
        """Have extensions check the options that an entry has for them."""
        if item.extensions is NO_EXTENSIONS:
            return item
        from trio_mcp.registry.extensions import Extensions

        kind, known = LISTED[table], self.extensions or Extensions()
        with errors_at(f"{kind.label} {item.name!r}"):
            kept, meta = known.options(kind.noun, item.name, item.extensions)
        shown = evolve(item.description, meta={**(item.description.meta or {}), **meta} or None)
        return evolve(item, extensions=MappingProxyType(kept), description=shown)

    def unregister(self, table: Table, name: str) -> None:
        """Remove an entry; raise `KeyError` if there is none, and `ValueError` if it is mounted."""
        if self.table(table)[name].origin is not None:
            what = f"{LISTED[table].label} {name!r:.200}"
            raise ValueError(f"{what} is a mounted part's: remove it there, or unmount the part")
        self.remove(table, name)
        self._own[table] -= 1

    def add_extension(self, extension: Extension) -> None:
        from trio_mcp.registry.extensions import added_by

        if self._times_open:
            raise RuntimeError(f"registry {self.name!r} is being served; add extensions before")
        if self.followers:
            raise SchemaError(f"registry {self.name!r} is mounted; add extensions before")
        own = (*self._own_extensions, added_by(extension))
        self._take_extensions(_extensions_of(own, self.mounts))
        self._own_extensions = own
        extension.added_to(self.registry)

    def _take_extensions(self, extensions: Extensions | None) -> None:
        self.extensions = extensions
        if extensions is not None:
            self._has_scopes |= any(method.scopes for method in extensions.methods.values())

    @property
    def methods(self) -> Mapping[str, Method]:
        return METHODS if self.extensions is None else self.extensions.rows

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the server: the kinds of entries that it has."""
        found = {kind.capability for table, kind in LISTED.items() if self._tables[table]}
        completions = {"completions"} if self.completes else set[str]()
        logging = {"logging"} if self.logs else set[str]()
        return frozenset[str]().union(found, completions, logging, self.declared_capabilities)

    def _has_own(self, *tables: Table) -> bool:
        """Whether it has entries of its own in some tables."""
        return any(self._own[table] for table in tables)

    @property
    def logs(self) -> bool:  # type: ignore[override]  # of others, it is an attribute
        mounted = any(mount.provider.logs for mount in self.mounts)
        return mounted or not self.mounts or self._has_own(*LISTED)

    def details_of(self, capability: str) -> Mapping[str, Json]:
        whole = CAPABILITIES[capability].details
        tables = [table for table, kind in LISTED.items() if kind.capability == capability]
        if not self.mounts or self._has_own(*tables):
            return whole
        found: dict[str, Json] = {}
        for provider in [mount.provider for mount in self.mounts]:
            declares = capability in provider.declared_capabilities
            if declares or any(provider.table(table) for table in tables):
                details = provider.details_of(capability)
                found |= {name: details[name] for name in details if not found.get(name)}
        return found

    def list_members(self, table: Table) -> Mapping[str, Json] | None:
        providers = [mount.provider for mount in self.mounts]
        provided = {provider: provider.list_members(table) for provider in providers}
        found = [members for members in provided.values() if members is not None]
        if not found:
            return None
        unsaid = (provider.table(table) for provider in provided if provided[provider] is None)
        if any(unsaid) or self._has_own(table):
            ttl, scope = round(self.options.cache_ttl * 1000), self.options.cache_scope
            found.append({"ttlMs": ttl, "cacheScope": scope})
        if len(found) == 1:
            return found[0]
        is_public = all(members.get("cacheScope") == "public" for members in found)
        ttl = min(members.get("ttlMs", 0) for members in found)
        return {"ttlMs": ttl, "cacheScope": "public" if is_public else "private"}

    def usual_timeout(self, limits: Limits) -> float:
        """Return the seconds that a call may take if its entry has no limit of its own."""
        return limits.tool_timeout if self.tool_timeout is None else self.tool_timeout

    def bridge_log(self) -> LogBridge:
        """Return the log bridge, made when it is first asked for."""
        from trio_mcp.layers.log_bridge import LogBridge

        if self.log_bridge is None:
            self.log_bridge = LogBridge()
            self.note_log_bridge()
        return self.log_bridge

    def share_state_keys(self, keys: Sequence[str]) -> None:
        """Take the keys that other processes have as well, unless the author gave some."""
        # Without the package nothing is sealed, and keys would be an error of the program's.
        if self.options.state_keys is None and find_spec("cryptography") is not None:
            self._shared_keys, self._sealer = keys, None

    @property
    def own_store(self) -> Store:
        """A store in memory, one for each run of Trio, where instances share none."""
        from trio_mcp.store.memory import MemoryStore  # few servers need one

        return of_this_run(self._own_store, MemoryStore)

    @property
    def sealer(self) -> Sealer:
        if self._sealer is None:
            from trio_mcp.registry.sealing import Sealer

            given = self.options.state_keys
            keys = self._shared_keys if given is None else given
            self._sealer = Sealer(keys, ttl=self.options.state_ttl)
        return self._sealer

    # -- providers ------------------------------------------------------------------------

    def mount(self, provider: Provider, view: View) -> None:
        from trio_mcp.registry.mounting import Mount, check_mount

        check_mount(self, provider, view)
        if self._times_open and provider.needs_running:
            raise RuntimeError(
                f"registry {self.name!r} is being served; mount {provider.name!r} before, or open "
                "it around all of it with `async with provider.running():`"
            )
        mount = Mount(self, provider, view)
        extensions = _extensions_of(self._own_extensions, [*self.mounts, mount])
        mount.open()
        self.mounts = (*self.mounts, mount)
        self._take_extensions(extensions)
        if provider.log_bridges_made:
            self.note_log_bridge()

    def unmount(self, provider: Provider) -> None:
        gone = [mount for mount in self.mounts if mount.provider is provider]
        if not gone:
            raise ValueError(f"{provider.name!r} is not mounted in {self.name!r}")
        for mount in gone:
            self.mounts = tuple(other for other in self.mounts if other is not mount)
            mount.close()
        if not self._times_open:  # or else it goes on until that ends
            self._take_extensions(_extensions_of(self._own_extensions, self.mounts))

    def in_order(self, table: Table) -> list[tuple[str, Any]]:
        """Return what lists show, by name: the registry's own first, then what each mount has.

        It is the same in each run, whichever of the mounted servers was there first.
        """
        items = list(self.table(table).items())  # threads may change the registry
        if self.mounts:
            items.sort(key=lambda item: () if item[1].origin is None else item[1].origin.rank)
        return items

    def note_filled(self) -> None:
        self._log_what_is_unknown()
        super().note_filled()

    def may_get(self, name: str) -> bool:
        return any(mount.may_get(name) for mount in self.mounts)

    @property
    def is_loaded(self) -> bool:  # type: ignore[override]  # of others, it is an attribute
        return all(mount.provider.is_loaded for mount in self.mounts)

    @property
    def declared_capabilities(self) -> Collection[str]:  # type: ignore[override]  # likewise
        return frozenset[str]().union(
            *(mount.provider.declared_capabilities for mount in self.mounts)
        )

    def servers(self) -> dict[str, str]:
        """Return the states of mounted servers elsewhere, by name, for `/health`."""
        found = {provider.name: provider.status for provider in self.all_providers()}
        return {name: status for name, status in found.items() if status is not None}

    def check_extensions(self, provider: Provider, prefix: str | None) -> None:
        if not isinstance(provider, Catalogue):
            return
        what = f"{provider.name!r} cannot be mounted in {self.name!r}"
        if provider.options.around_requests:
            raise SchemaError(
                f"{what}: it has middleware around requests, which are this registry's then; give "
                f"that to {self.name!r}, or have it go around calls"
            )
        for extension in provider.extensions or ():
            its = f"its extension {extension.identifier}"
            if self.extensions is not None and extension.identifier in self.extensions:
                if not extension.mountable:
                    raise SchemaError(
                        f"{what}: what {its} serves would be lost, as there is one here already; "
                        "give that to the one here"
                    )
            elif self._times_open or self.followers:
                is_what = "being served" if self._times_open else "mounted itself"
                raise SchemaError(
                    f"{what}, which is {is_what}: {its} would come too late; mount it before"
                )
            elif prefix is not None and not extension.mountable:
                raise SchemaError(
                    f"{what} with a prefix: {its} names what it serves by URIs of its own; leave "
                    "the prefix out"
                )

    # -- what providers have ------------------------------------------------------------------

    def around(self, item: Any) -> Any:
        """Add the registry's rules of visibility and its middleware to an entry."""
        selection = self.options.selection
        if selection is not None and not selection.shows(item.name, item.description):
            item = evolve(item, visible=(lambda caller: False,))
        if self.options.visible is not None:
            shows = partial(self.options.visible, item.description)
            item = evolve(item, visible=(*item.visible, shows))
        return self._with_middleware(item)

    def _with_middleware(self, item: Any) -> Any:
        if not self.options.around_calls:
            return item
        return evolve(item, middleware=tuple(self.options.around_calls))

    def watched(self, uri: str) -> None:
        for mount in self.mounts:
            mount.watch(uri)

    def unwatched(self, uri: str) -> None:
        for mount in self.mounts:
            mount.unwatch(uri)

    async def confirm(self, uris: Collection[str]) -> Collection[str]:
        if not self.mounts:
            return uris
        confirmed: set[str] = set()
        behind: dict[Mount, list[str]] = {}
        for uri in uris:
            found = self.find_resource(uri)
            origin = None if found is None else found[0].origin
            if origin is None:
                confirmed.add(uri)
            else:
                behind.setdefault(origin.mount, []).append(uri)

        async def ask(mount: Mount, named: list[str]) -> None:
            confirmed.update(await mount.confirm(named))

        await run_all([partial(ask, *asked) for asked in behind.items()])
        return confirmed

    def find_unlisted(self, uri: str) -> Resource | None:
        found = (mount.unlisted(uri) for mount in self.mounts)
        first = next((resource for resource in found if resource is not None), None)
        return None if first is None else self.around(first)

    @cached_property
    def completers(self) -> Completers:
        from trio_mcp.registry.completions import Completers

        versions = self.changes.versions
        return Completers(
            self.prompts, self.resources, self.resource_templates, versions, self._adopt
        )

    def find_completer(self, kind: RefType, target: str, argument: str) -> Completer:
        found = self.completers.find(kind, target, argument)
        return found if found.origin is None else self._with_middleware(found)

    @property
    def completes(self) -> bool:  # type: ignore[override]  # of others, it is an attribute
        own = bool((self.prompts or self.resource_templates) and self.completers)
        return own or any(mount.provider.completes for mount in self.mounts)

    def is_ready_for(self, caller: Context) -> bool:
        return all(mount.is_ready_for(caller) for mount in self.mounts)

    async def ready_for(self, caller: Context) -> None:
        late = [mount for mount in self.mounts if not mount.is_ready_for(caller)]
        await run_all([partial(mount.ready_for, caller) for mount in late])

    # -- lifespan -------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, limits: Limits | None) -> AsyncIterator[Any]:
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
        there = self._has_lifespan or self.extensions is not None
        closed = self._shared is _CLOSED
        return closed and (there or any(mount.provider.needs_running for mount in self.mounts))

    @property
    def shared_state(self) -> Any:
        return self._shared.state

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[Any]:
        """Open the registry's own lifespan alone, where it is mounted in another one."""
        if not self._has_lifespan or self._shared is not _CLOSED:
            yield self._shared.state
            return
        async with opened(self.name, self._open_own, limits) as state:
            yield state

    @asynccontextmanager
    async def _open_own(self) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            state = None
            if self.options.lifespan is not None:
                state = await stack.enter_async_context(self.options.lifespan(self.registry))
            for open_lifespan in self._lifespans_of_middleware():
                await stack.enter_async_context(open_lifespan())
            yield state

    def _lifespans_of_middleware(self) -> Sequence[OpenLifespan]:
        if not (self.options.around_requests or self.options.around_calls):
            return ()
        from trio_mcp.registry.middleware import lifespans_of

        return lifespans_of([*self.options.around_requests, *self.options.around_calls])

    @property
    def _has_lifespan(self) -> bool:
        return self.options.lifespan is not None or bool(self._lifespans_of_middleware())

    @asynccontextmanager
    async def opened(self, limits: Limits | None = None) -> AsyncIterator[Opened]:
        """Yield what `running` shares; outside of it, open the lifespans for the block.

        After the registry's own and those of its middleware come those of its providers, then those
        of extensions. They are closed in the opposite order.

        Raises:
            LifespanError: A lifespan failed when it was opened, or closed.
        """
        if self._shared is not _CLOSED:
            self._check_shares()
            yield self._shared
            return
        if not self._times_open and self.extensions is not None:
            # Some part of a part may have been unmounted, with what it had.
            self._take_extensions(_extensions_of(self._own_extensions, self.mounts))
        self._times_open += 1
        try:
            if not (self._has_lifespan or self.extensions is not None or self.mounts):
                self._log_what_is_unknown()
                yield Opened(store=shared_store())
            else:
                async with AsyncExitStack() as stack:
                    yield await self._open(stack, limits or Limits())
        finally:
            self._times_open -= 1

    def _log_what_is_unknown(self) -> None:
        """Log what is to be shown or hidden, and is not there: mostly because it is misspelt.

        Each is logged once. While a server elsewhere is not there, it cannot be known.
        """
        late = [mount for mount in self.mounts if mount.is_late and mount.view.chooses]
        problems = [problem for mount in late for problem in mount.unknown()]
        selection = self.options.selection
        if selection is not None:
            problems += [f"{self.name!r} has {problem}" for problem in selection.unknown(self)]
        for problem in problems:
            if problem not in self._logged:
                self._logged.add(problem)
                logger.warning("%s", problem)

    def _check_shares(self) -> None:
        """Refuse to share what was opened by `running` already, and keeps it for itself."""
        store = shared_store()
        for extension in self.extensions or ():
            if store not in (None, self._shared.store) and extension.shares:
                raise RuntimeError(
                    f"the extension {extension.identifier} was opened by Registry.running, without "
                    "the store that instances share: give it a store of its own, or leave "
                    "Registry.running to the server"
                )
        every = ("session", "caller", "handle", "new handle")
        if store not in (None, self._shared.store) and self.keeps_state(*every):
            raise RuntimeError(
                f"registry {self.name!r} was opened by Registry.running, without the store that "
                "instances share, and keeps state: leave Registry.running to the server"
            )

    def keeps_state(self, *scopes: str) -> bool:
        """Whether an entry keeps state that belongs to one of these."""
        tables = self._tables.values()
        return any(entry.state in scopes for table in tables for entry in table.values())

    async def _open(self, stack: AsyncExitStack, limits: Limits) -> Opened:
        found = Opened(await stack.enter_async_context(self.lifespan(limits)), shared_store())
        for provider in self.all_providers():
            found.providers[provider] = await stack.enter_async_context(provider.lifespan(limits))
        if found.providers:  # at the same time, however long each of them lets us wait
            await run_all([partial(provider.ready, limits) for provider in found.providers])
        for part in (self, *found.providers):
            if isinstance(part, Catalogue):
                part._log_what_is_unknown()
        for extension in self.extensions or ():
            serving = await stack.enter_async_context(
                extension.opened(self.registry, found, limits)
            )
            found.extensions[extension.identifier] = serving
        found.complete.set()
        return found


def _extensions_of(own: Sequence[Added], mounts: Sequence[Mount]) -> Extensions | None:
    """Gather the extensions of a registry and of what is mounted, or raise `SchemaError`."""
    mounted = [mount.provider for mount in mounts if isinstance(mount.provider, Catalogue)]
    if not (own or any(provider.extensions for provider in mounted)):
        return None
    from trio_mcp.registry.extensions import Extensions

    found = Extensions(own)
    for provider in mounted:
        if provider.extensions is not None:
            found.adopt(provider.extensions, provider)
    return found
