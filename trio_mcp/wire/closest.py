"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

_LONGEST: Final = 200
_MOST: Final = 1000
"""Characters and names that are looked at: comparing takes time, and either may be a peer's."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that is closest to one that is not; `None` if none is close."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    close = get_close_matches(name[:_LONGEST], list(islice(known, _MOST)), n=1)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the name that was probably meant, as the end of a sentence; empty if none is."""
    meant = closest(name, known)
    return "" if meant is None else f"; did you mean {meant!r:.100}?"
