"""How long to wait before something that failed is tried again."""

import random
from collections.abc import Callable

_MOST_DOUBLINGS = 60


def backoff(
    failures: int, first: float, longest: float, chance: Callable[[], float] = random.random
) -> float:
    """Return the seconds to wait: twice as long with each failure.

    A random part of up to half of it is left out, so that many do not come back at the same moment.

    Args:
        failures: How many there were in a row.
        first: The seconds after the first one, at most.
        longest: The seconds after any, at most.
        chance: Returns numbers from 0 to 1.
    """
    usual: float = min(longest, first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
    return usual * (0.5 + chance() / 2)
