"""Scopes, as OAuth writes them (RFC 6749, section 3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from trio_mcp.wire.safe_repr import safe_repr

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


def is_scope(text: object) -> bool:
    return isinstance(text, str) and _SCOPE.fullmatch(text) is not None


def scopes_of(values: Any, what: str = "scopes") -> frozenset[str]:
    """Read a list of scopes that an author wrote.

    Raises:
        ValueError: It is not a list of scopes. The message calls it `what`.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{what} must be a list of scopes, such as ['files:read']")
    found = list(values)
    for scope in found:
        if not is_scope(scope):
            raise ValueError(
                f"{what} cannot have {safe_repr(scope)}: a scope is printable ASCII without "
                'spaces, quotes and backslashes, such as "files:read"'
            )
        if scope == "offline_access":  # (2026-07-28, "Refresh Tokens")
            raise ValueError(f"offline_access is between client and issuer; leave it out of {what}")
    return frozenset(found)


def scopes_in(value: object) -> frozenset[str]:
    """Read the scopes of a token: one text with spaces, or a list (as some issuers write it)."""
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return frozenset(scope for scope in value if isinstance(scope, str))
    return frozenset()


def scope_text(scopes: Iterable[str]) -> str:
    """Write scopes as a challenge has them, sorted."""
    return " ".join(sorted(scopes))


def with_implied(scopes: frozenset[str], implied: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Add to scopes the narrower ones that they imply, directly or not."""
    found, new = scopes, scopes
    while new:
        new = frozenset().union(*(implied.get(scope, ()) for scope in new)) - found
        found |= new
    return found
