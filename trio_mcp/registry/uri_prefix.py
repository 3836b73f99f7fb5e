"""URIs of a mounted part, and what they are where it is mounted.

The prefix becomes the first segment: `config://app` is `config://prefix/app`, and `notes:today` is
`notes:prefix/today`. The scheme stays what it is, because clients know some schemes, and the way
back only takes the segment out. Templates are treated the same, as the scheme is never a variable.
"""

from __future__ import annotations

import re
from typing import Final

_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)


def scheme_of(uri: str) -> str:
    """Return what stands before the colon, in lower case; nothing for what is no URI."""
    return uri.partition(":")[0].lower() if _PARTS.match(uri) else ""


def add_prefix(prefix: str | None, uri: str) -> str:
    """Return what a URI, or a URI template, is under a prefix."""
    parts = _PARTS.match(uri) if prefix else None
    return uri if parts is None else f"{parts[1]}{prefix}/{parts[2]}"


def remove_prefix(prefix: str | None, uri: str) -> str | None:
    """Return what a URI was before `add_prefix`; `None` if it is not under the prefix."""
    if not prefix:
        return uri
    parts = _PARTS.match(uri)
    if parts is None or not parts[2].startswith(f"{prefix}/"):
        return None
    return parts[1] + parts[2][len(prefix) + 1 :]
