"""Where a protected server says how to get tokens for it, and for which scopes.

In its metadata (RFC 9728), and in the challenges to those who are not let in (RFC 6750, section 3).
They do not say why a token was refused.
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
    """Make the metadata document, with a name for people unless the options have one.

    Its scopes are those that any request needs; others are asked for when they are needed.
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
    """The paths of the document: by the resource's path, by the endpoint's, and at the root."""
    by_endpoint = RESOURCE_METADATA + quote(endpoint).rstrip("/")
    return {RESOURCE_METADATA, server.metadata_path, by_endpoint}


def challenges_of(
    server: ResourceServer, scopes: Iterable[str], error: str = "", scheme: str = ""
) -> bytes:
    """Write the value of `WWW-Authenticate`: a challenge for each scheme.

    It names all `scopes` that the request needs, and an `error` for the `scheme` of its token; none
    where it had no token.
    """
    dpop = server.dpop
    schemes = ["Bearer", "DPoP"] if dpop is not None else ["Bearer"]
    if dpop is not None and dpop.required:
        schemes = ["DPoP"]
    about = scheme if scheme in schemes else schemes[0]
    if error in (INVALID_PROOF, USE_NONCE):
        about = "DPoP"

    def challenge(name: str) -> Challenge:
        parameters = {
            "error": error if name == about else "",
            "scope": scope_text(scopes),
            "resource_metadata": server.metadata_url,
            "algs": " ".join(server.algorithms) if name == "DPoP" else "",
        }
        return Challenge(name, parameters)

    return ", ".join(str(challenge(name)) for name in schemes).encode("ascii")
