"""Whether a parsed JSON value is all that its text says.

A parser may lose something silently: the digits of a long integer, all but one of several members
with the same name. Single values, of which there may be millions, are looked at only where counts
do not fit: texts are counted and compared, by functions that are written in C. (Of these, `rfind`
is four times as fast as `find` for several bytes.)

- What has few names has them all if there is a colon for each, strings left out. To encode such a
  value, of which strings and numbers are most, could take longer than to parse it.
- If most of it are strings full of escapes, which take long to encode, each name but the first of
  an object follows a comma, with a space between them or none. There must be no more strings that
  do than in the value: no string holds a quotation mark behind a comma.
- The names of a long list of objects are counted. If there are no more colons in the text, it has
  no other names.
- Anything else is encoded again, with two spaces for each level if it is written in lines. If that
  is the text, byte for byte, nothing was lost. If not, for white space or for another way to write
  something, there must be as many colons in both: no parser adds any.
- Digits can only have been lost where there are twenty in a row, and have made a float that is too
  large for 64 bits.
"""

import json
from math import gcd, hypot
from typing import Any, Final, Literal

from trio_mcp.wire import codec
from trio_mcp.wire.nested_arrays import MOST_ARRAYS
from trio_mcp.wire.weight import has_long_integers, without_strings

_SPACE: Final = b" \t\r\n"
_AS_ARRAYS: Final = bytes.maketrans(b"{}:", b"[],")
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19
"""As many digits as 2**63 has: what has fewer is never lost."""
_SPARSELY: Final = 64
_LINE_SPACE: Final = (b"\n", b"\t", b"\r")
"""White space that is nowhere within a string."""
_ESCAPE: Final = b"\\u"
_ESCAPED_ASCII: Final = b"\\u003"
"""How an escaped digit begins, and an escaped colon."""
_FEW: Final = 120
"""Names, or arrays, in a value that is soon looked through. Both together are nested less deeply
than can be encoded."""
_GLANCE: Final = 4096
_SMALL: Final = 2.0**62
"""No integer beyond 64 bits becomes a float as small as that."""

_Kept = Literal["names", "all"]
"""What a value has kept of its text: its names, though maybe not all digits; or all of it."""

SHORT: Final = 4096
"""Bytes of a text that is soon encoded again, whatever it is made of."""

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


def exact(line: bytes, value: Any, limit: int) -> Any:
    """Return the value that a text stands for, given what a parser has made of it.

    Args:
        line: The text.
        value: What it was parsed to.
        limit: The most bytes of a text with integers beyond 64 bits.

    Raises:
        RepeatedKey: The value cannot hold what the text says.
        LongIntegers: There are such integers, and the text is longer than that.
        TypeError: The value is nested too deeply to be encoded.
    """
    if len(line) > SHORT:
        kept = _kept_by_few(value, line) or _kept_by_rows(value, line)
        if kept == "all":
            return value
        if kept == "names" and len(line) <= limit:
            return json.loads(line)
    lines = codec.INDENTED if line[1:2] == b"\n" else None
    again = codec.dumps_parsed(value, line, lines)
    if again == line:
        return value
    has_escapes = line.find(b"\\") >= 0 and line.rfind(_ESCAPE) >= 0
    if (  # the shortest way for short ones only
        len(line) <= SHORT
        and not has_escapes
        and line.translate(None, _SPACE) == again.translate(None, _SPACE)
    ):
        return value
    is_ascii_escaped = has_escapes and line.rfind(_ESCAPED_ASCII) >= 0
    if is_ascii_escaped or line.count(b":") != again.count(b":"):
        _check_by_parsing(line, value)
    if _has_many_digits(line) and (is_ascii_escaped or _long_numbers(line) != _long_numbers(again)):
        if len(line) > limit:
            raise LongIntegers
        return json.loads(line)
    return value


def _kept_by_few(value: Any, line: bytes) -> _Kept | None:
    """Return what a value with few names and arrays is soon seen to have kept."""
    text = without_strings(line)
    has_few_strings = len(text) < len(line)
    if not (has_few_strings or _has_many_escapes(line)):
        return None
    names, arrays, chained, behind, are_small, parts = 0, 0, 0, 0, True, [value]
    for part in parts:  # which grow meanwhile
        kind = part.__class__
        if kind is dict:
            names += len(part)
            behind += max(len(part) - 1, 0)
            parts += part.values()
        elif kind is list and len(part) <= _FEW:
            arrays += 1
            chained += bool(part) and part[-1].__class__ is list
            behind += sum(item.__class__ is str for item in part[1:])
            parts += part
        elif kind is list or kind is float:  # of a long list, the items are not looked at
            arrays += kind is list
            are_small = are_small and _is_small(part)
        if names > _FEW or arrays > _FEW or len(parts) > 10 * _FEW:
            return None
    if chained >= MOST_ARRAYS:
        return None
    if not has_few_strings:
        return "all" if are_small and _has_strings_behind_commas(line, behind) else None
    most_arrays = max(arrays, MOST_ARRAYS)  # those that were seen, or too few to be too many
    if not (_has_at_most(text, b":", names) and _has_at_most(text, b"[", most_arrays)):
        return None
    return "names" if not are_small and has_long_integers(text) else "all"


