"""What was seen in several rounds, as one cell of a table."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from attrs import frozen

from benchmarks.endless import MIB

NOT_MEASURED = "not measured"


@frozen
class Growth:
    """How much more memory a process had than before."""

    bytes: int
    beside: str = ""
    """What else was seen."""


Seen = str | Growth


def cell(seen: Sequence[Seen]) -> str:
    """Say what was seen: how often, where it was not always the same; of memory, the median."""
    if not seen:
        return NOT_MEASURED
    grown = [each.bytes for each in seen if isinstance(each, Growth)]
    words = Counter(each.beside if isinstance(each, Growth) else each for each in seen)
    told = [
        words_of if number == len(seen) else f"{words_of} ({number} of {len(seen)})"
        for words_of, number in words.most_common()
        if words_of
    ]
    if grown:
        told.insert(0, f"{median(grown) / MIB:.0f} MiB more")
    return "; ".join(told)
