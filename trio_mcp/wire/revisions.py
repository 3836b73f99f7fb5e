"""The revisions of the protocol, as data.

Code never compares versions. It asks a `Revision` what it has: a method, a field (see
`payloads`), or one of the few rules below that are neither.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen


@frozen(kw_only=True, eq=False)
class Revision:
    """One revision of the protocol."""

    name: str
    """Its date, as it is written on the wire."""

    order: int
    """Its place among all revisions, oldest first."""

    modern: bool = False
    """Requests carry version and capabilities in `_meta`; there is no handshake."""

    argument_errors_are_results: bool = False
    """Bad tool arguments are told to the model (`isError: true`), not to the program."""

    structured_objects_only: bool = True
    """`structuredContent` and `outputSchema` describe objects, not any JSON value."""

    methods: frozenset[str] = field(factory=frozenset, repr=False)
    """The requests that a client may send."""


def _methods() -> dict[str, tuple[int, int]]:
    first, last_legacy, modern = 0, 3, 4
    legacy = (first, last_legacy)
    both = (first, modern)
    only_modern = (modern, modern)
    return {
        "initialize": legacy,
        "ping": legacy,
        "server/discover": only_modern,
        "tools/list": both,
        "tools/call": both,
        "resources/list": both,
        "resources/templates/list": both,
        "resources/read": both,
        "resources/subscribe": legacy,
        "resources/unsubscribe": legacy,
        "subscriptions/listen": only_modern,
        "prompts/list": both,
        "prompts/get": both,
        "completion/complete": both,
        "logging/setLevel": legacy,
        "shutdown": both,  # ours: see `trio_mcp.server.methods`
    }


METHODS: Final[frozenset[str]] = frozenset(_methods())
"""Every request that some revision knows."""


def _methods_of(order: int) -> frozenset[str]:
    spans = _methods().items()
    return frozenset(method for method, (since, until) in spans if since <= order <= until)


ALL: Final = (
    Revision(name="2024-11-05", order=0, methods=_methods_of(0)),
    Revision(name="2025-03-26", order=1, methods=_methods_of(1)),
    Revision(name="2025-06-18", order=2, methods=_methods_of(2)),
    Revision(name="2025-11-25", order=3, methods=_methods_of(3), argument_errors_are_results=True),
    Revision(
        name="2026-07-28",
        order=4,
        methods=_methods_of(4),
        modern=True,
        argument_errors_are_results=True,
        structured_objects_only=False,
    ),
)

BY_NAME: Final[Mapping[str, Revision]] = MappingProxyType({each.name: each for each in ALL})

LEGACY: Final[Mapping[str, Revision]] = MappingProxyType(
    {each.name: each for each in ALL if not each.modern}
)
MODERN: Final[Mapping[str, Revision]] = MappingProxyType(
    {each.name: each for each in ALL if each.modern}
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
