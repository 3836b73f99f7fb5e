"""Regular expressions from schemas, without their bad cases.

Python's `re` backtracks: what `(a+)+b` does with thirty letters takes minutes. So a pattern is
looked at before it is used. It is turned into an automaton of its character positions
(Glushkov's construction: no empty moves), and the number of ways in which the automaton can read
one and the same text is what backtracking may have to try:

- If a loop can read some text in two ways and come back to where it was, the ways double with
  every turn. Such a pattern is refused.
- Otherwise they grow with a power of the length of the text: by one for each loop that can hand
  over to a later one at more than one place, and by one more if the match may start anywhere.
  Texts are then limited to a length at which the work stays bounded.

Character sets are over-estimated, bounded repeats may be taken for endless ones, and lookarounds
are taken as branches; all of that errs on the side of refusing. Backreferences and conditional
groups are refused outright.

The automaton is read from `re`'s own parse tree, so that there is no second opinion on syntax.
"""

from __future__ import annotations

import functools
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from attrs import Factory, define, frozen

from trio_mcp.schema.errors import SchemaError
from trio_mcp.schema.sentences import cut

__all__ = ["compile_bounded", "longest_text"]

_WORK = 10**7
_MOST_POSITIONS = 400
_UNROLLED = 64
_UNROLLED_OPTIONS = 3
_MOST_PAIRS = 100_000
_SHORTEST_LIMIT = 32
_TOP = 0x10FFFF

_ADVICE = "simplify it, or use minLength, maxLength or enum in its place"

# Character sets are sorted, disjoint ranges. -------------------------------------------------

Ranges = tuple[tuple[int, int], ...]

_SPACE: Ranges = (
    (0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
_DIGIT_ASCII: Ranges = ((0x30, 0x39),)
_WORD_ASCII: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))


