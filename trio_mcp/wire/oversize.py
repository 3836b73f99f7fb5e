"""Finding the request id in the first bytes of a line that is too long to be read.

The bytes are a piece of JSON that breaks off somewhere, so no parser takes them. They are cut
into tokens while the nesting is counted; the id is the scalar behind the key `"id"` one level
deep. A nested `id` is not the request's, and a number that touches the end may be incomplete.
"""

import re
from typing import Final

import orjson

from trio_mcp.wire.errors import INVALID_REQUEST, PARSE_ERROR, McpError
from trio_mcp.wire.framing import Oversized
from trio_mcp.wire.jsonrpc import UNKNOWN_ID, Id, Malformed

_MIB: Final = 1024 * 1024

_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"'  # a whole string
    rb'|"'  # a string that breaks off
    rb"|[][{}:,]"
    rb'|[^][{}:,"\s]+(?=[][{}:,"\s])'  # a whole number or name
)


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


def find_id(head: bytes) -> Id | None:
    """Return the top-level `id` of a JSON object of which only the beginning is known."""
    depth = 0
    previous: list[bytes] = [b"", b""]
    for token in _TOKEN.findall(head):
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b'"':
            return None
        elif depth == 1 and previous == [b'"id"', b":"]:
            return _scalar(token)
        previous = [previous[1], token]
    return None


def _scalar(token: bytes) -> Id | None:
    try:
        value = orjson.loads(token)
    except ValueError:
        return None
    return value if value.__class__ in (str, int) else None
