"""The settings of a legacy session: a new session gets them by the same requests."""

from __future__ import annotations

from collections.abc import Iterator

from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import METHODS


def is_setting(method: str) -> bool:
    """Whether a request changes what the session is."""
    row = METHODS.get(method)
    return row is not None and (row.setting or row.unsets is not None)


class SessionSettings:
    """The requests to send again, so that a new session is like the old one."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, Json], dict[str, Json]] = {}

    def note(self, method: str, params: dict[str, Json]) -> None:
        """Keep a request that sets something, or drop the one that it takes back."""
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
        """Yield methods and parameters, in the order in which they were first sent."""
        return iter([(method, params) for (method, _), params in self._requests.items()])
