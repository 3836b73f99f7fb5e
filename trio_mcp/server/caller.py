"""Who sends a request, and which revision it speaks.

A legacy client says so once, with `initialize`; a modern one with every request, in `_meta`.
"""

from sys import getsizeof
from typing import Final

from attrs import define

from trio_mcp.threads import is_large
from trio_mcp.wire import revisions
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.errors import INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION, McpError
from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.payloads import LOGGING_LEVELS, Implementation
from trio_mcp.wire.revisions import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_VERSION,
    NEWEST_LEGACY,
    Revision,
)

_NAMES: Final = ("name", "title", "version")
_MODERN_NAMES: Final = list(revisions.MODERN)


@define(eq=False, repr=False)
class Caller:
    """The client, as far as one request needs to know it. It is not to be changed."""

    revision: Revision
    capabilities: dict[str, Json]
    client_info: Json = None

    def identity(self) -> Implementation | None:
        """Who the client says it is; `None` if it does not say, or says it wrongly or at length."""
        if self.client_info is None or is_large(self.client_info):
            return None
        try:
            return from_wire(self.client_info, Implementation)
        except ValueError:
            return None

    def kept(self, limit: int) -> "Caller":
        """Return what may be kept of it for longer than a request, in so many bytes of memory.

        Raises:
            McpError: Its capabilities do not fit (`-32602`).
        """
        info = self.client_info
        if not fits(self.capabilities, limit):
            what = f"the capabilities of the client take more than {limit:,} bytes of memory"
            raise invalid(f"{what}, which is the limit")
        if isinstance(info, dict) and not fits(info, limit):
            info = {name: info[name] for name in _NAMES if name in info}
        return Caller(self.revision, self.capabilities, info if fits(info, limit) else None)


UNKNOWN_CALLER: Final = Caller(NEWEST_LEGACY, {})
"""A client that sends legacy requests without `initialize`, such as a shell pipe."""


def fits(value: Json, limit: int) -> bool:
    """Whether a value takes no more than so many bytes of memory."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        limit -= getsizeof(part)
        if limit < 0:
            return False
        if isinstance(part, dict):
            waiting += part.keys()
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return True


def caller_of(meta: Json) -> Caller | None:
    """Read the caller of a request from its `_meta`; `None` if it is not a modern one.

    Raises:
        McpError: `-32022` for a version that is not served, `-32602` for a required field that is
            missing or of the wrong type.
    """
    if not isinstance(meta, dict):
        return None
    version = meta.get(META_VERSION)
    revision = revisions.MODERN.get(version) if version.__class__ is str else None
    capabilities = meta.get(META_CLIENT_CAPABILITIES)
    client_info = meta.get(META_CLIENT_INFO)
    named = client_info is None or client_info.__class__ is dict
    if revision is not None and capabilities.__class__ is dict and named:
        if META_LOG_LEVEL in meta:
            log_level(meta[META_LOG_LEVEL])
        return Caller(revision, capabilities, client_info)
    if not is_modern(meta):
        return None
    _require(meta, META_VERSION, str)
    if revision is None:
        data = {"supported": _MODERN_NAMES, "requested": version}
        raise McpError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
    _require(meta, META_CLIENT_CAPABILITIES, dict)
    got = json_type(client_info)
    raise invalid(f"_meta field {META_CLIENT_INFO} must be an object, not {got}")


def log_level(level: Json) -> str:
    """Check the name of a log level, or raise `McpError` (`-32602`)."""
    if level.__class__ is str and level in LOGGING_LEVELS:
        name: str = level
        return name
    known = ", ".join(LOGGING_LEVELS)
    raise invalid(f"the log level must be one of: {known}")


def is_modern(meta: Json) -> bool:
    """Whether a request's `_meta` declares any of the fields that make it a modern one."""
    return isinstance(meta, dict) and (META_VERSION in meta or META_CLIENT_CAPABILITIES in meta)


_KINDS: Final[dict[type, str]] = {str: "a string", dict: "an object"}


def _require(meta: dict[str, Json], key: str, kind: type) -> None:
    data = {"parameter": f"_meta.{key}", "expected": _KINDS[kind]}
    if key not in meta:
        raise invalid(f"_meta field {key} is missing", {**data, "got": "nothing"})
    if not isinstance(meta[key], kind):
        got = json_type(meta[key])
        raise invalid(f"_meta field {key} must be {_KINDS[kind]}, not {got}", {**data, "got": got})


def invalid(why: str, data: Json = None) -> McpError:
    """Make the error for parameters that are not valid."""
    return McpError(INVALID_PARAMS, f"Invalid params: {why}", data)
