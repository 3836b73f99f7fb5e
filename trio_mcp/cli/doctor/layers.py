"""What stands around the functions of a registry: the layers of each entry, outermost first."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout, suppress
from typing import Final

import trio

from trio_mcp.cli.doctor.report import Chain
from trio_mcp.cli.target import TargetError, load_registry
from trio_mcp.errors import LifespanError
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.changes import KINDS
from trio_mcp.registry.kinds import LISTED
from trio_mcp.server.chains import Chains
from trio_mcp.server.importing import serving_refused
from trio_mcp.server.server import Server
from trio_mcp.wire.limits import Limits

_TO_APPEAR: Final = 30.0
"""Seconds for what servers elsewhere offer to appear in a registry."""


async def chains_of_target(target: str, offered: int) -> list[Chain]:
    """Import a registry, and return the chains of its entries; none if it cannot be imported.

    Args:
        target: The registry.
        offered: How many entries it offers when it is served. It is opened if that is more than it
            has by itself.
    """
    # What modules print while they are imported is not part of a report.
    with redirect_stdout(sys.stderr), serving_refused():
        try:
            registry = load_registry(target)
        except TargetError:  # the examination has found what there is to find
            return []
        if len(_entries_of(registry)) < offered:
            with suppress(LifespanError), trio.move_on_after(_TO_APPEAR):
                async with registry.running():
                    await _until_there_are(registry, offered)
                    return chains_of(registry)
    return chains_of(registry)


async def _until_there_are(registry: Registry, entries: int) -> None:
    """Wait for entries, but no longer than half of the time."""
    with (
        trio.move_on_after(_TO_APPEAR / 2),
        catalogue_of(registry).changes.listen(KINDS, owner=registry) as listener,
    ):
        while len(_entries_of(registry)) < entries:
            await listener.next()


def _entries_of(registry: Registry) -> list[str]:
    catalogue = catalogue_of(registry)
    return [name for kind in LISTED.values() for name in catalogue.table(kind.table)]


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
