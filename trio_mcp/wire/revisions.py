"""The revisions of the protocol, as data.

Code never compares versions. It asks a `Revision` what it has: a method, a field (see
`payloads`), or one of the few rules below that are neither.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from trio_mcp.wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND


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

    questions: frozenset[str] = field(factory=frozenset, repr=False)
    """What a server may ask its client."""

    capabilities: frozenset[str] = field(factory=frozenset, repr=False)
    """What a server may declare that it offers."""

    resource_not_found: int = RESOURCE_NOT_FOUND
    """The code of the error that says so."""

    primed_streams: bool = False
    """Over HTTP, a stream begins with an event that has nothing but an id."""

    progress_messages: bool = True
    """Progress may come with a few words."""

    url_elicitation: bool = False
    """Users may be sent to a web page."""

    elicitation_ids: bool = False
    """Sending a user to a web page needs an id."""

    sampling_tools: bool = False
    """Models that a client is asked to run may be given tools."""


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

_QUESTIONS: Final = {"roots/list": 0, "sampling/createMessage": 0, "elicitation/create": 2}
_CAPABILITIES: Final = {"tools": 0, "resources": 0, "prompts": 0, "logging": 0, "completions": 1}


def _revision(name: str, order: int, **rules: Any) -> Revision:
    def known(since: dict[str, int]) -> frozenset[str]:
        return frozenset(each for each, first in since.items() if first <= order)

    methods = {method: since for method, (since, until) in _methods().items() if order <= until}
    return Revision(
        name=name,
        order=order,
        methods=known(methods),
        questions=known(_QUESTIONS),
        capabilities=known(_CAPABILITIES),
        **rules,
    )


ALL: Final = (
    _revision("2024-11-05", 0, progress_messages=False),
    _revision("2025-03-26", 1),
    _revision("2025-06-18", 2),
    _revision(
        "2025-11-25",
        3,
        primed_streams=True,
        argument_errors_are_results=True,
        url_elicitation=True,
        elicitation_ids=True,
        sampling_tools=True,
    ),
    _revision(
        "2026-07-28",
        4,
        modern=True,
        argument_errors_are_results=True,
        structured_objects_only=False,
        resource_not_found=INVALID_PARAMS,
        url_elicitation=True,
        sampling_tools=True,
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
