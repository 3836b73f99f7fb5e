"""JSON-RPC 2.0 messages as values: decoding, checking, encoding.

A line becomes exactly one value: a `Request`, a `Notification`, a `Response`, a `Batch` of these,
or `Malformed`, which carries the error that answers it. Nothing is raised for bad input and
nothing is altered silently: what JSON allows but Python would change on the way (integers beyond
64 bits, repeated keys) is found by encoding the parsed value again, or more cheaply (`exact`).

An error whose request id cannot be known has the id `""`: the one value that the schema of
every MCP revision accepts.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from math import isfinite
from typing import Any, Final

from attrs import Factory, define, evolve, field, frozen

from trio_mcp.wire import codec
from trio_mcp.wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    McpError,
)
from trio_mcp.wire.exact import SHORT, LongIntegers, RepeatedKey, exact
from trio_mcp.wire.framing import Oversized
from trio_mcp.wire.ids import find_id, id_of_heavy, id_of_unreadable
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.long_texts import loads_around
from trio_mcp.wire.nested_arrays import MOST_ARRAYS, TooManyArrays, has_many_arrays
from trio_mcp.wire.slices import slices
from trio_mcp.wire.weight import is_heavier

Json = Any
"""A JSON value: what a peer may put where the protocol does not say."""

Id = str | int

UNKNOWN_ID: Final = ""

MAX_ID: Final = 1024
"""Characters of an id, and of a progress token: they are kept, and sent again and again."""

MAX_DEPTH: Final = 254
"""Levels of nesting that are served: what `codec` can encode again."""


@define(slots=True)
class Request:
    """A message that asks for a response."""

    id: Id
    method: str
    params: dict[str, Json]


@define(slots=True)
class Notification:
    """A message that gets no response."""

    method: str
    params: dict[str, Json]


@define(slots=True)
class Response:
    """An answer to a request of ours: a result, or an error."""

    id: Id
    result: Json = None
    error: McpError | None = None
    size: int = 0
    """Bytes of its line, where it was one."""


@frozen
class Malformed:
    """A line, or an item of a batch, that is not a message, and the error that answers it."""

    id: Id
    error: McpError
    size: int = field(default=0, eq=False)
    """Bytes of its line; of one in a batch, as it would be encoded."""
    cause: str = field(default=Factory(lambda self: self.error.message, takes_self=True), eq=False)
    """What is wrong with it, for a log: nothing of its content."""


@frozen
class Batch:
    """Several messages on one line (revision 2025-03-26, "Batching")."""

    messages: list["Request | Notification | Response | Malformed"] = field(factory=list)
    size: int = field(default=0, eq=False)
    """Bytes of its line."""


Single = Request | Notification | Response | Malformed
Message = Single | Batch


_MAX_BATCH: Final = Limits().max_batch
_MAX_VALUES: Final = Limits().max_message_values
_LONG: Final = 64 * 1024


def decode(
    line: bytes, max_batch: int = _MAX_BATCH, max_values: int = _MAX_VALUES
) -> Message | None:
    """Turn one line into a message.

    Args:
        line: The line, without its newline. White space around it does not matter.
        max_batch: The most messages in a batch, `Limits.max_batch`. A longer one is refused here,
            before there is anything of it but what the parser made: each of its messages would
            take many times the memory of its text.
        max_values: The most values in it, `Limits.max_message_values`; with integers beyond 64
            bits also the most bytes.

    Returns:
        The message, or `Malformed` with the error to answer; `None` for a blank line.
    """
    value = None
    if len(line) >= _LONG:
        # All that a batch asks for is looked at together, which takes longer than to parse it.
        limit = max_values // 3 if line.lstrip(_SPACE)[:1] == b"[" else max_values
        value = loads_around(line, limit, max_values)
        if value is None and is_heavier(line, limit):
            return _too_much(line, limit)
    try:
        if value is None:
            value = codec.loads(line)
            if (
                len(line) > SHORT
                or line.count(b"]") > MOST_ARRAYS  # they may end together
                or codec.dumps_unchecked(value) != line
            ):
                value = exact(line, value, max_values)
    except RepeatedKey as repeated:
        return _repeats(value, repeated, len(line))
    except LongIntegers:
        why = f"integers beyond 64 bits in a message of more than {max_values} bytes"
        return _refused(_id_of(value), why, len(line))
    except TooManyArrays as error:
        return _refused(_id_of(value), str(error), len(line))
    except TypeError:  # what was parsed can be encoded, unless it is too deep
        return _refused(_id_of(value), f"nested more than {MAX_DEPTH} levels deep", len(line))
    except ValueError as error:
        return _unread(line, error, max_batch, max_values)
    try:  # most messages are plain requests and results: this is the short way for them
        id: Json = value["id"]
        kind = id.__class__
        if value["jsonrpc"] == "2.0" and (kind is int or (kind is str and len(id) <= MAX_ID)):
            if "method" in value:
                method, params = value["method"], value["params"]
                if method.__class__ is str and params.__class__ is dict:
                    return Request(id, method, params)
            elif "error" not in value:
                return Response(id, value["result"])
    except (KeyError, TypeError):
        pass
    message = _message_of(value, max_batch)
    return evolve(message, size=len(line)) if isinstance(message, Batch | Malformed) else message


def is_id(value: Json) -> bool:
    return value.__class__ is int or (value.__class__ is str and len(value) <= MAX_ID)


def _message_of(value: Json, max_batch: int) -> Message:
    if not isinstance(value, list):
        return _single(value)
    if not value:
        return _refused(UNKNOWN_ID, "empty batch")
    if len(value) > max_batch:
        return _refused(UNKNOWN_ID, f"a batch holds at most {max_batch} messages")
    return Batch([_sized(_single(item), item) for item in value])


def _sized(message: Single, item: Json) -> Single:
    if not isinstance(message, Malformed):
        return message
    return evolve(message, size=len(encode(item)) - 1)


def _single(value: Json) -> Single:
    if not isinstance(value, dict):
        return _invalid(UNKNOWN_ID, "a message must be a JSON object", value)
    id: Json = value.get("id", UNKNOWN_ID)
    if not is_id(id):
        if isinstance(id, str):
            return _invalid(UNKNOWN_ID, f'"id" may have at most {MAX_ID} characters')
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
        data = {"reason": '"params" must be an object', "got": json_type(params)}
        message = f"Invalid params: {data['reason']}, not {data['got']}"
        return Malformed(id, McpError(INVALID_PARAMS, message, data))
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
    if got is None:
        return _refused(id, why, data={"reason": why})
    kind = json_type(got)
    return _refused(id, f"{why}, not {kind}", data={"reason": why, "got": kind})


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    tuple: "an array",
    dict: "an object",
    type(None): "null",
}


def json_type(value: Json) -> str:
    """Name the JSON type of a value, as error messages do: `a string`, `an array`, and so on."""
    return _TYPE_NAMES.get(value.__class__, "something else")


# -- what cannot be served --------------------------------------------------------------------

_SPACE: Final = b" \t\r\n"
_MIB: Final = 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_MOST_OF_A_KEY: Final = 100


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


def _unread(line: bytes, error: ValueError, max_batch: int, max_values: int) -> Message | None:
    """Make sense of a line that the parser refused, or say what is wrong with it."""
    bare = line.strip(_SPACE)
    if not bare:
        return None
    if bare.startswith(_BOM):  # RFC 8259, section 8.1: a byte order mark may be ignored
        bare = bare[len(_BOM) :].lstrip(_SPACE)
        if not bare.startswith(_BOM):  # one of them: this does not go on forever
            return decode(bare, max_batch, max_values)
    reason = _explain(bare, error)
    shown = McpError(PARSE_ERROR, f"Parse error: {reason}", {"reason": reason})
    return Malformed(_or_unknown(id_of_unreadable(bare)), shown, len(line))


def _repeats(value: Json, repeated: RepeatedKey, size: int) -> Malformed:
    named = "" if repeated.key is None else f' "{sendable_text(repeated.key[:_MOST_OF_A_KEY])}"'
    error = McpError(INVALID_REQUEST, f"Invalid request: repeated key{named}")
    id = UNKNOWN_ID if repeated.is_id else _id_of(value)
    return Malformed(id, error, size, "Invalid request: repeated key")


def _too_much(line: bytes, limit: int) -> Malformed:
    why = f"more than {limit} values in one message"
    return _refused(_or_unknown(id_of_heavy(line)), why, len(line), {"maxValues": limit})


def _refused(id: Id, why: str, size: int = 0, data: Json = None) -> Malformed:
    return Malformed(id, McpError(INVALID_REQUEST, f"Invalid request: {why}", data), size)


def _id_of(value: Json) -> Id:
    return _or_unknown(value.get("id") if isinstance(value, dict) else None)


def _or_unknown(id: Json) -> Id:
    return id if is_id(id) else UNKNOWN_ID


def _explain(line: bytes, error: ValueError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as undecodable:
        return f"invalid UTF-8 at byte {undecodable.start}"
    return str(error)


# -- encoding ---------------------------------------------------------------------------------

_NULL: Final = b"null"
"""As `codec` writes NaN, too. `rfind` looks for it at a half to a tenth of the cost of `find`, and
`in` is slower still: it tries to take the text for a number first, and drops an exception."""

_SOON_PARSED: Final = 16 * 1024
"""Bytes that are parsed in less time than a look at each value takes, whatever is in them."""


class NotFinite(TypeError):
    """A message holds NaN or an infinite number."""

    def __init__(self) -> None:
        super().__init__("NaN and infinite numbers are not JSON")


def trimmed(line: bytes) -> bytes:
    """Copy a line that is to be kept: what the encoder returns may own much more memory."""
    return bytes(memoryview(line))


def encode(message: Json, is_encodable: bool = False, in_slices: bool = False) -> bytes:
    """Turn a JSON-able message into a line, newline included.

    Args:
        message: The message.
        is_encodable: Whether it is known to hold no NaN, no infinite number, and few arrays that
            end together, as what `decode` returns.
        in_slices: Whether other threads are to have their turn while a large message is encoded.

    Raises:
        TypeError: The message holds something that JSON does not know (NaN and infinities too), or
            is nested too deeply.
    """
    if not is_encodable and has_many_arrays(message):
        raise TooManyArrays
    try:
        if in_slices:
            encode_part = partial(_encode, is_finite=is_encodable)
            return b"".join([*slices(message, encode_part), b"\n"])
        return _encode(message, is_encodable, codec.NEWLINE)
    except NotFinite:
        raise
    except TypeError as refusal:
        return _encode_carefully(message, refusal)


def _encode(message: Json, is_finite: bool, option: int | None = None) -> bytes:
    line = codec.dumps_unchecked(message, option=option)
    return line if is_finite or line.rfind(_NULL) < 0 else _checked(message, line)


def _encode_carefully(message: Json, refusal: TypeError) -> bytes:
    """Encode a message that `codec` refuses, if that is for a long integer."""
    if not str(refusal).startswith("Integer exceeds"):  # json takes more than is JSON
        raise TypeError("the message holds something that is not JSON")
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        codec.loads(text)  # readers take no integer beyond the largest float, nor do we
        return text.encode() + b"\n"
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from None


def _checked(message: Json, line: bytes) -> bytes:
    """Return the line of a message, unless it has null in place of NaN."""
    try:
        is_same = len(line) < _SOON_PARSED and codec.loads(line) == message  # as it mostly is
    except Exception:  # of an `__eq__` of the author's
        is_same = False
    if not (is_same or _is_finite(message)):
        raise NotFinite
    return line


def _is_finite(message: Json) -> bool:
    # Down level by level: value by value, half a million of them would hold up an event loop.
    arrays: list[Sequence[Json]] = [[message]]
    objects: list[dict[str, Json]] = []
    while arrays or objects:
        level = partial(_items, arrays, objects)
        kinds = set(map(type, level()))
        if float in kinds and not all(
            isfinite(number) for number in level() if type(number) is float
        ):
            return False
        arrays = _of_kind((list, tuple), kinds, level)
        objects = _of_kind(dict, kinds, level)
    return True


def _items(arrays: list[Sequence[Json]], objects: list[dict[str, Json]]) -> Iterable[Json]:
    return chain(chain.from_iterable(arrays), chain.from_iterable(map(dict.values, objects)))


def _of_kind(wanted: Any, kinds: set[type], level: Callable[[], Iterable[Json]]) -> list[Any]:
    found = {kind for kind in kinds if issubclass(kind, wanted)}
    return [value for value in level() if type(value) in found] if found else []


def result_line(id: Id, result: Json, is_encodable: bool = False, in_slices: bool = False) -> bytes:
    """Encode the response that carries a result; the rest as for `encode`."""
    return encode({"jsonrpc": "2.0", "id": id, "result": result}, is_encodable, in_slices)


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
    """Make one line of the responses to a batch."""
    return b"[" + b",".join(line[:-1] for line in lines) + b"]\n"
