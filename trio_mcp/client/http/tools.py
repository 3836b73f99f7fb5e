"""The tools of a server, as far as HTTP is concerned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from trio_mcp.errors import InvalidArguments
from trio_mcp.threads import offload
from trio_mcp.wire.headers import Path, mirrored_parameters, parameter_headers
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import CALL_TOOL, Method, target_of

_AT_ONCE: Final = 200
"""So many tools are looked at before others get their turn."""
_HINTS: Final = ("readOnlyHint", "idempotentHint")


class KnownTools:
    """Knows which arguments become headers, and which requests can be repeated."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._mirrored: dict[str, dict[str, Path]] = {}
        self._repeatable: set[str] = set()

    async def learn(self, tools: Mapping[str, dict[str, Json]]) -> dict[str, str]:
        """Replace the known tools; returns those that a modern client must not call, and why."""
        found: dict[str, dict[str, Path]] = {}
        repeatable: set[str] = set()
        refused: dict[str, str] = {}
        for number, (name, tool) in enumerate(tools.items(), 1):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            hints = tool.get("annotations")
            if isinstance(hints, dict) and any(hints.get(hint) is True for hint in _HINTS):
                repeatable.add(name)
            try:
                mirrored = await offload(mirrored_parameters, tool.get("inputSchema"))
            except ValueError as error:
                refused[name] = str(error)
            else:
                if mirrored:
                    found[name] = mirrored
        self._mirrored, self._repeatable = found, repeatable
        return refused

    def target_of(self, method: str) -> str | None:
        return target_of(method, self._methods)

    def headers(self, name: Json, arguments: Json) -> dict[str, str]:
        """Return the headers that mirror the arguments of a call, or raise `InvalidArguments`."""
        mirrored = self._mirrored.get(name) if isinstance(name, str) else None
        if mirrored is None:
            return {}
        try:
            return parameter_headers(mirrored, arguments)
        except ValueError as error:
            raise InvalidArguments(f"tool {name!r}: {error}") from None

    def is_repeatable(self, method: str, params: Mapping[str, Json]) -> bool:
        """Whether it does no harm to send a request twice."""
        if method == CALL_TOOL.name:
            return params.get("name") in self._repeatable
        return method in self._methods and self._methods[method].repeatable
