"""Finding texts by words: BM25, with stems of words, in an index that is built step by step."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import log
from typing import Final

Field = tuple[str, float]
"""A text, and how much its words count."""

_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
"""The two parameters of BM25: how little a repeated word adds, and how much a long text loses."""
_MOST_WORDS: Final = 2000
"""Words of one text that count."""
_MOST_TERMS: Final = 32
"""Different words of a query that count: the rarest ones."""

_SYLLABIC: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_SYLLABIC}]|[^\W_{_SYLLABIC}]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIXES: Final = (("ies", "i"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", ""))
_SHORTEST_STEM: Final = 3
_LONGEST_WORD: Final = 60
"""Characters of a word that count: stems are kept, and a word may be all of a text."""


def words_of(text: str) -> list[str]:
    """Return the stems of the words in a text: of names, too, such as `listOpen_issues`.

    Example:
        >>> words_of("listOpen_issues, closed repositories")
        ['list', 'open', 'issu', 'clos', 'repositori']
    """
    return [_stem(word[:_LONGEST_WORD]) for word in _WORD.findall(_HUMP.sub(" ", text).lower())]


@lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    if not word.endswith("ss"):
        for suffix, end in _SUFFIXES:
            if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
                word = word[: -len(suffix)] + end
                break
    if len(word) > _SHORTEST_STEM and word[-1] == "y":
        word = word[:-1] + "i"
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        word = word[:-1]
    return word


class Index:
    """Texts by name, found by the words in them.

    Example:
        >>> index = Index()
        >>> index.add([("merge", [("Merge a pull request", 1.0)]), ("echo", [("Echo", 1.0)])])
        >>> index.find("merging requests")
        ['merge']
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._lengths = array("f")
        self._total = 0.0
        # By word, the number of a text and how often it has the word, again and again: an array,
        # which Python's garbage collector does not look at.
        self._found: dict[str, array[float]] = {}

    def __len__(self) -> int:
        return len(self._names)

    def add(self, texts: Iterable[tuple[str, Iterable[Field]]]) -> None:
        """Add texts, each with its name. Nothing else may be done meanwhile."""
        for name, fields in texts:
            counts: dict[str, float] = {}
            left = _MOST_WORDS
            for text, weight in fields:
                for word in words_of(text)[:left]:
                    counts[word] = counts.get(word, 0.0) + weight
                    left -= 1
            number, length = len(self._names), sum(counts.values())
            for word, count in counts.items():
                found = self._found.get(word)
                if found is None:
                    found = self._found[word] = array("d")
                found.extend((number, count))
            self._names.append(name)
            self._lengths.append(length)
            self._total += length

    def find(self, query: str) -> list[str]:
        """Return the names of the texts that have a word of a query, the best first."""
        scores = self._scores(query)
        best = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._names[number] for number in best]

    def _scores(self, query: str) -> Mapping[int, float]:
        asked = dict.fromkeys(words_of(query))
        known = [self._found[word] for word in asked if word in self._found]
        scores: dict[int, float] = {}
        average = self._total / max(1, len(self)) or 1.0
        lengths = self._lengths
        for found in sorted(known, key=len)[:_MOST_TERMS]:
            texts = len(found) // 2
            rarity = log(1 + (len(self) - texts + 0.5) / (texts + 0.5))
            for at, count in zip(found[::2], found[1::2], strict=True):
                number = int(at)
                longer = 1 - _LENGTH + _LENGTH * lengths[number] / average
                score = rarity * count * (_SATURATION + 1) / (count + _SATURATION * longer)
                scores[number] = scores.get(number, 0.0) + score
        return scores