def _kept_by_rows(value: Any, line: bytes) -> _Kept | None:
    """Return what a value with a long list of flat objects is soon seen to have kept.

    It has all names if the text has no more colons. It has more if there are any in its strings,
    which a glance at its middle shows mostly.
    """
    half = len(line) // 2
    middle = line[half : half + _GLANCE]
    if middle.count(b":") > middle.count(b'":') + 1:  # at whose colon it may begin
        return None
    names, cells, parts = 0, 0, [value]
    for part in parts:  # which grow meanwhile
        if part.__class__ is dict:
            names += len(part)
            parts += part.values()
        elif part.__class__ is list and len(part) <= _FEW:
            parts += part
        elif part.__class__ is list and part[0].__class__ is dict:
            if set(map(type, part)) != {dict}:
                return None
            cells += sum(map(len, part))
        if names > _FEW or len(parts) > 10 * _FEW:
            return None
    if not (cells and line.count(b":") == names + cells and _has_at_most(line, b"[", MOST_ARRAYS)):
        return None
    return "names" if _has_many_digits(line) else "all"


def _has_many_escapes(text: bytes) -> bool:
    """Whether to encode the text again would take longer than to go through it twice."""
    return text[::_SPARSELY].count(b"\\") * _SPARSELY > len(text) // 12


def _has_strings_behind_commas(text: bytes, count: int) -> bool:
    """Whether no more strings than that follow a comma, with one space between them or none.

    In a string, a quotation mark follows a backslash. So these are names and items of arrays: all
    but the first of each object and array; and the ends of strings whose last character is a comma,
    or a comma and a space.
    """
    if any(text.rfind(space) >= 0 for space in _LINE_SPACE):
        return False
    marks = [b',"']
    if text.rfind(b' "') >= 0:
        if text.rfind(b'  "') >= 0:
            return False
        marks.append(b', "')
    for mark in marks:
        at = len(text)
        while (at := text.rfind(mark, 0, at)) >= 0:
            count -= 1
            if count < 0:
                return False
    return True


def _is_small(numbers: Any) -> bool:
    """Whether none of the numbers was an integer beyond 64 bits, if that is soon found out."""
    if numbers.__class__ is float:
        return -_SMALL < numbers < _SMALL
    try:  # both take a fifth of the time in which the numbers are parsed
        if numbers[0].__class__ is float:
            return hypot(*numbers) < _SMALL
        return gcd(1, *numbers) == 1  # always, if they are integers; it takes no others
    except TypeError:  # there is something else among them
        return False


def _has_at_most(text: bytes, mark: bytes, count: int) -> bool:
    at = -1
    for _ in range(count + 1):
        at = text.find(mark, at + 1)
        if at < 0:
            return True
    return False


def _check_by_parsing(line: bytes, value: Any) -> None:
    """Raise `RepeatedKey` if the text has more in it than the value."""
    # With arrays in place of objects, no parser has a reason to drop anything.
    flat = codec.loads(line.translate(_AS_ARRAYS))
    if _has_lost(value, flat):
        is_id = value.__class__ is dict and flat[::2].count("id") > 1
        raise RepeatedKey(_repeated(line), is_id)


def _has_lost(value: Any, flat: Any) -> bool:
    """Whether an object has fewer members than the array that was parsed in place of it."""
    parts = [(value, flat)]
    for part, array in parts:  # which grow meanwhile
        members = part
        if part.__class__ is dict:
            if len(array) != 2 * len(part):
                return True
            members, array = part.values(), array[1::2]
        pairs = zip(members, array, strict=True)
        parts += [pair for pair in pairs if pair[0].__class__ in (dict, list)]
    return False


def _has_many_digits(text: bytes) -> bool:
    """Whether there may be integers beyond 64 bits: most texts soon show that there are none."""
    # Of 19 digits in a row, each ninth byte is two, and each fourth byte four.
    if text[::9].translate(_DIGITS_TO_ZERO).rfind(b"00") < 0:
        return False
    return text[::4].translate(_DIGITS_TO_ZERO).rfind(b"0000") >= 0 and has_long_integers(text)


def _long_numbers(text: bytes) -> int:
    zeros = text.translate(_DIGITS_TO_ZERO)  # without fractions, whose zeros an encoder may add
    return zeros.count(_LONG) - zeros.count(b"." + _LONG)


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
