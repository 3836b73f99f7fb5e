"""The requests of the protocol: one row for each, with all that is to be known of it.

A new method is a row here, a handler (`server/methods` for what clients send), and its payloads.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from attrs import frozen

from trio_mcp.public import public
from trio_mcp.wire import revisions
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import FIRST, SINCE, Era, Revision


@public
@frozen(kw_only=True)
class Method:
    """One request: a row of the protocol, or of an extension."""

    name: str

    sender: Literal["client", "server"] = "client"
    """Who sends it."""

    since: str = FIRST
    """The first revision that has it."""

    until: str | None = None
    """The first revision that does not have it any more."""

    era: Era | None = None
    """The only era that has it; `None` for both."""

    capability: str | None = None
    """What its receiver must have declared."""

    target: str | None = None
    """The parameter that names what it is about; over HTTP, `Mcp-Name` repeats it."""

    may_ask: bool = False
    """It may be answered with questions (2026-07-28, "Supported Requests")."""

    repeatable: bool = False
    """Sending it twice does nothing twice."""

    lasting: bool = False
    """It begins something that outlives it: a session, a subscription."""

    batchable: bool = True
    """It may be part of a batch."""

    items: str | None = None
    """The member of its result that holds the items; `None` if it does not list anything."""

    setting: bool = False
    """It changes what a legacy session is, for each target: a new one has to be sent it again."""

    unsets: str | None = None
    """The setting that it takes back."""

    def is_in(self, revision: Revision) -> bool:
        """Whether a revision has it."""
        return (
            revision in SINCE[self.since]
            and (self.until is None or revision not in SINCE[self.until])
            and (self.era is None or (self.era == "modern") is revision.modern)
        )


_ROWS: Final = (
    # Repeated, it begins another session, and the one that nobody knows of expires. A server that
    # closes an idle connection just then (while a person logs in, say) would else end everything.
    Method(name="initialize", era="legacy", lasting=True, batchable=False, repeatable=True),
    Method(name="ping", era="legacy"),
    Method(name="server/discover", era="modern", repeatable=True),
    Method(name="tools/list", capability="tools", repeatable=True, items="tools"),
    Method(name="tools/call", capability="tools", target="name", may_ask=True),
    Method(name="resources/list", capability="resources", repeatable=True, items="resources"),
    Method(
        name="resources/templates/list",
        capability="resources",
        repeatable=True,
        items="resourceTemplates",
    ),
    Method(
        name="resources/read",
        capability="resources",
        target="uri",
        may_ask=True,
        repeatable=True,
    ),
    Method(
        name="resources/subscribe",
        capability="resources",
        era="legacy",
        target="uri",
        setting=True,
    ),
    Method(
        name="resources/unsubscribe",
        capability="resources",
        era="legacy",
        target="uri",
        unsets="resources/subscribe",
    ),
    Method(name="subscriptions/listen", era="modern", lasting=True),
    Method(name="prompts/list", capability="prompts", repeatable=True, items="prompts"),
    Method(name="prompts/get", capability="prompts", target="name", may_ask=True, repeatable=True),
    Method(name="completion/complete", capability="completions", repeatable=True),
    Method(name="logging/setLevel", era="legacy", setting=True),
    Method(name="shutdown"),  # not of MCP: see `trio_mcp.server.methods`
    Method(name="roots/list", sender="server", capability="roots"),
    Method(name="sampling/createMessage", sender="server", capability="sampling"),
    Method(
        name="elicitation/create", sender="server", capability="elicitation", since="2025-06-18"
    ),
)

METHODS: Final[Mapping[str, Method]] = MappingProxyType({each.name: each for each in _ROWS})

LISTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {each.name: (each.capability, each.items) for each in _ROWS if each.capability and each.items}
)
"""By what lists something, its capability, and the member of its result that holds the items."""

BY_REVISION: Final[Mapping[Revision, Mapping[str, Method]]] = MappingProxyType(
    {
        revision: MappingProxyType({each.name: each for each in _ROWS if each.is_in(revision)})
        for revision in revisions.ALL
    }
)
"""What each revision has."""


def has_question(revision: Revision, capability: tuple[str, ...]) -> bool:
    """Whether a revision has what a client offers with a capability, as far as these are questions.

    Clients declare more than the revision has that they agree on: many are newer than that.
    """
    rows = [each for each in _ROWS if each.sender == "server"]
    asked = [each for each in rows if (each.capability,) == capability[:1]]
    details: dict[tuple[str, ...], bool] = {
        ("elicitation", "url"): revision.url_elicitation,
        ("sampling", "tools"): revision.sampling_tools,
    }
    return all(each.is_in(revision) for each in asked) and details.get(capability[:2], True)


def modern_only(method: str, methods: Mapping[str, Method] = METHODS) -> bool:
    """Whether whoever sends this must mean a modern revision."""
    known = methods.get(method)
    return known is not None and known.era == "modern"


def target_of(method: str, methods: Mapping[str, Method] = METHODS) -> str | None:
    """The parameter that a modern request repeats in `Mcp-Name`; `None` if it has none."""
    known = methods.get(method)
    return None if known is None or known.era == "legacy" else known.target


@frozen(eq=False, repr=False)
class Capability:
    """Something that a server may declare that it offers."""

    since: str
    details: Mapping[str, Json]
    """What it declares of it, where the client can be told of changes."""


CAPABILITIES: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "tools": Capability(FIRST, {"listChanged": True}),
        "resources": Capability(FIRST, {"subscribe": True, "listChanged": True}),
        "prompts": Capability(FIRST, {"listChanged": True}),
        "completions": Capability("2025-03-26", {}),
        "logging": Capability(FIRST, {}),
    }
)
