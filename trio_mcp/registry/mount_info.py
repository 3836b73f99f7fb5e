"""Where an entry comes from that a registry has because a provider is mounted there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from attrs import frozen

from trio_mcp.registry.context import Context, inside
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp.layers.log_bridge import LogBridge


@frozen(eq=False)
class MountInfo:
    """Where an entry comes from: whose function it runs, and by which names the owner knows it."""

    mount: Any
    """The `Mount` that has made it."""
    name: str
    """What the mounted provider calls it."""
    inner: MountInfo | None
    """Where that provider has it from."""
    item: Any
    """That provider's own entry, as it appears here."""
    rank: tuple[int, ...]
    """Where it stands in lists: by the mount here, then by the one in the provider, and so on."""

    def target(self, called: str) -> str:
        """Return what the owner of the function calls what was asked for."""
        own = self.own_name(called)
        return own if self.inner is None else self.inner.target(own)

    def own_name(self, called: str) -> str:
        """Return what the mounted provider calls what was asked for."""
        if self.item.kind != "resource":
            return self.name
        uri: str | None = self.mount.inward(called)
        return uri or called

    def is_from(self, providers: Collection[Any]) -> bool:
        """Whether it comes from one of some providers, or by way of it."""
        deeper = self.inner is not None and self.inner.is_from(providers)
        return self.mount.provider in providers or deeper

    @property
    def renames_uris(self) -> bool:
        """Whether `outward` changes anything."""
        deeper = self.inner is not None and self.inner.renames_uris
        return self.mount.view.prefix is not None or deeper

    def inside(self, context: Context) -> Context:
        """Return a context for the mounted provider's code."""
        return inside(context, self.mount.provider, self.own_name(context.tool))

    def shows(self, visible: Callable[[Context], bool], context: Context) -> bool:
        """Ask a rule of the mounted provider's whether a caller sees the entry."""
        return visible(inside(context, self.mount.provider, context.tool))

    def log_bridges(self) -> list[LogBridge]:
        """Return the log bridges of the providers that it passes through."""
        own = self.mount.provider.log_bridge
        found = [] if own is None else [own]
        return found if self.inner is None else [*found, *self.inner.log_bridges()]

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        """Return a result that names resources as they are to be found where this is mounted."""
        inner = result if self.inner is None else self.inner.outward(result)
        outward: dict[str, Json] = self.mount.outward(inner)
        return outward
