"""The requests of the protocol: a row for each, with all there is to know about it.

A new method is a row here, a handler (`server/methods` for what clients send), and its payloads.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from attrs import frozen

from trio_mcp.public import public_in
from trio_mcp.wire import revisions
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import FIRST, SINCE, Era, Revision


@public_in("trio_mcp.extending")
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
    """It changes a legacy session, for each target: a new session has to get it again."""

    unsets: str | None = None
    """The setting that it takes back."""

    def is_in(self, revision: Revision) -> bool:
        """Whether a revision has it."""
        return (
            revision in SINCE[self.since]
            and (self.until is None or revision not in SINCE[self.until])
            and (self.era is None or (self.era == "modern") is revision.modern)
        )


LIST_TOOLS: Final = Method(name="tools/list", capability="tools", repeatable=True, items="tools")
CALL_TOOL: Final = Method(name="tools/call", capability="tools", target="name", may_ask=True)
LIST_RESOURCES: Final = Method(
    name="resources/list", capability="resources", repeatable=True, items="resources"
)
LIST_TEMPLATES: Final = Method(
    name="resources/templates/list",
    capability="resources",
    repeatable=True,
    items="resourceTemplates",
)
READ_RESOURCE: Final = Method(
    name="resources/read", capability="resources", target="uri", may_ask=True, repeatable=True
)
SUBSCRIBE: Final = Method(
    name="resources/subscribe", capability="resources", era="legacy", target="uri", setting=True
)
LISTEN: Final = Method(name="subscriptions/listen", era="modern", lasting=True)
LIST_PROMPTS: Final = Method(
    name="prompts/list", capability="prompts", repeatable=True, items="prompts"
)
GET_PROMPT: Final = Method(
    name="prompts/get", capability="prompts", target="name", may_ask=True, repeatable=True
)
COMPLETE: Final = Method(name="completion/complete", capability="completions", repeatable=True)
LIST_ROOTS: Final = Method(name="roots/list", sender="server", capability="roots")
SAMPLE: Final = Method(name="sampling/createMessage", sender="server", capability="sampling")
ELICIT: Final = Method(
    name="elicitation/create", sender="server", capability="elicitation", since="2025-06-18"
)

_ROWS: Final = (
    # Repeated, it begins another session, and the first one expires unused. Otherwise a server that
    # closes an idle connection just then (while a person logs in, say) would end everything.
    Method(name="initialize", era="legacy", lasting=True, batchable=False, repeatable=True),
    Method(name="ping", era="legacy"),
    Method(name="server/discover", era="modern", repeatable=True),
    LIST_TOOLS,
    CALL_TOOL,
    LIST_RESOURCES,
    LIST_TEMPLATES,
    READ_RESOURCE,
    SUBSCRIBE,
    Method(
        name="resources/unsubscribe",
        capability="resources",
        era="legacy",
        target="uri",
        unsets=SUBSCRIBE.name,
    ),
    LISTEN,
    LIST_PROMPTS,
    GET_PROMPT,
    COMPLETE,
    Method(name="logging/setLevel", era="legacy", setting=True),
    Method(name="shutdown"),  # not of MCP: see `trio_mcp.server.methods`
    LIST_ROOTS,
    SAMPLE,
    ELICIT,
)

METHODS: Final[Mapping[str, Method]] = MappingProxyType({row.name: row for row in _ROWS})

LISTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {row.name: (row.capability, row.items) for row in _ROWS if row.capability and row.items}
)
"""By what lists something, its capability, and the member of its result that holds the items."""

BY_REVISION: Final[Mapping[Revision, Mapping[str, Method]]] = MappingProxyType(
    {
        revision: MappingProxyType({row.name: row for row in _ROWS if row.is_in(revision)})
        for revision in revisions.ALL
    }
)
"""What each revision has."""


def has_question(revision: Revision, capability: tuple[str, ...]) -> bool:
    """Whether a revision has the questions that a client's capability stands for.

    Clients may declare capabilities that are newer than the revision that they agree on.
    """
    rows = [row for row in _ROWS if row.sender == "server"]
    asked = [row for row in rows if (row.capability,) == capability[:1]]
    details: dict[tuple[str, ...], bool] = {
        ("elicitation", "url"): revision.url_elicitation,
        ("sampling", "tools"): revision.sampling_tools,
    }
    return all(row.is_in(revision) for row in asked) and details.get(capability[:2], True)


def modern_only(method: str, methods: Mapping[str, Method] = METHODS) -> bool:
    """Whether only modern revisions have a method."""
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
    """What it declares of it, where the client can hear of changes."""


CAPABILITIES: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "tools": Capability(FIRST, {"listChanged": True}),
        "resources": Capability(FIRST, {"subscribe": True, "listChanged": True}),
        "prompts": Capability(FIRST, {"listChanged": True}),
        "completions": Capability("2025-03-26", {}),
        "logging": Capability(FIRST, {}),
    }
)
