"""What a handler sees of the HTTP request that its call came with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from attrs import field, frozen

from trio_mcp.public import public_in

_CREDENTIAL: Final = re.compile(
    r".*(authorization|cookie|token|secret|passw|credential|jwt|assertion|session|dpop|api-?key).*"
    r"|(?!idempotency-).*key"
)
"""Names of headers that let their sender in, or are likely to."""

_LONGEST_NAME: Final = 100


class Headers(Mapping[str, str]):
    """The headers of a request, by their names in any case, without credentials."""

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._values: Final = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in raw.items()
            if len(name) <= _LONGEST_NAME and not _is_credential(name)
        }

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Headers: {', '.join(self)}>"


@lru_cache(1000)
def _is_credential(name: bytes) -> bool:
    return _CREDENTIAL.fullmatch(name.decode("latin-1")) is not None


@public_in("trio_mcp.testing")
@frozen
class HttpInfo:
    """The HTTP request that a call came with.

    Example:
        >>> async def translate(text: str, context: Context) -> str:
        ...     wanted = context.http.headers.get("Accept-Language", "en") if context.http else "en"
        ...     return await translated(text, wanted)
    """

    headers: Mapping[str, str] = field(repr=False)
    """Its headers, by their names in any case; of a repeated one, all values with commas between.

    Credentials are left out: `Authorization`, `Cookie`, `Proxy-Authorization`, `DPoP`,
    `Mcp-Session-Id`, and all whose names speak of a token, a key, a secret or a password,
    or have more than 100 characters. Any client can send any header, unless a proxy before the
    server sets it."""
