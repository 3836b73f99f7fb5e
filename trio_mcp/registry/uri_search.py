"""Finding out which parts of a URI belong to which variables, in linear time.

A URI is read into text with one character for each of its own, where `%XY`, too, counts as one:
so nothing is ever cut in the middle of an escape, and `%2f` is the same as `%2F`.

A template is a row of groups, and a group a row of pieces: some fixed text and then a run of
characters out of an alphabet. How far the pieces can reach is computed for all possibilities at
the same time. The positions where a piece may end are the bits of one integer: fixed text shifts
them, and a run of characters is one addition, whose carry runs to the end of the run. Every
piece is looked at once, there is nothing to go back to, and whatever comes costs no more than the
length of the template times the length of the URI.

Then one walk from the end to the beginning picks the possibility that is reported: each optional
group takes as many of its pieces as can be, and each piece as few characters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from attrs import frozen

__all__ = [
    "LONGEST_URI",
    "PARAMETERS",
    "QUERY",
    "RESERVED",
    "UNRESERVED",
    "Group",
    "Piece",
    "Values",
    "one_value",
    "pairs",
    "read_uri",
    "search",
    "segments",
]

LONGEST_URI: Final = 8192
"""Bytes in the longest URI that is looked at."""

Values = dict[str, str | list[str]]

_ESCAPED: Final = 0xE000  # the byte XY of %XY is the character 0xE000 + XY, which has no case
_ALL_ESCAPED: Final = "".join(chr(_ESCAPED + byte) for byte in range(256))

_ASCII: Final = r"A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;="
_WELL_FORMED: Final = re.compile(rf"(?:[{_ASCII}]++|%[0-9A-Fa-f]{{2}})*+")
_ESCAPE: Final = re.compile(r"%(..)")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")

# Alphabets, as strings of all their characters (RFC 3986, sections 2.2 and 3.4).
UNRESERVED: Final = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" + _ALL_ESCAPED
)
RESERVED: Final = UNRESERVED + ":/?#[]@!$&'()*+,;="
QUERY: Final = UNRESERVED + ":/?@!$&'()*+,;="
PARAMETERS: Final = UNRESERVED + ";=,"


@frozen
class Piece:
    """Fixed text, and after it a run of characters."""

    lead: str
    """The fixed text, as `read_uri` returns it."""

    alphabet: str = ""
    """The characters of the run."""

    least: int = 0
    """The fewest characters in the run, 0 or 1."""

    read: Callable[[str], Values | None] = lambda _run: {}
    """Turns the run into variables, or into `None` if it cannot be what it stands for."""


@frozen
class Group:
    """Pieces, one after the other."""

    pieces: tuple[Piece, ...]

    optional: bool = False
    """Whether pieces may be left out, beginning with the last."""


# What runs mean -------------------------------------------------------------------------------


def one_value(name: str, run: str) -> Values:
    """A run that is the value of one variable."""
    return {name: _decode(run)}


def segments(name: str, run: str) -> Values:
    """A run that is a list of path segments."""
    return {name: [_decode(segment) for segment in run.split("/")]}


def pairs(lists: Mapping[str, bool], separator: str, run: str) -> Values | None:
    """A run of `name=value` pairs in any order.

    Args:
        lists: The names that may come, and whether they may do so more than once.
        separator: What stands between pairs.
        run: The run.
    """
    found: dict[str, list[str]] = {}
    for pair in run.split(separator):
        name, _, value = pair.partition("=")
        if name not in lists or (name in found and not lists[name]):
            return None
        found.setdefault(name, []).append(_decode(value))
    return {name: values if lists[name] else values[0] for name, values in found.items()}


def _decode(run: str) -> str:
    return run if run.isascii() else bytes(ord(each) & 0xFF for each in run).decode()


# Reading --------------------------------------------------------------------------------------


def read_uri(uri: str) -> str | None:
    """A URI with one character for each escape; `None` if it is none, or too long.

    Letters beyond ASCII are taken for their percent-encoded UTF-8, as in an IRI (RFC 3987). What
    is encoded must be UTF-8 as well, all in all, and must not hold NUL.
    """
    if len(uri) > LONGEST_URI:
        return None
    if not uri.isascii():
        try:
            uri = _BEYOND_ASCII.sub(lambda letters: quote(letters[0]), uri)
        except UnicodeEncodeError:  # half a surrogate pair
            return None
    if len(uri) > LONGEST_URI or not _WELL_FORMED.fullmatch(uri):
        return None
    if "%" not in uri:
        return uri
    try:
        if "\0" in unquote_to_bytes(uri).decode():
            return None
    except UnicodeDecodeError:
        return None
    return _ESCAPE.sub(lambda escape: chr(_ESCAPED + int(escape[1], 16)), uri)


# Searching ------------------------------------------------------------------------------------


class _Members(dict[int, str]):
    """For `str.translate`: "1" for the characters of an alphabet, "0" for all others."""

    def __init__(self, alphabet: str) -> None:
        super().__init__(dict.fromkeys(range(128), "0"))
        self.update(dict.fromkeys(map(ord, alphabet), "1"))

    def __missing__(self, key: int) -> str:
        return "0"


_members: Final = functools.lru_cache(maxsize=512)(_Members)


class _Text:
    """A text whose positions are bits."""

    def __init__(self, text: str) -> None:
        self._backwards = text[::-1]
        self._masks = {"": 0}

    def mask(self, alphabet: str) -> int:
        """The positions before a character of the alphabet."""
        mask = self._masks.get(alphabet)
        if mask is None:
            bits = self._backwards.translate(_members(alphabet))
            mask = self._masks[alphabet] = int(bits or "0", 2)
        return mask

    def after(self, positions: int, lead: str) -> int:
        """The positions behind the lead, where it stands at one of the positions."""
        for character in lead:
            positions = (positions & self.mask(character)) << 1
        return positions

    def through(self, positions: int, piece: Piece) -> int:
        """The positions that the piece's run can lead to."""
        mask = self.mask(piece.alphabet)
        if piece.least:
            positions = (positions & mask) << 1
        return positions | (((positions & mask) + mask) ^ mask)


@frozen
class _Stage:
    """What is known of a piece: the positions where its run may begin, and where it may end."""

    begins: int
    ends: int


def search(groups: Sequence[Group], text: str, begin: int) -> Values | None:
    """The variables in `text[begin:]`, or `None` if the groups do not describe it."""
    measured = _Text(text)
    positions = 1 << begin
    trail: list[list[_Stage]] = []
    for group in groups:
        stages: list[_Stage] = []
        ends = all_ends = positions
        for piece in group.pieces:
            begins = measured.after(ends, piece.lead)
            ends = measured.through(begins, piece)
            all_ends |= ends
            stages.append(_Stage(begins, ends))
        positions = all_ends if group.optional else ends
        trail.append(stages)
    if not positions >> len(text) & 1:
        return None
    return _pick(groups, trail, text)


def _pick(groups: Sequence[Group], trail: list[list[_Stage]], text: str) -> Values | None:
    found: Values = {}
    end = len(text)
    for group, stages in zip(reversed(groups), reversed(trail), strict=True):
        count = len(stages)
        while group.optional and count and not stages[count - 1].ends >> end & 1:
            count -= 1
        for piece, stage in zip(group.pieces[:count][::-1], stages[:count][::-1], strict=True):
            nearest = stage.begins & ((1 << (end - piece.least + 1)) - 1)
            begin = nearest.bit_length() - 1
            values = piece.read(text[begin:end])
            if values is None:
                return None
            found |= values
            end = begin - len(piece.lead)
    return found
