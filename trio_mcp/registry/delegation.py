"""Calls of a tool that are calls of something else, such as those by which found tools are called.

Such a tool has a `delegate`, which finds what a call is for among what the tool's owner has. Then
everything is done as if that had been called itself: visibility, scopes, arguments, layers,
extensions, time limit, log. It need not be in any list where the tool stands: its entry there is
made when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from trio_mcp.registry.handlers import Keywords
from trio_mcp.schema import ArgumentError
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp.layers.binding import UncheckedArguments
    from trio_mcp.registry.kinds import Table
    from trio_mcp.registry.mount_info import MountInfo
    from trio_mcp.registry.tools import Tool


@frozen
class Target:
    """What a call is for."""

    table: Table
    entry: Any
    """The entry, in the registry that it is looked at from."""
    arguments: Any
    """Its arguments, unchecked."""
    uri: str | None = None
    """Of a resource, the URI that was asked for."""
    is_called: bool = True
    """Whether it is to be called, so that the entries that are made for it are kept."""

    def ready(self, tool: Tool) -> tuple[Any, Keywords | UncheckedArguments]:
        """Return the entry to run in the tool's place, and its keyword arguments.

        Raises:
            ArgumentError: The arguments do not fit.
        """
        return self.entry, self.entry.bind(self.arguments)


Sees = Callable[[Any], bool]
"""Says whether a caller sees an entry."""

Delegate = Callable[["Tool", dict[str, Json], Callable[[Target], Target | None]], Target]
"""Finds what a call is for: gets the tool, its arguments, and a function that returns what a caller
may reach of a target, or `None`. Raises `ArgumentError` if there is no such thing."""


def target_of(tool: Tool, arguments: Json, sees: Sees) -> Target:
    """Find what a call of a tool with a delegate is for, as the registry knows it that is served.

    Raises:
        ArgumentError: There is no such thing, or the caller does not see it.
    """
    while True:
        if not isinstance(arguments, dict):
            tool.bind(arguments)  # which says what they must be
            raise ArgumentError("The arguments must be an object.")
        assert tool.delegate is not None

        def reach(target: Target, origin: MountInfo | None = tool.origin) -> Target | None:
            found = seen_from(origin, target)
            return found if found is not None and sees(found.entry) else None

        target: Target = tool.delegate(tool, arguments, reach)
        if getattr(target.entry, "delegate", None) is None:
            return target
        tool, arguments = target.entry, target.arguments


def seen_from(origin: MountInfo | None, target: Target) -> Target | None:
    """Return what the owner of a tool has, as it is where the tool has come from there.

    Args:
        origin: Of the tool.
        target: What its owner has.

    Returns:
        `None` for what is hidden on the way.
    """
    if origin is None:
        return target
    inner = seen_from(origin.item.origin, target)
    found: Target | None = None if inner is None else origin.mount.reached(inner)
    return found


def inward(origin: MountInfo | None, table: Table, name: str) -> str:
    """Return what the owner of a tool calls something, by its name where the tool has come to."""
    while origin is not None:
        name = origin.mount.inner_name(table, name)
        origin = origin.item.origin
    return name
