"""The layers around calls that are decided when serving begins, composed once for each method."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from trio_mcp.layers import NamedLayer, stack
from trio_mcp.layers.answering import answering
from trio_mcp.layers.call import Call, Handler
from trio_mcp.layers.naming import is_wanted, naming
from trio_mcp.registry.invalid import invalid_result

if TYPE_CHECKING:
    from trio_mcp.layers.log_bridge import LogBridge
    from trio_mcp.registry.catalogue import Catalogue
    from trio_mcp.server.server import Server


class Chains:
    """The chains of one server, each made when the first call needs it."""

    def __init__(self, server: Server) -> None:
        self._catalogue = server.catalogue  # and not the server, which has these chains
        self._wrapping = server.wrapping
        self._observer = server.observer
        self._usual: dict[str, Handler] = {}
        self._bare: dict[str, bool] = {}
        self._bridges = -1  # how many log bridges there were when the chains were composed

    def of(self, method: str, params: Mapping[str, Any], is_bound: bool) -> Handler:
        """Return the chain for a call, whose arguments may be keyword arguments already."""
        if self._bridges != self._catalogue.log_bridges_made:
            self._forget_chains()
        if is_bound and "requestState" not in params:
            chain = self._usual.get(method)
            if chain is None:
                chain = self._usual[method] = stack(self.layers(method), _entry)
            return chain
        return stack(self.layers(method, "requestState" in params, not is_bound), _entry)

    def are_bare(self, method: str) -> bool:
        """Whether the calls of a method are answered, and nothing else is done around them."""
        if self._bridges != self._catalogue.log_bridges_made:
            self._forget_chains()
        is_bare = self._bare.get(method)
        if is_bare is None:
            names = [name for name, _ in self.layers(method)]
            is_bare = self._bare[method] = names == ["answering"]
        return is_bare

    def _forget_chains(self) -> None:
        self._usual.clear()
        self._bare.clear()
        self._bridges = self._catalogue.log_bridges_made

    def converse(self, method: str, entry: Any) -> bool:
        """Whether a layer around a call talks to its caller."""
        return bool(self._wrapping.get(method)) or bool(
            self._catalogue.log_bridges_made and _bridges_of(self._catalogue, entry)
        )

    def layers(self, method: str, resumes: bool = False, binds: bool = False) -> list[NamedLayer]:
        """Return the layers around calls of a method, outermost first."""
        found: list[NamedLayer] = []
        if self._observer is not None:
            from trio_mcp.layers.observing import observing

            found.append(("observing", observing(self._observer)))
        if is_wanted():
            found.append(("naming", naming))
        found.append(("answering", answering))
        if resumes:
            from trio_mcp.layers.resuming import resuming

            found.append(("resuming", resuming))
        if binds:
            from trio_mcp.layers.binding import binding

            found.append(("binding", binding))
        if self._catalogue.log_bridges_made:
            from trio_mcp.layers.log_bridge import bridging

            found.append(("log_bridge", bridging(partial(_bridges_of, self._catalogue))))
        around = self._wrapping.get(method)
        if around:
            from trio_mcp.layers.extending import extending
            from trio_mcp.server.extensioncall import request_of

            concerns = partial(_concerns, self._catalogue)
            found.append(("extending", extending(around, concerns, request_of, invalid_result)))
        extensions = self._catalogue.extensions
        if extensions is not None and method in extensions.methods:
            from trio_mcp.server.extensioncall import requesting_layer

            found.append(("requesting", requesting_layer(extensions.methods[method].extension)))
        return found


def _concerns(catalogue: Catalogue, extension: Any, entry: Any) -> bool:
    extensions = catalogue.extensions
    assert extensions is not None
    return extensions.find(extension.identifier).concerns(entry)


def _bridges_of(catalogue: Catalogue, entry: Any) -> list[LogBridge]:
    own, origin = catalogue.log_bridge, entry.origin
    found = [] if own is None else [own]
    return found if origin is None else [*found, *origin.log_bridges()]


def _entry(call: Call) -> Any:
    return call.entry.chain(call)
