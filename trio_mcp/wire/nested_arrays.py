"""Whether more arrays end together in a value than the encoder can write.

orjson writes the end of an array without making room for it. It has room for 30 of them in a row;
more write past the end of its buffer, which ends the process or worse. So a value is looked at
before it is encoded: of arrays that end together, there may be `MOST_ARRAYS`.
"""

from enum import Enum
from typing import Any, Final

MOST_ARRAYS: Final = 20
"""Arrays of which each is the last item of the one around it. That is fewer than orjson has room
for, as `slices` puts eight more around a part of a message."""
_ARRAYS: Final = (list, tuple)
_PLAIN: Final = frozenset({dict, list, tuple})
_FEW: Final = 200
"""Values that are soon looked at."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


class TooManyArrays(TypeError):
    """More arrays end together than can be encoded."""

    def __init__(self) -> None:
        super().__init__(
            f"more than {MOST_ARRAYS} nested arrays, each the last item of the one around it"
        )


def has_many_arrays(value: Any) -> bool:
    """Whether more than `MOST_ARRAYS` arrays end together in a value."""
    found: list[Any] = [value]
    arrays = 0
    for part in found:  # which grows meanwhile
        kind = part.__class__
        if kind is str:
            continue
        if kind is dict:
            found += part.values()
        elif kind is list:
            found += part
            arrays += 1
        elif kind not in _SCALARS:
            break
        if len(found) > _FEW:
            break
    else:
        return arrays > MOST_ARRAYS and _most_chained(value) > MOST_ARRAYS
    return not _has_few_levels(value) and _most_chained(value) > MOST_ARRAYS


def _has_few_levels(value: Any) -> bool:
    """Whether a plain value is nested in at most `MOST_ARRAYS` levels: that is seen sooner."""
    parts = [value]
    for _ in range(MOST_ARRAYS):
        if not _PLAIN.issuperset(map(type, parts)):
            return False
        if len(parts) > _FEW:  # each once: an author's value may hold itself, and often
            parts = [*{id(part): part for part in parts}.values()]
        parts = [
            item
            for part in parts
            for item in (part.values() if part.__class__ is dict else part)
            if item.__class__ not in _SCALARS
        ]
        if not parts:
            return True
    return False


def _most_chained(value: Any) -> int:
    """Count the arrays of which each is the last item of the one around it, at most."""
    found: list[Any] = [value]
    seen: set[int] = set()  # an author's value may hold itself
    for part in found:  # which grows meanwhile
        kind = part.__class__
        if kind in _SCALARS or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            found += part.values()
        elif isinstance(part, _ARRAYS):
            found += part
        elif isinstance(part, Enum):
            found.append(part.value)
        elif hasattr(kind, "__dataclass_fields__"):
            found += [getattr(part, name, None) for name in kind.__dataclass_fields__]
    return _longest_chain([part for part in found if isinstance(part, _ARRAYS)])


def _longest_chain(arrays: list[Any]) -> int:
    lengths: dict[int, int] = {}
    for array in arrays:
        chain = []
        while isinstance(array, _ARRAYS) and array and id(array) not in lengths:
            chain.append(array)
            lengths[id(array)] = 0  # it may be its own last item
            array = array[-1]
            if isinstance(array, Enum):
                array = array.value
        length = lengths.get(id(array), 0)
        for link in reversed(chain):
            length += 1
            lengths[id(link)] = length
    return max(lengths.values(), default=0)
