"""What a client is told that is not let in (RFC 6750, section 3; RFC 9728, section 5.1).

What it needs to get in is there, and nothing of why a token was refused but that it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trio_mcp.auth.scopes import scope_text
from trio_mcp.auth.server.resource import ResourceServer

INVALID_TOKEN: Final = "invalid_token"  # noqa: S105  # which is no secret
INVALID_REQUEST: Final = "invalid_request"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
INVALID_PROOF: Final = "invalid_dpop_proof"
USE_NONCE: Final = "use_dpop_nonce"


def challenge(scheme: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Write one challenge; parameters without a value are left out.

    Names and values are ours or the author's, who was held to what can stand between quotes.
    """
    written = ", ".join(f'{name}="{value}"' for name, value in parameters if value)
    return f"{scheme} {written}" if written else scheme


def challenges_of(
    server: ResourceServer, scopes: Iterable[str], error: str = "", scheme: str = ""
) -> bytes:
    """Write the value of `WWW-Authenticate`: a challenge for each way to come.

    Args:
        server: Who challenges.
        scopes: Those that the request needs, all of them.
        error: What is wrong with the request; none where it had no token.
        scheme: How the token came, which the error is about.
    """
    dpop = server.dpop
    schemes = ["Bearer", "DPoP"] if dpop is not None else ["Bearer"]
    if dpop is not None and dpop.required:
        schemes = ["DPoP"]
    about = scheme if scheme in schemes else schemes[0]
    proof = (INVALID_PROOF, USE_NONCE)
    if error in proof:
        about = "DPoP"
    shared = [("scope", scope_text(scopes)), ("resource_metadata", server.metadata_url)]
    written = [
        challenge(
            each,
            [
                ("error", error if each == about else ""),
                *shared,
                ("algs", " ".join(server.algorithms) if each == "DPoP" else ""),
            ],
        )
        for each in schemes
    ]
    return ", ".join(written).encode("ascii")
