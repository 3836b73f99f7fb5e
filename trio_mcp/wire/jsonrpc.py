"""JSON-RPC 2.0 messages as values: decoding, checking, encoding.

A line becomes exactly one value: a `Request`, a `Notification`, a `Response`, a `Batch` of these,
or `Malformed`, which carries the error that answers it. Nothing is raised for bad input and
nothing is altered silently: what JSON allows but Python would change on the way (integers beyond
64 bits, repeated keys) is found by encoding the parsed value once more. If that gives back the
line, byte for byte, nothing was lost; only if it does not, a slower look decides.

An error whose request id cannot be known has the id `""`: the one value that the schema of
every MCP revision accepts.
"""

import json
from typing import Any, Final

import orjson
from attrs import define, field, frozen

from trio_mcp.wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    McpError,
)

Json = Any
"""A JSON value: what a peer may put where the protocol does not say."""

Id = str | int

UNKNOWN_ID: Final = ""

MAX_DEPTH: Final = 254
"""Levels of nesting that are served: what orjson can encode again."""


@define(slots=True)
class Request:
    """A message that wants an answer."""

    id: Id
    method: str
    params: dict[str, Json]


@define(slots=True)
class Notification:
    """A message that wants none."""

    method: str
    params: dict[str, Json]


@frozen
class Response:
    """An answer to a request of ours: a result, or an error."""

    id: Id
    result: Json = None
    error: McpError | None = None


@frozen
class Malformed:
    """Something that is no message, and the error that says so."""

    id: Id
    error: McpError


@frozen
class Batch:
    """Several messages on one line (revision 2025-03-26, "Batching")."""

    messages: list["Request | Notification | Response | Malformed"] = field(factory=list)


Single = Request | Notification | Response | Malformed
Message = Single | Batch


def decode(line: bytes) -> Message | None:
    """Turn one line into a message.

    Args:
        line: The line, without its newline. White space around it does not matter.

    Returns:
        The message, or `Malformed` with the error to answer; `None` for a blank line.
    """
    try:
        value = orjson.loads(line)
        if orjson.dumps(value) != line:
            value = _exact(line, value)
    except (ValueError, TypeError):  # TypeError: too deep to be encoded again
        return _decode_carefully(line)
    try:  # most messages are plain requests: this is the short way for them
        id: Json = value["id"]
        method = value["method"]
        params = value["params"]
        if (
            value["jsonrpc"] == "2.0"
            and is_id(id)
            and method.__class__ is str
            and params.__class__ is dict
        ):
            return Request(id, method, params)
    except (KeyError, TypeError):
        pass
    return message_of(value)


_ID_TYPES: Final = frozenset({str, int})


def is_id(value: Json) -> bool:
    """Whether a JSON value can be the id of a request."""
    return value.__class__ in _ID_TYPES


def message_of(value: Json) -> Message:
    """Check a parsed JSON value and turn it into a message."""
    if not isinstance(value, list):
        return _single(value)
    if not value:
        return Malformed(UNKNOWN_ID, McpError(INVALID_REQUEST, "Invalid request: empty batch"))
    return Batch([_single(item) for item in value])


def _single(value: Json) -> Single:
    if not isinstance(value, dict):
        return _invalid(UNKNOWN_ID, "a message must be a JSON object", value)
    id: Json = value.get("id", UNKNOWN_ID)
    if not is_id(id):
        return _invalid(UNKNOWN_ID, '"id" must be a string or an integer', id)
    if value.get("jsonrpc") != "2.0":
        return _invalid(id, '"jsonrpc" must be "2.0"', value.get("jsonrpc"))
    if "method" not in value:
        if "result" in value or "error" in value:
            return _response(id, value)
        return _invalid(id, '"method" is missing')
    method = value["method"]
    if not isinstance(method, str):
        return _invalid(id, '"method" must be a string', method)
    params = value.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        if "id" not in value:
            return Notification(method, {})  # a notification is never answered
        message = f'Invalid params: "params" must be an object, not {json_type(params)}'
        return Malformed(id, McpError(INVALID_PARAMS, message))
    return Request(id, method, params) if "id" in value else Notification(method, params)


def _response(id: Id, value: dict[str, Json]) -> Single:
    if "error" not in value:
        return Response(id, value["result"])
    error = value["error"]
    match error:
        case {"code": int(code), "message": str(message)}:
            return Response(id, None, McpError(code, message, error.get("data")))
    message = "The peer answered with an error that has no code and message"
    return Response(id, None, McpError(INVALID_REQUEST, message))


def _invalid(id: Id, why: str, got: Json = None) -> Malformed:
    message = f"Invalid request: {why}"
    if got is not None:
        message += f", not {json_type(got)}"
    return Malformed(id, McpError(INVALID_REQUEST, message))


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def json_type(value: Json) -> str:
    """Name the JSON type of a value, as error messages do: `a string`, `an array`, and so on."""
    return _TYPE_NAMES.get(value.__class__, "something else")


# -- exactness --------------------------------------------------------------------------------

_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19  # 2**63 has 19 digits


class _Refused(Exception):
    """Valid JSON that cannot be served, and the key that is to blame, if it is one."""

    def __init__(self, why: str, key: str | None = None) -> None:
        super().__init__(why)
        self.key = key


