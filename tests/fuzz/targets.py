"""The table of everything that takes bytes from strangers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.fuzz import connections, values
from tests.fuzz.judging import Target

CORPUS: Final = Path(__file__).parent / "corpus"

TARGETS: Final = {
    each.name: each
    for each in (
        Target("lines-to-server", connections.lines_to_server),
        Target("lines-to-client", connections.lines_to_client),
        Target("http-bytes", connections.http_bytes),
        Target("http-requests", connections.http_requests),
        Target("events-to-client", connections.events_to_client),
        Target("events", values.events),
        Target("schemas", values.schemas),
        Target("forms", values.forms),
        Target("headers", values.headers),
        Target("templates", values.templates),
        Target("tokens", values.tokens),
        Target("proofs", values.proofs),
        Target("challenges", values.challenges),
        Target("metadata", values.metadata),
        Target("mcp-json", values.mcp_json),
        Target("openapi", values.openapi_documents),
        Target("frontmatter", values.frontmatter),
        Target("store-keys", values.keys_of_stores),
    )
}
"""By name. Adding one means a line here and a folder with seeds in the corpus."""


def corpus_of(name: str) -> list[bytes]:
    """The inputs that are kept for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
