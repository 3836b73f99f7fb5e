"""What requests have made of a legacy session: a new one is made the same by sending them again."""

from __future__ import annotations

from collections.abc import Iterator

from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import METHODS


def is_setting(method: str) -> bool:
    """Whether a request changes what the session is."""
    row = METHODS.get(method)
    return row is not None and (row.setting or row.unsets is not None)


class SessionSettings:
    """The requests that a new session has to be sent again, to be as the old one was."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, Json], dict[str, Json]] = {}

    def note(self, method: str, params: dict[str, Json]) -> None:
        """Take note of a request, which may set something, or take back what was set."""
        row = METHODS.get(method)
        if row is None:
            return
        by = None if row.target is None else params.get(row.target)
        if not isinstance(by, str | None):  # the session has refused it
            return
        if row.setting:
            self._requests[method, by] = params
        elif row.unsets is not None:
            self._requests.pop((row.unsets, by), None)

    def __iter__(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """The requests, by method and parameters, in the order in which they were first sent."""
        return iter([(method, params) for (method, _), params in self._requests.items()])
