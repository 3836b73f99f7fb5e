"""The revisions of the protocol, as data.

Code never compares versions. It asks a `Revision` for one of the rules below, `SINCE` whether a
revision is a certain one or later, and `methods` what may be called in it. A new revision is a row
of `ALL`; a name that is not a revision's fails where it is written, at import.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from attrs import frozen

from trio_mcp.wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND


@frozen(kw_only=True, eq=False)
class Revision:
    """One revision of the protocol."""

    name: str
    """Its date, as it is written on the wire."""

    modern: bool = False
    """Requests carry version and capabilities in `_meta`; there is no handshake."""

    batches: bool = False
    """Several messages may travel as one array."""

    argument_errors_are_results: bool = False
    """The model gets to read of bad arguments (`isError: true`); else the program gets an error."""

    structured_objects_only: bool = True
    """`structuredContent` and `outputSchema` describe objects, not any JSON value."""

    resource_not_found: int = RESOURCE_NOT_FOUND
    """The code of the error that says so."""

    primed_streams: bool = False
    """Over HTTP, a stream begins with an event that has nothing but an id."""

    url_elicitation: bool = False
    """Users may be sent to a web page."""

    elicitation_ids: bool = False
    """Sending a user to a web page needs an id."""

    sampling_tools: bool = False
    """Models that a client is asked to run may be given tools."""


Era = Literal["modern", "legacy"]

ALL: Final = (
    Revision(name="2024-11-05", batches=True),
    Revision(name="2025-03-26", batches=True),
    Revision(name="2025-06-18"),
    Revision(
        name="2025-11-25",
        primed_streams=True,
        argument_errors_are_results=True,
        url_elicitation=True,
        elicitation_ids=True,
        sampling_tools=True,
    ),
    Revision(
        name="2026-07-28",
        modern=True,
        argument_errors_are_results=True,
        structured_objects_only=False,
        resource_not_found=INVALID_PARAMS,
        url_elicitation=True,
        sampling_tools=True,
    ),
)
"""Oldest first."""

SINCE: Final[Mapping[str, frozenset[Revision]]] = MappingProxyType(
    {each.name: frozenset(ALL[place:]) for place, each in enumerate(ALL)}
)
"""By the name of a revision: that one and all later ones."""

FIRST: Final = ALL[0].name

BY_NAME: Final[Mapping[str, Revision]] = MappingProxyType({row.name: row for row in ALL})

LEGACY: Final[Mapping[str, Revision]] = MappingProxyType(
    {row.name: row for row in ALL if not row.modern}
)
MODERN: Final[Mapping[str, Revision]] = MappingProxyType(
    {row.name: row for row in ALL if row.modern}
)

NEWEST_LEGACY: Final = list(LEGACY.values())[-1]
NEWEST: Final = ALL[-1]


# Keys of `_meta` that the modern revisions define (Overview, "_meta").
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

META_HOPS: Final = "trio-mcp/hops"
"""The key of a request's `_meta` under which it says how many servers have passed it on."""
META_TIMEOUT: Final = "trio-mcp/timeout"
"""The key of a tool's `_meta` under which our servers publish its time limit, in seconds."""
