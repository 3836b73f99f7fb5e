"""What one caller sees of what there is."""

from __future__ import annotations

from attrs import frozen

from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import Handler


def is_shown(handler: Handler, caller: Context) -> bool:
    """Whether the functions of the author's let a caller see it."""
    return all(shows(caller) for shows in handler.visible)


@frozen
class View:
    """What one caller sees in lists."""

    scopes: frozenset[str] | None
    """What its token allows, if lists go by that."""
    caller: Context | None
    """Who it is, if there is anything that goes by that."""

    def shows(self, handler: Handler) -> bool:
        """Whether the caller sees that there is such a thing."""
        if self.scopes is not None and not handler.scopes <= self.scopes:
            return False
        return self.caller is None or is_shown(handler, self.caller)
