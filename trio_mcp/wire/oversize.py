"""Answering a line that is too long to be read."""

from typing import Final

from trio_mcp.wire.errors import INVALID_REQUEST, PARSE_ERROR, McpError
from trio_mcp.wire.framing import Oversized
from trio_mcp.wire.ids import find_id
from trio_mcp.wire.jsonrpc import UNKNOWN_ID, Malformed

_MIB: Final = 1024 * 1024


def answer_oversized(line: Oversized) -> Malformed:
    """Make the error for a line that is too long, with the request's id where it shows."""
    id = find_id(line.head)
    limit = f"{line.limit / _MIB:g}MB"
    if id is None:
        return Malformed(UNKNOWN_ID, McpError(PARSE_ERROR, f"Request exceeds {limit} limit"))
    data = {"maxBytes": line.limit}
    return Malformed(id, McpError(INVALID_REQUEST, "Request too large", data))


def megabytes(size: int) -> str:
    """Write a size in bytes as megabytes, for the log."""
    return f"{round(size / _MIB, 1):g}MB"
