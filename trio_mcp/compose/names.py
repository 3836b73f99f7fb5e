"""Names that keep the tools of several servers apart.

A tool is called `SERVER_TOOL`. The rule looks at nothing but the names of the servers, so a tool
has the same name whichever servers are up just now.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from trio_mcp.errors import ConfigError

LONGEST_NAME: Final = 128
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")
_DIGITS: Final = re.compile(r"_[0-9a-f]{8}\Z")


class UniqueNames:
    """Makes names for what several servers have.

    | The plain name | becomes |
    |---|---|
    | `SERVER_TOOL` | that |
    | ... is longer than 128 characters | its first 119, `_`, and eight digits of a hash |
    | ... begins like those of another server with a longer name | it, `_`, and the digits |
    | ... begins like those of another server, and ends with `_` and eight such digits | the same |

    Args:
        servers: The names of all servers. Characters that no tool may have become `_`.

    Raises:
        ConfigError: Two of them have the same prefix.
    """

    def __init__(self, servers: Iterable[str]) -> None:
        self._prefixes: dict[str, str] = {}
        seen: dict[str, str] = {}
        for server in servers:
            prefix = _ODD.sub("_", server) + "_"
            if prefix in seen:
                both = f"{seen[prefix]!r} and {server!r}"
                raise ConfigError(
                    f"the names of {both} cannot be distinguished; change one of them"
                )
            seen[prefix] = server
            self._prefixes[server] = prefix

    def prefix_of(self, server: str) -> str:
        """Return the prefix of a server's names, without the `_`."""
        return self._prefixes[server].removesuffix("_")

    def rivals_of(self, server: str) -> frozenset[str]:
        """Return the prefixes of other servers that affect this one's names."""
        own = self._prefixes[server]
        others = (prefix for prefix in self._prefixes.values() if prefix != own)
        return frozenset(
            prefix for prefix in others if prefix.startswith(own) or own.startswith(prefix)
        )

    def name_of(self, server: str, name: str) -> str:
        prefix = self._prefixes[server]
        plain = prefix + name
        if len(plain) <= LONGEST_NAME and not self._may_be_of_another(server, plain):
            return plain
        digits = hashlib.sha256(f"{server}\0{name}".encode("utf-8", "replace")).hexdigest()[:8]
        return f"{plain[: LONGEST_NAME - 9]}_{digits}"

    def _may_be_of_another(self, server: str, plain: str) -> bool:
        # Those of a shorter prefix have digits wherever they begin with this one.
        shortest = 0 if _DIGITS.search(plain) else len(self._prefixes[server])
        rivals = self.rivals_of(server)
        return any(len(prefix) > shortest and plain.startswith(prefix) for prefix in rivals)

    def owners(self, name: str) -> list[str]:
        """Return the servers that may have a tool of this name, the likeliest first."""
        fitting = [server for server, prefix in self._prefixes.items() if name.startswith(prefix)]
        return sorted(fitting, key=lambda server: -len(self._prefixes[server]))