def _exact(line: bytes, value: Json) -> Json:
    """The value of a line whose parsed form does not encode to the same bytes.

    Mostly that is white space or an escape, and `value` is right. A number of 19 digits or more
    may have lost some, and where the text has more keys than the value a key was repeated.

    Raises:
        ValueError: The line was not served, for a reason that `_decode_carefully` finds again.
    """
    keys, depth = _survey(value)
    if depth > MAX_DEPTH or (keys != line.count(b":") and keys != _count_keys(line)):
        raise ValueError
    if _LONG_NUMBER in line.translate(_DIGITS_TO_ZERO):
        return json.loads(line)
    return value


def _survey(value: Json) -> tuple[int, int]:
    """Count the keys of a value and its levels of nesting."""
    keys = 0
    depth = 0
    level = [value]
    while level:
        below: list[Json] = []
        for node in level:
            if node.__class__ is dict:
                keys += len(node)
                below += [v for v in node.values() if v.__class__ is dict or v.__class__ is list]
            elif node.__class__ is list:
                below += [v for v in node if v.__class__ is dict or v.__class__ is list]
        level = below
        depth += 1
    return keys, depth


def _count_keys(line: bytes) -> int:
    """Count the keys in valid JSON text: the colons outside its strings."""
    if b"\\" in line:
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(line.split(b'"')[::2]).count(b":")


def _decode_carefully(line: bytes) -> Message | None:
    """Decode a line that the quick way refused, and say what is wrong with it."""
    line = line.strip(b" \t\r\n")
    if line.startswith(b"\xef\xbb\xbf"):  # RFC 8259, section 8.1: a byte order mark may be ignored
        line = line[3:]
    if not line:
        return None
    try:
        value = orjson.loads(line)
    except ValueError as error:
        return Malformed(UNKNOWN_ID, McpError(PARSE_ERROR, f"Parse error: {_explain(line, error)}"))
    try:
        if _survey(value)[1] > MAX_DEPTH:
            raise _Refused(f"nested more than {MAX_DEPTH} levels deep")
        exact = json.loads(line, object_pairs_hook=_unique)
    except _Refused as refusal:
        id = UNKNOWN_ID if refusal.key == "id" else _id_of(value)
        return Malformed(id, McpError(INVALID_REQUEST, f"Invalid request: {refusal}"))
    return message_of(exact)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _Refused(f'repeated key "{repeated}"', repeated)
    return unique


def _id_of(value: Json) -> Id:
    id: Json = value.get("id") if isinstance(value, dict) else None
    if is_id(id):
        found: Id = id
        return found
    return UNKNOWN_ID


def _explain(line: bytes, error: ValueError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as undecodable:
        return f"invalid UTF-8 at byte {undecodable.start}"
    return str(error)


# -- encoding ---------------------------------------------------------------------------------


def trimmed(line: bytes) -> bytes:
    """Copy a line that is to be kept: what the encoder returns may own much more memory."""
    return bytes(memoryview(line))


def encode(message: Json) -> bytes:
    """Turn a JSON-able message into a line, newline included.

    Raises:
        TypeError: The message holds something that JSON does not know (NaN and infinities too).
    """
    try:
        line = orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return _encode_carefully(message)
    if b"null" in line and not _finite(message):  # orjson writes NaN as null
        raise TypeError("NaN and infinite numbers are not JSON")
    return line


def _encode_carefully(message: Json) -> bytes:
    """Encode a message that orjson refuses, if that is for nothing but long integers."""
    if not any(leaf.__class__ is int and leaf.bit_length() > 63 for leaf in _leaves(message)):
        raise TypeError("the message holds something that is not JSON")
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except ValueError as error:
        raise TypeError(str(error)) from None


def _leaves(value: Json) -> list[Json]:
    leaves: list[Json] = []
    stack = [value]
    for _ in range(10_000_000):  # a value that contains itself has no end
        if not stack:
            return leaves
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
        else:
            leaves.append(node)
    raise TypeError("the value is endless")


def _finite(value: Json) -> bool:
    return all(leaf - leaf == 0 for leaf in _leaves(value) if leaf.__class__ is float)


def result_line(id: Id, result: Json) -> bytes:
    """Encode the response that carries a result.

    Raises:
        TypeError: The result is not JSON-able.
    """
    message = {"jsonrpc": "2.0", "id": id, "result": result}
    try:
        line = orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return _encode_carefully(message)
    return line if b"null" not in line else encode(message)


def error_line(id: Id, error: McpError) -> bytes:
    """Encode the response that carries an error; data that is not JSON-able is left out."""
    code = error.code if error.code.__class__ is int else INTERNAL_ERROR
    body: dict[str, Json] = {"code": code, "message": sendable_text(error.message)}
    response: dict[str, Json] = {"jsonrpc": "2.0", "id": id, "error": body}
    if error.data is not None:
        try:
            return encode({**response, "error": {**body, "data": error.data}})
        except TypeError:
            pass
    return encode(response)


def sendable_text(text: object) -> str:
    """Return a text as it can be sent: what is not Unicode in it becomes a question mark."""
    return str(text).encode("utf-8", "replace").decode()


def join_batch(lines: list[bytes]) -> bytes:
    """Make one batch line of the lines of its responses."""
    return b"[" + b",".join(line[:-1] for line in lines) + b"]\n"
