"""Patterns of names, in which a star stands for any characters, and nothing else for others."""

import re
from fnmatch import fnmatchcase
from typing import Final

_NO_WILDCARDS: Final = re.compile(r"[\[?]")
"""What `fnmatch` would take for some."""


def fits_pattern(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern stands for.

    Example:
        >>> fits_pattern("/pets/7", "/pets/*")
        True
        >>> fits_pattern("/pets7", "/pets?")
        False
    """
    return fnmatchcase(name, _NO_WILDCARDS.sub(r"[\g<0>]", pattern))
