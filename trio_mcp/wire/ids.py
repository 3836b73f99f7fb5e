"""Finding the request id in a line that cannot be read, so that its sender gets an answer.

Of a line that is too long only the beginning is known, which no parser takes. It is cut into tokens
while the nesting is counted; the id is the scalar behind the key `"id"` one level deep. A nested
`id` is not the request's, and a number that touches the end may be incomplete.

Any other line is read again by a parser that forgives what makes a value, but not a structure,
unreadable: numbers that are not JSON or too large, half characters, control characters in strings.
"""

import json
import re
from typing import Any, Final

from trio_mcp.wire.exact import CLOSE_LOOK
from trio_mcp.wire.framing import HEAD_BYTES

# Compiled by the first line that needs it: no start waits for it.
_TOKEN: Final = (
    rb'"(?:[^"\\]|\\.)*"'  # a whole string
    rb'|"'  # a string that breaks off
    rb"|[][{}:,]"
    rb'|[^][{}:,"\s]+(?=[][{}:,"\s])'  # a whole number or name
)
_LAST: Final = rb'[,{]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*}\s*$'
_AROUND: Final = "\ufeff \t\r\n"


def id_of_unreadable(line: bytes) -> str | int | None:
    """Return the top-level `id` of a line that is not JSON, if it can be found."""
    if len(line) > CLOSE_LOOK:
        return find_id(line[:HEAD_BYTES])
    text = line.decode(errors="surrogateescape").strip(_AROUND)
    if not text.startswith("{"):
        return None
    try:
        # Lists of pairs, so that an id which is there twice shows.
        members = json.loads(text, object_pairs_hook=list, strict=False)
    except (ValueError, RecursionError):
        return None
    ids = [value for name, value in members if name == "id"]
    return _usable(ids[0]) if len(ids) == 1 else None


def id_of_heavy(line: bytes) -> str | int | None:
    """Return the top-level `id` of a line with too much in it, if it is the first or last member.

    Many put it last. The brace that ends a line is that of the outermost object.
    """
    found = find_id(line[:HEAD_BYTES])
    last = re.search(_LAST, line[-HEAD_BYTES:]) if found is None else None
    return found if last is None else _scalar(last[1])


def find_id(head: bytes) -> str | int | None:
    """Return the top-level `id` of a JSON object of which only the beginning is known."""
    depth = 0
    previous: list[bytes] = [b"", b""]
    for token in re.findall(_TOKEN, head):
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


def _scalar(token: bytes) -> str | int | None:
    try:
        return _usable(json.loads(token.decode()))
    except ValueError:
        return None


def _usable(id: Any) -> str | int | None:
    """Return an id if it can be sent back unchanged."""
    if id.__class__ is int or (id.__class__ is str and id.encode(errors="ignore").decode() == id):
        return id
    return None
