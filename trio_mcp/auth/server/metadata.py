"""What a protected server says of itself: where tokens for it are to be had, and for which scopes.

In its metadata (RFC 9728), and in the challenges to those who are not let in (RFC 6750, section 3).
Nothing of why a token was refused is there but that it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from trio_mcp.auth.challenges import INVALID_PROOF, USE_NONCE, Challenge
from trio_mcp.auth.scopes import scope_text
from trio_mcp.auth.server.resource import ResourceServer
from trio_mcp.auth.urls import RESOURCE_METADATA
from trio_mcp.wire.jsonrpc import Json


def metadata_of(server: ResourceServer, name: str, scopes: frozenset[str]) -> dict[str, Json]:
    """Make the metadata document.

    Args:
        server: What is protected.
        name: What people should see, unless it says so itself.
        scopes: Those without which nothing can be done; more are asked for when they are needed.
    """
    dpop = server.dpop
    document: dict[str, Json] = {
        "resource": server.resource,
        "authorization_servers": list(server.issuers),
        "scopes_supported": sorted(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": server.name or name,
        "resource_documentation": server.documentation,
        "dpop_signing_alg_values_supported": None if dpop is None else list(server.algorithms),
        "dpop_bound_access_tokens_required": None if dpop is None else dpop.required,
    }
    return {name: value for name, value in document.items() if value not in (None, [])}


def metadata_paths(server: ResourceServer, endpoint: str) -> set[str]:
    """Where the document is found: by the resource's path, by the endpoint's, and at the root."""
    return {
        RESOURCE_METADATA,
        server.metadata_path,
        RESOURCE_METADATA + quote(endpoint).rstrip("/"),
    }


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
    if error in (INVALID_PROOF, USE_NONCE):
        about = "DPoP"
    shared = {"scope": scope_text(scopes), "resource_metadata": server.metadata_url}
    return ", ".join(
        str(
            Challenge(
                each,
                {
                    "error": error if each == about else "",
                    **shared,
                    "algs": " ".join(server.algorithms) if each == "DPoP" else "",
                },
            )
        )
        for each in schemes
    ).encode("ascii")
