"""One registry that is being served: what all of its connections share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import trio

from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.lifespan import Opened
from trio_mcp.server.lists import ListCache
from trio_mcp.server.session import Session
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.revisions import META_SERVER_INFO, Revision

if TYPE_CHECKING:  # few servers count their calls
    from trio_mcp.layers.observing import Observer

OnRefusal = Callable[[str, str | None, str], None]


class Server:
    """A registry, and what its lifespan yielded, for any number of connections.

    Args:
        opened: What is open while it is served; `None` where `open` is called later.
        wrapping: By method, the extensions that run something around it, where these are not all.
        middleware: What runs around requests, where that is not the registry's.
        observer: Counts each call that runs a handler.
        on_refusal: Called with kind, name (if there is such a thing) and outcome of each call that
            is refused before.
    """

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        opened: Opened | None = None,
        observer: Observer | None = None,
        on_refusal: OnRefusal | None = None,
        wrapping: Mapping[str, list[Any]] | None = None,
        middleware: Sequence[Any] | None = None,
    ) -> None:
        self.registry = registry
        self.catalogue = catalogue_of(registry)
        self.limits = limits
        self.usual_timeout = self.catalogue.usual_timeout(limits)
        """Seconds that a call may take, where the handler does not say."""
        extensions = self.catalogue.extensions
        if wrapping is None:
            wrapping = {} if extensions is None else extensions.wrapping
        self.wrapping: Mapping[str, list[Any]] = wrapping
        """By method, the extensions that run something around it."""
        own = self.catalogue.options.around_requests
        self.middleware: Sequence[Any] = own if middleware is None else middleware
        """What runs around requests, the first one outermost."""
        self.chains: Any = None
        """The layers around its calls (`Chains`); for the dispatcher to keep here."""
        self.handlers: Any = None
        """Who answers what; for the dispatcher to keep here at the first request."""
        self.observer = observer
        self.open(opened or Opened())
        self.threads = trio.CapacityLimiter(limits.max_worker_threads)
        self.lookups = trio.Lock()
        """Held while a few of the URIs of a long subscription are looked up."""
        self.on_refusal = on_refusal
        self.lists = ListCache(self.catalogue)
        self.states = self.catalogue.used_states
        """The sealed states that were used."""
        self._meta: dict[Revision, Json] = {}

    def open(self, opened: Opened) -> None:
        """Give handlers what the lifespans yielded."""
        self.opened = opened
        self.state = opened.state
        self.extensions = opened.extensions
        """By identifier, what serves each extension."""

    def state_of(self, provider: Any) -> Any:
        """Return what a provider's lifespan yielded; the registry's own for `None`."""
        return self.state if provider is None else self.opened.state_of(provider)

    def note_roots_of(self, session: Session) -> None:
        """Have all providers know that a client has other roots now, if it has a name."""
        if session.connection_id is None:
            return
        for provider in self.catalogue.all_providers():
            state = self.opened.state_of(provider)
            provider.roots_changed(state, session.connection_id, session.principal)

    def complete(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """Add to a result what the modern revisions want in every result, and return it."""
        if not revision.modern:
            return result
        meta = self._meta.get(revision)
        if meta is None:
            meta = self._meta[revision] = {META_SERVER_INFO: to_wire(self.registry.info, revision)}
        own = result.get("_meta")
        result.setdefault("resultType", "complete")
        result["_meta"] = {**meta, **own} if own else meta
        return result
