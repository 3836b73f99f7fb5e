"""What a protected server says of itself (RFC 9728): where tokens for it are to be had."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from trio_mcp.auth.server.resource import WELL_KNOWN, ResourceServer
from trio_mcp.wire.jsonrpc import Json

CACHED: Final = (b"cache-control", b"public, max-age=300")


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
    return {WELL_KNOWN, server.metadata_path, WELL_KNOWN + quote(endpoint).rstrip("/")}