def _union(*sets: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(each for ranges in sets for each in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    gaps, start = [], 0
    for low, high in ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= _TOP:
        gaps.append((start, _TOP))
    return tuple(gaps)


def _meet(one: Ranges, other: Ranges) -> bool:
    return any(low <= top and bottom <= high for low, high in one for bottom, top in other)


# Beyond ASCII, whatever is no space may be a digit or a letter.
_BEYOND: Ranges = _complement(_union(((0, 0x7F),), _SPACE))
_CATEGORIES: dict[Any, Ranges] = {
    sre.CATEGORY_SPACE: _SPACE,
    sre.CATEGORY_NOT_SPACE: _complement(_SPACE),
    sre.CATEGORY_DIGIT: _union(_DIGIT_ASCII, _BEYOND),
    sre.CATEGORY_NOT_DIGIT: _complement(_DIGIT_ASCII),
    sre.CATEGORY_WORD: _union(_WORD_ASCII, _BEYOND),
    sre.CATEGORY_NOT_WORD: _complement(_WORD_ASCII),
}
_CERTAIN: dict[Any, Ranges] = {
    **_CATEGORIES,
    sre.CATEGORY_DIGIT: _DIGIT_ASCII,
    sre.CATEGORY_WORD: _WORD_ASCII,
    sre.CATEGORY_NOT_DIGIT: _complement(_CATEGORIES[sre.CATEGORY_DIGIT]),
    sre.CATEGORY_NOT_WORD: _complement(_CATEGORIES[sre.CATEGORY_WORD]),
}


def _members(items: Iterable[tuple[Any, Any]], fold: bool) -> Ranges:
    """The characters of a set, at least; of a negated one too."""
    items = list(items)
    negated = bool(items) and items[0][0] is sre.NEGATE
    categories = _CERTAIN if negated else _CATEGORIES
    sets: list[Ranges] = []
    for kind, value in items[negated:]:
        if kind is sre.LITERAL:
            sets.append(((value, value),))
        elif kind is sre.RANGE:
            sets.append((value,))
        else:
            sets.append(categories[value])
    ranges = _union(*sets)
    if negated:
        return _complement(ranges)
    return _folded(ranges) if fold else ranges


def _folded(ranges: Ranges) -> Ranges:
    """With the other case of each ASCII letter, and whatever beyond ASCII may fold into it."""
    other = [
        (ord(swapped), ord(swapped))
        for low, high in ranges
        for code in range(max(low, 0x41), min(high, 0x7A) + 1)
        if (swapped := chr(code).swapcase()) != chr(code)
    ]
    return _union(ranges, tuple(other), ((0x80, _TOP),))


# The automaton. ------------------------------------------------------------------------------


@frozen
class _Piece:
    """A part of the pattern: where it may begin and end, and whether it may be empty."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    empty: bool = True


@define
class _Automaton:
    """Positions, their characters, and how often each may follow each."""

    flags: int
    ways: int = 1
    """In how many ways parts outside loops can be empty."""

    loops: int = 0
    """How many loops are being read, one within another."""

    sets: list[Ranges] = Factory(list)
    follow: list[dict[int, int]] = Factory(list)

    def position(self, characters: Ranges) -> _Piece:
        if len(self.sets) >= _MOST_POSITIONS:
            raise SchemaError(f"it is too long to be looked through; {_ADVICE}")
        self.sets.append(characters)
        self.follow.append({})
        here = (len(self.sets) - 1,)
        return _Piece(here, here, empty=False)

    def connect(self, last: Iterable[int], first: Iterable[int]) -> None:
        first = tuple(first)
        for one in last:
            follow = self.follow[one]
            for other in first:
                follow[other] = follow.get(other, 0) + 1

    def chain(self, one: _Piece, other: _Piece) -> _Piece:
        self.connect(one.last, other.first)
        return _Piece(
            one.first + other.first if one.empty else one.first,
            one.last + other.last if other.empty else other.last,
            one.empty and other.empty,
        )

    def read(self, tree: Any) -> _Piece:
        piece = _Piece()
        for operator, value in tree:
            piece = self.chain(piece, _READERS[operator](self, value))
        return piece

    def count_ways(self, ways: int) -> None:
        """Take note that a part can be empty in so many ways, which follow no position."""
        if ways > 1 and self.loops:
            raise SchemaError(f"it repeats something that can be empty in two ways; {_ADVICE}")
        self.ways *= max(ways, 1)

    # One reader for each kind of node in the parse tree.

    def literal(self, code: int) -> _Piece:
        return self.position(_members([(sre.LITERAL, code)], self._fold))

    def not_literal(self, code: int) -> _Piece:
        return self.position(_complement(((code, code),)))

    def any_character(self, _: None) -> _Piece:
        every = ((0, _TOP),) if self.flags & re.DOTALL else _complement(((10, 10),))
        return self.position(every)

    def one_of(self, items: list[tuple[Any, Any]]) -> _Piece:
        return self.position(_members(items, self._fold))

    def nothing(self, _: Any) -> _Piece:
        return _Piece()

    def group(self, value: tuple[Any, int, int, Any]) -> _Piece:
        _, added, removed, tree = value
        before = self.flags
        self.flags = before & ~removed | added
        piece = self.read(tree)
        self.flags = before
        return piece

    def atomic(self, tree: Any) -> _Piece:
        return self.read(tree)

    def branch(self, value: tuple[None, list[Any]]) -> _Piece:
        pieces = [self.read(tree) for tree in value[1]]
        self.count_ways(sum(piece.empty for piece in pieces))
        return _Piece(
            tuple(position for piece in pieces for position in piece.first),
            tuple(position for piece in pieces for position in piece.last),
            any(piece.empty for piece in pieces),
        )

    def look(self, value: tuple[int, Any]) -> _Piece:
        """A lookaround is read beside the rest, which goes on from where it was."""
        return _Piece(self.read(value[1]).first)

    def repeat(self, value: tuple[int, int, Any]) -> _Piece:
        least, most, tree = value
        if most == 0:
            return _Piece()
        size = len(self.sets)
        self.loops += most > 1
        piece = self.read(tree)
        self.loops -= most > 1
        size = len(self.sets) - size
        if most == 1:
            self.count_ways(piece.empty + (least == 0))
            return _Piece(piece.first, piece.last, piece.empty or least == 0)
        if piece.empty and size:
            raise SchemaError(f"it repeats something that may be empty; {_ADVICE}")
        if (least == most and most * size <= _UNROLLED) or most <= _UNROLLED_OPTIONS:
            return self._unroll(piece, least, most, tree)
        return self._loop(piece, least == 0)

    def _unroll(self, piece: _Piece, least: int, most: int, tree: Any) -> _Piece:
        """x{1,3} as x(x(x)?)?"""
        copies = [piece, *(self.read(tree) for _ in range(most - 1))]
        whole = _Piece()
        for number in reversed(range(most)):
            whole = self.chain(copies[number], whole)
            if number >= least:
                whole = _Piece(whole.first, whole.last, empty=True)
        return whole

    def _loop(self, piece: _Piece, empty: bool) -> _Piece:
        self.connect(piece.last, piece.first)
        return _Piece(piece.first, piece.last, empty)

    def refuse(self, _: Any) -> _Piece:
        raise SchemaError(f"it refers back to a group; {_ADVICE}")

    @property
    def _fold(self) -> bool:
        return bool(self.flags & re.IGNORECASE)


_READERS: dict[Any, Callable[[_Automaton, Any], _Piece]] = {
    sre.LITERAL: _Automaton.literal,
    sre.NOT_LITERAL: _Automaton.not_literal,
    sre.ANY: _Automaton.any_character,
    sre.IN: _Automaton.one_of,
    sre.AT: _Automaton.nothing,
    sre.SUBPATTERN: _Automaton.group,
    sre.ATOMIC_GROUP: _Automaton.atomic,
    sre.BRANCH: _Automaton.branch,
    sre.ASSERT: _Automaton.look,
    sre.ASSERT_NOT: _Automaton.look,
    sre.MAX_REPEAT: _Automaton.repeat,
    sre.MIN_REPEAT: _Automaton.repeat,
    sre.POSSESSIVE_REPEAT: _Automaton.repeat,
    sre.GROUPREF: _Automaton.refuse,
    sre.GROUPREF_EXISTS: _Automaton.refuse,
    sre.FAILURE: _Automaton.nothing,
}


# How often one text can be read. --------------------------------------------------------------


class _Ambiguity:
    """In how many ways the automaton may read a text, as a function of its length."""

    def __init__(self, automaton: _Automaton, first: tuple[int, ...]) -> None:
        self._sets = automaton.sets
        self._follow = automaton.follow
        self._first = first
        self._explored = 0
        self._meets: dict[tuple[int, int], bool] = {}
        self._loop_of = self._find_loops()
        self._loops: dict[int, list[int]] = {}
        for position, loop in enumerate(self._loop_of):
            if loop is not None:
                self._loops.setdefault(loop, []).append(position)

    @property
    def has_loops(self) -> bool:
        return bool(self._loops)

    def _find_loops(self) -> list[int | None]:
        """For each position, the smallest one that it shares a loop with, if any."""
        count = len(self._follow)
        reach = [sum(1 << other for other in follow) for follow in self._follow]
        for middle in range(count):
            bit, through = 1 << middle, reach[middle]
            for start in range(count):
                if reach[start] & bit:
                    reach[start] |= through
        return [
            next(
                (
                    other
                    for other in range(count)
                    if reach[position] >> other & 1 and reach[other] >> position & 1
                ),
                None,
            )
            for position in range(count)
        ]

    def _meet(self, one: int, other: int) -> bool:
        key = (one, other) if one < other else (other, one)
        if key not in self._meets:
            self._meets[key] = _meet(self._sets[one], self._sets[other])
        return self._meets[key]

    def _pairs_after(self, one: int, other: int) -> Iterable[tuple[int, int]]:
        """Where two readings may go with one and the same character."""
        for left in self._follow[one]:
            for right in self._follow[other]:
                self._explored += 1
                if self._explored > _MOST_PAIRS:
                    raise SchemaError(f"it is too intricate to be looked through; {_ADVICE}")
                if self._meet(left, right):
                    yield left, right

    def doubles(self) -> bool:
        """Whether some loop can be gone through in two ways by one text."""
        return any(self._loop_doubles(loop) for loop in self._loops)

    def _loop_doubles(self, loop: int) -> bool:
        inside = self._loops[loop]
        if any(
            times > 1 and self._loop_of[other] == loop
            for one in inside
            for other, times in self._follow[one].items()
        ):
            return True
        edges = self._explore(
            [(each, each) for each in inside],
            lambda one, other: self._loop_of[one] == loop and self._loop_of[other] == loop,
        )
        # Two readings have parted; can they meet again?
        meeting = {pair for pair in edges if pair[0] == pair[1]}
        backwards: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for pair, nexts in edges.items():
            for each in nexts:
                backwards.setdefault(each, []).append(pair)
        waiting = list(meeting)
        while waiting:
            for pair in backwards.get(waiting.pop(), ()):
                if pair not in meeting:
                    meeting.add(pair)
                    waiting.append(pair)
        return any(one != other for one, other in meeting)

    def _explore(
        self, start: list[tuple[int, int]], allowed: Callable[[int, int], bool]
    ) -> dict[tuple[int, int], list[tuple[int, int]]]:
        edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
        waiting = list(start)
        while waiting:
            pair = waiting.pop()
            if pair not in edges:
                edges[pair] = [each for each in self._pairs_after(*pair) if allowed(*each)]
                waiting.extend(edges[pair])
        return edges

    def degree(self) -> int:
        """With which power of the length the ways grow: the longest chain of handovers."""
        handovers = {loop: self._handovers(loop) for loop in self._loops}

        @functools.cache
        def longest(loop: int) -> int:
            return max((1 + longest(later) for later in handovers[loop]), default=0)

        return max(map(longest, self._loops), default=0)

    def _handovers(self, loop: int) -> set[int]:
        """The later loops that can take over from this one at more than one place."""
        edges = self._explore(
            [(each, each) for each in self._loops[loop]],
            lambda one, _: self._loop_of[one] == loop,
        )
        later: dict[int, dict[tuple[int, int], list[tuple[int, int]]]] = {}
        for pair, nexts in edges.items():
            taken = self._loop_of[pair[1]]
            if taken is not None and taken != loop:
                later.setdefault(taken, {})[pair] = nexts
        return {taken for taken, pairs in later.items() if _has_cycle(pairs)}

    def choices(self) -> int:
        """The ways that do not grow: the product of the choices outside loops and on leaving."""
        ways = self._choices_at(dict.fromkeys(self._first, 1), None)
        for position, loop in enumerate(self._loop_of):
            if loop is None:
                ways *= self._choices_at(self._follow[position], None)
        for loop, inside in self._loops.items():
            ways *= max(self._choices_at(self._follow[each], loop) for each in inside)
        return ways

    def _choices_at(self, follow: dict[int, int], loop: int | None) -> int:
        """The most ways to go with one character; all that stay in the loop count as one."""
        most = 1
        for one in follow:
            met = [other for other in follow if self._meet(one, other)]
            leaving = [other for other in met if loop is None or self._loop_of[other] != loop]
            staying = len(leaving) < len(met)
            most = max(most, sum(follow[other] for other in leaving) + staying)
        return most


def _has_cycle(edges: dict[tuple[int, int], list[tuple[int, int]]]) -> bool:
    """Whether a graph has a cycle: nodes without a way on are taken away until none is."""
    remaining = dict(edges)
    while remaining:
        dead = [node for node, nexts in remaining.items() if not any(n in remaining for n in nexts)]
        if not dead:
            return True
        for node in dead:
            del remaining[node]
    return False


def _is_anchored(tree: Any, flags: int) -> bool:
    """Whether every match begins at the beginning of the text."""
    for operator, value in tree:
        if operator is sre.AT:
            if value is sre.AT_BEGINNING_STRING:
                return True
            return value is sre.AT_BEGINNING and not flags & re.MULTILINE
        if operator is sre.SUBPATTERN:
            return _is_anchored(value[3], flags | value[1])
        if operator is sre.BRANCH:
            return all(_is_anchored(each, flags) for each in value[1])
        return False
    return False


# What others call. ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def longest_text(pattern: str) -> int:
    """The longest text, in characters, that may be matched against a pattern.

    Raises:
        SchemaError: The pattern is no regular expression, or it cannot be shown to be harmless.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
            tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise SchemaError(f"the pattern {cut(pattern)} is no regular expression: {error}") from None
    try:
        return _longest_text(tree)
    except SchemaError as error:
        raise SchemaError(f"the pattern {cut(pattern)} is not accepted: {error}") from None


def _longest_text(tree: Any) -> int:
    automaton = _Automaton(tree.state.flags)
    whole = automaton.read(tree)
    ambiguity = _Ambiguity(automaton, whole.first)
    if ambiguity.doubles():
        raise SchemaError(
            "it repeats something that can match one text in several ways, which may take for "
            f"ever; {_ADVICE}"
        )
    roaming = ambiguity.has_loops and not _is_anchored(tree, tree.state.flags)
    power = 1 + ambiguity.degree() + roaming
    longest = int((_WORK / (ambiguity.choices() * automaton.ways)) ** (1 / power))
    if longest < _SHORTEST_LIMIT:
        raise SchemaError(f"it can match one text in too many ways; {_ADVICE}")
    return longest


@functools.lru_cache(maxsize=512)
def compile_bounded(pattern: str) -> Callable[[str], bool]:
    """Compile a pattern to a test of texts, which is false for those that are too long.

    Raises:
        SchemaError: As `longest_text`.
    """
    longest = longest_text(pattern)
    search = re.compile(pattern).search

    def test(text: str) -> bool:
        return len(text) <= longest and search(text) is not None

    return test
