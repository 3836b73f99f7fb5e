"""Whose the names in a request are, where keys of an argument become names.

No argument sets, repeats or shadows a name that belongs to a credential, to the HTTP client, or to
another parameter, whatever servers take for the same name.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

from trio_mcp.errors import ToolError

_MOST: Final = 2000
"""The names of one place that are known."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SAME: Final = str.maketrans(". ", "__")


def folded(name: str, where: str = "") -> str:
    """Return what the most lenient servers take a name for: `api_key` for ` Api.Key[x]`.

    Those with CGI or WSGI take the headers `X-Api-Key` and `X_Api_Key` for the same.
    """
    same = (name.lstrip().partition("[")[0] or name).translate(_SAME).casefold()
    return same.replace("-", "_") if where == "header" else same


@define(eq=False)
class Names:
    """The names at one place of an operation's requests, and the parameters that own them."""

    _owners: dict[str, set[str]] = field(factory=dict)
    _reserved: set[str] = field(factory=set)

    @property
    def room(self) -> int:
        """How many names may still be added."""
        return max(0, _MOST - len(self._owners))

    def add(self, name: str, *, owner: str) -> None:
        for known in (folded(name), name.casefold()):
            self._owners.setdefault(known, set()).add(owner)

    def reserve(self, name: str) -> None:
        """Let no argument set a name."""
        self._reserved.add(folded(name))

    def checked(self, name: str, owner: str) -> str:
        """Return a name that a key of an argument makes; refuse one that is not for it."""
        if not name or _CONTROL.search(name):
            raise ToolError(f"{owner} has a key that is empty, or has a control character in it")
        known = (folded(name), name.casefold())
        is_own = all(owner in self._owners.get(key, (owner,)) for key in known)
        if not is_own or known[0] in self._reserved:
            raise ToolError(f"{owner} has the key {name[:60]!r}, which is not for it to set")
        return name
