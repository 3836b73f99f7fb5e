"""Names and descriptions, as short and as plain as models and their hosts want them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from typing import Any, Final

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_END: Final = re.compile(r"[.!?](?=\s)")
_SPACE: Final = re.compile(r"\s+")
_MOST_READ: Final = 20_000
_DIGEST: Final = 8


def plain_name(text: str, longest: int) -> str:
    """Make a name of letters, digits, `_` and `-`; one that is too long ends with a digest."""
    name = _OTHER.sub("_", text[:_MOST_READ]).strip("_-")
    if len(name) <= longest and len(text) <= _MOST_READ:
        return name
    return f"{name[: longest - _DIGEST - 1]}_{digest(text)}"


def free_name(name: str, taken: Container[str], seed: str, longest: int) -> str:
    """Return an unused name: itself, or with a digest of what is named."""
    if name not in taken:
        return name
    marked = f"{name[: longest - _DIGEST - 1]}_{digest(seed)}"
    return marked if marked not in taken else free_name(name, taken, seed + "'", longest)


def digest(text: str) -> str:
    """Return a few characters that stand for a text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST]


def shortened(text: Any, longest: int) -> str:
    """Cut a text at the end of a sentence, or else of a word. What is not text is empty."""
    if not isinstance(text, str) or longest <= 0:
        return ""
    plain = _SPACE.sub(" ", text[:_MOST_READ].encode(errors="replace").decode()).strip()
    if len(plain) <= longest:
        return plain
    ends = [found.end() for found in _END.finditer(plain, 0, longest + 1)]
    if ends and ends[-1] * 3 > longest:
        return plain[: ends[-1]]
    return plain[: longest - 1].rpartition(" ")[0][: longest - 1].rstrip(",;:") + "…"
