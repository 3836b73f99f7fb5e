"""Which tools of the servers behind a control protocol are approved beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from attrs import frozen

from trio_mcp.registry import Registry
from trio_mcp.registry.tools import unknown_tool
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json

Patterns = tuple[str, ...] | None
"""Names of tools as hosts have them, with `*` for any characters; `None` for all tools."""

_PREFIX: Final = "mcp__"
_BETWEEN: Final = "__"


@frozen
class AllowedTools:
    """The tools of one server that may be called."""

    server: str
    registry: Registry
    patterns: Patterns

    def names(self) -> Iterator[str]:
        """Yield the tools that there are now, as the registry has them."""
        return filter(self.allows, self.registry.tools)

    def full_name(self, tool: str) -> str:
        """Return what hosts call a tool."""
        return f"{_PREFIX}{self.server}{_BETWEEN}{tool}"

    def allows(self, tool: str) -> bool:
        if self.patterns is None:
            return True
        whole, name = f"{_PREFIX}{self.server}", self.full_name(tool)
        return any(pattern == whole or fnmatchcase(name, pattern) for pattern in self.patterns)

    def refusal(self, message: Json) -> McpError | None:
        """Return the error for a call of a tool that is not allowed; `None` for other messages."""
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(params, dict) or message.get("method") != "tools/call":
            return None
        name = params.get("name")
        if not isinstance(name, str) or self.allows(name):
            return None
        error = unknown_tool(name, list(self.names()))
        error.data = {**(error.data or {}), "requestId": message.get("id")}
        return error

    def shown(self, messages: list[Json], answer: Json) -> Json:
        """Leave out of answers to `tools/list` what is not allowed."""
        lists = [message.get("id") for message in messages if _is_list(message)]
        for reply in answer if isinstance(answer, list) else [answer]:
            if reply is not None and reply.get("id") in lists and "result" in reply:
                tools = reply["result"]["tools"]
                reply["result"]["tools"] = [tool for tool in tools if self.allows(tool["name"])]
        return answer


def _is_list(message: Json) -> bool:
    return isinstance(message, dict) and message.get("method") == "tools/list"


def checked_patterns(allowed: Iterable[str] | None, servers: Iterable[str]) -> Patterns:
    """Return patterns that each mean tools of one of these servers, or raise `ValueError`."""
    if allowed is None:
        return None
    if isinstance(allowed, str):
        raise TypeError(f"allowed must be a list of names, not {allowed!r:.100}")
    wholes = [f"{_PREFIX}{server}" for server in servers]
    patterns = tuple(allowed)
    for pattern in patterns:
        head = pattern.partition("*")[0]
        begins = (f"{whole}{_BETWEEN}" for whole in wholes)
        if pattern not in wholes and not any(
            head.startswith(begin) or ("*" in pattern and begin.startswith(head))
            for begin in begins
        ):
            raise ValueError(f"allowed: {pattern!r:.100} means no tool of {', '.join(wholes)}")
    return patterns
