"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from itertools import islice, pairwise
from typing import Final

_LONGEST: Final = 200
_MOST: Final = 1000
"""Characters and names that are looked at: comparing takes time, and either may be a peer's."""
_COMPARED: Final = 50
"""Names that are compared in full: those that have most of their characters, and pairs of them, in
common with it. A long name takes a quarter of a millisecond."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that is closest to one that is not; `None` if none is close."""
    return next(iter(close_names(name, known, 1)), None)


def close_names(name: str, known: Iterable[str], count: int) -> list[str]:
    """Find the known names that are close to one that is not, the closest first."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    name = name[:_LONGEST]
    own = _parts(name)

    def likeness(each: str) -> float:
        parts = _parts(each[:_LONGEST])
        return len(own & parts) / (len(own) + len(parts) or 1)

    some = list(islice(known, _MOST))  # threads may add to them
    likely = nlargest(_COMPARED, some, key=likeness)
    return get_close_matches(name, likely, n=count)


def _parts(name: str) -> set[str]:
    return {*name, *map("".join, pairwise(name))}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the name that was probably meant, as the end of a sentence; empty if none is."""
    meant = closest(name, known)
    return "" if meant is None else f"; did you mean {meant!r:.100}?"
