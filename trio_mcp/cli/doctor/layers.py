"""What stands around the functions of a registry: the layers of each entry, outermost first."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from trio_mcp.cli.doctor.report import Chain
from trio_mcp.cli.target import TargetError, load_registry
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.kinds import LISTED
from trio_mcp.server.chains import Chains
from trio_mcp.server.importing import serving_refused
from trio_mcp.server.server import Server
from trio_mcp.wire.limits import Limits


def chains_of_target(target: str) -> list[Chain]:
    """Import a registry, and return the chains of its entries; none if it cannot be imported."""
    # What modules print while they are imported is not part of a report.
    with redirect_stdout(sys.stderr), serving_refused():
        try:
            registry = load_registry(target)
        except TargetError:  # the examination has found what there is to find
            return []
    return chains_of(registry)


def chains_of(registry: Registry) -> list[Chain]:
    """Return the chains of a registry's entries, those of one chain together."""
    around = Chains(Server(registry, Limits()))
    catalogue = catalogue_of(registry)
    found: dict[tuple[str, ...], list[str]] = {}
    for kind in LISTED.values():
        outer = [name for name, _ in around.layers(kind.call.name)]
        for name, entry in catalogue.table(kind.table).items():
            found.setdefault((*outer, *entry.layers), []).append(f"{kind.noun} {name}")
    return [Chain(layers, tuple(entries)) for layers, entries in found.items()]
