"""Whether a parsed JSON value is all that its text says.

A parser may lose something silently: the digits of a long integer, all but one of several members
with the same name. The value's own encoding shows it. Where that is the text, byte for byte,
nothing was lost, and this module is not needed. Where it is not, both are made alike, step by step,
in passes that each are one call of a function written in C: a message of ten megabytes must not
hold up the event loop, so nothing here looks at single values.
"""

import json
from typing import Any, Final

import orjson

_SPACE: Final = b" \t\r\n"
_AS_ARRAYS: Final = bytes.maketrans(b"{}:", b"[],")
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19
"""As many digits as 2**63 has: what has fewer is never lost."""
_ESCAPED_DIGIT: Final = b"\\u003"

CLOSE_LOOK: Final = 256 * 1024
"""Bytes of the longest text that is also looked at by slower means, to say more about an error."""


class RepeatedKey(Exception):
    """An object has several members with the same name.

    Args:
        key: The name, if it was looked for.
        is_id: It is (also) the `id` of the outermost object.
    """

    def __init__(self, key: str | None, is_id: bool = False) -> None:
        super().__init__(key)
        self.key = key
        self.is_id = is_id


class LongIntegers(Exception):
    """There are integers beyond 64 bits in a text that is too long for them.

    They are read and written by `json`, which takes 30 to 80 ns for each byte and cannot be
    interrupted, not even in a thread.
    """


def exact(line: bytes, again: bytes, value: Any, limit: int) -> Any:
    """Return the value of a text whose parsed form does not encode to the same bytes.

    Args:
        line: The text.
        again: The encoding of what it was parsed to.
        value: What it was parsed to.
        limit: The most bytes of a text with integers beyond 64 bits.

    Raises:
        RepeatedKey: The value cannot hold what the text says.
        LongIntegers: There are such integers, and the text is longer than that.
    """
    # Without white space, inside of strings too, the tokens are still apart. So if both are equal
    # now, they have the same tokens but for spaces in strings, and none was lost.
    bare, bare_again = line.translate(None, _SPACE), again.translate(None, _SPACE)
    if bare == bare_again or (b"\\u" in bare and _unescaped(bare) == bare_again):
        return value
    return _exact_by_parsing(line, again, value, limit)


def _exact_by_parsing(line: bytes, again: bytes, value: Any, limit: int) -> Any:
    """Decide about a text with other escapes or numbers, by parsing it again."""
    # With arrays in place of objects, no parser has a reason to drop anything.
    flat = orjson.loads(line.translate(_AS_ARRAYS))
    if orjson.dumps(flat).translate(_AS_ARRAYS) != again.translate(_AS_ARRAYS):
        is_id = value.__class__ is dict and flat[::2].count("id") > 1
        raise RepeatedKey(_repeated(line), is_id)
    if _long_numbers(line) != _long_numbers(again) or _ESCAPED_DIGIT in line:
        if len(line) > limit:
            raise LongIntegers
        return json.loads(line)
    return value


def _unescaped(text: bytes) -> bytes | None:
    r"""Write each `\uXXXX` in a JSON text as what it stands for, if none stands for ASCII.

    It could be a quote or a backslash, and then the text would have other tokens.
    """
    plain = text.decode("raw_unicode_escape")
    ascii = len(plain.encode("ascii", "ignore"))
    if len(text) != ascii + 6 * (len(plain) - ascii):
        return None
    return plain.encode("utf-16", "surrogatepass").decode("utf-16").encode()  # joins pairs


def _long_numbers(text: bytes) -> int:
    return text.translate(_DIGITS_TO_ZERO).count(_LONG)


def _repeated(line: bytes) -> str | None:
    if len(line) <= CLOSE_LOOK:
        try:
            json.loads(line, object_pairs_hook=_unique)
        except RepeatedKey as repeated:
            return repeated.key
    return None


def _unique(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise RepeatedKey(name)
        seen.add(name)
