"""Read and write `WWW-Authenticate`: the credentials that a server wants.

The grammar is that of RFC 9110, section 11.6.1: schemes with parameters or a token68, all in one
list with commas, over one or several header fields. A comma may stand between two parameters or
between two challenges, depending on what follows it. Reading stops where a text leaves the grammar,
and keeps what was complete before. It takes time in proportion to the text, which is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import field, frozen

MOST_CHARS: Final = 16384
"""Characters of all the header's fields that are read."""
MOST_CHALLENGES: Final = 16

_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_SEPARATORS: Final = re.compile(r"[ \t,]*")
# Possessive quantifiers would be nicer; without them, each class excludes what may follow it.
_PARAMETER: Final = re.compile(
    rf'({_NAME})[ \t]*=[ \t]*(?:({_NAME})|"((?:[^"\\]|\\.)*)")[ \t]*(?=,|$)', re.DOTALL
)
_SCHEME: Final = re.compile(rf"({_NAME})(?:[ \t]+|(?=,|$))")
_TOKEN68: Final = re.compile(r"([A-Za-z0-9\-._~+/]+=*)[ \t]*(?=,|$)")
_SPECIAL: Final = re.compile(r'["\\]')
_ESCAPED: Final = r"\\\g<0>"
_QUOTED_PAIR: Final = re.compile(r"\\(.)", re.DOTALL)


INVALID_TOKEN: Final = "invalid_token"  # noqa: S105  # which is not a secret
INVALID_REQUEST: Final = "invalid_request"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
INVALID_PROOF: Final = "invalid_dpop_proof"
USE_NONCE: Final = "use_dpop_nonce"


@frozen
class Challenge:
    """A scheme of authentication that a server accepts."""

    scheme: str
    """`Bearer`, `DPoP`, `Basic` and so on; in lower case where it was read."""
    parameters: Mapping[str, str] = field(factory=dict)
    """Its parameters, with names in lower case."""

    def __str__(self) -> str:
        """Write it; parameters without a value are left out."""
        written = ", ".join(
            f'{name}="{_SPECIAL.sub(_ESCAPED, value)}"'
            for name, value in self.parameters.items()
            if value
        )
        return f"{self.scheme} {written}" if written else self.scheme

    @property
    def error(self) -> str | None:
        """Why the credentials were refused: `insufficient_scope`, for example."""
        return self.parameters.get("error")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the request needs, if the server names them."""
        return tuple(dict.fromkeys(self.parameters.get("scope", "").split()))

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the resource's metadata (RFC 9728, section 5.1)."""
        return self.parameters.get("resource_metadata")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Read the challenges that are well formed from the fields of `WWW-Authenticate`, in order.

    One that names a parameter twice is left out, as it is ambiguous.
    """
    text = ", ".join(values)[:MOST_CHARS]
    return tuple(_challenges(text))[:MOST_CHALLENGES]


def _challenges(text: str) -> Iterator[Challenge]:
    at = _skip(text, 0)
    while scheme := _SCHEME.match(text, at):
        at = scheme.end()
        # `Negotiate abc=` has a token68, where `Bearer a=b` has a parameter.
        if (found := _TOKEN68.match(text, at)) and not _PARAMETER.match(text, at):
            at = found.end()
        parameters: dict[str, str] = {}
        unique = True
        while found := _PARAMETER.match(text, _skip(text, at)):
            name = found[1].lower()
            unique = unique and name not in parameters
            parameters[name] = found[2] if found[3] is None else _QUOTED_PAIR.sub(r"\1", found[3])
            at = found.end()
        if unique:
            yield Challenge(scheme[1].lower(), parameters)
        if at < len(text) and text[at] != ",":
            return
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    found = _SEPARATORS.match(text, at)
    return found.end() if found else at
