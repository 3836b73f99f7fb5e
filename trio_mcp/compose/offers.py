"""What a server lists for whom: it may show tools only to clients that can do what these need.

Nothing in the protocol says which those are. So a server's lists are asked for once for each set of
abilities that callers have (`abilities_of`), by one who has declared exactly these: in the modern
era with the request, from a legacy server on a connection of its own. There are few such sets, as
only what the protocol knows is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import trio
from attrs import define, field, frozen

from trio_mcp.client.client import Client
from trio_mcp.registry import Context
from trio_mcp.registry.kinds import LISTED, ListedKind, Table
from trio_mcp.wire import codec
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.methods import has_question
from trio_mcp.wire.revisions import BY_NAME, MODERN

Abilities = bytes
"""What a caller can be asked, as JSON."""

NONE: Final[Abilities] = encode({})
"""Those of who can be asked nothing, and of the connection that all callers share."""

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "elicitation": ("form", "url"),
    "sampling": ("context", "tools"),
    "roots": (),
}


def declared_by(context: Context) -> dict[str, Json]:
    """Return the capabilities of a caller that let it be asked something."""
    declared, name = context.capabilities, context.revision or ""
    if not declared or (context.connection_id is None and name not in MODERN):
        return {}
    return {
        key: declared[key]
        for key in _PARTS
        if key in declared and has_question(BY_NAME[name], (key,))
    }


def abilities_in(declared: Mapping[str, Json]) -> Abilities:
    """Return the abilities that capabilities stand for: what the protocol has of them."""
    if not declared:
        return NONE
    found: dict[str, Json] = {}
    for name, parts in _PARTS.items():
        given = declared.get(name)
        if isinstance(given, dict):
            found[name] = {part: {} for part in parts if part in given}
    return encode(found)


def abilities_of(context: Context) -> Abilities:
    """Return the abilities of a caller."""
    return abilities_in(declared_by(context))


def capabilities_of(abilities: Abilities) -> dict[str, Json]:
    """Return what to declare to have some abilities."""
    found: dict[str, Json] = codec.loads(abilities)
    return found


@define(eq=False, repr=False)
class Offers:
    """What one server lists, by the abilities of callers."""

    _lists: dict[Table, dict[Abilities, dict[str, Json]]] = field(
        factory=lambda: {table: {} for table in LISTED}, init=False
    )
    # Who hears of changes for them: what is not followed is asked for again when it is needed.
    _followed_by: dict[Abilities, Client] = field(factory=dict, init=False)
    _turns: defaultdict[Abilities, trio.Lock] = field(
        factory=lambda: defaultdict(trio.Lock), init=False
    )
    _known: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def put(self, kind: ListedKind, abilities: Abilities, items: list[Json]) -> bool:
        """Take what is listed for some abilities. Returns whether anything appears or goes."""
        lists, key = self._lists[kind.table], kind.key
        named = {item[key]: item for item in items if is_named(item, key)}
        before = lists.get(abilities, lists.get(NONE))
        if before == named:
            named = before  # most servers list the same for all, and that is kept once
        lists[abilities] = named
        return before is not named

    def merged(self, kind: ListedKind) -> list[Json]:
        """Return all that is listed, each once: first what is for callers without abilities."""
        lists, found = self._lists[kind.table], dict[str, Json]()
        for named in (lists.get(NONE, {}), *lists.values()):
            for name, item in named.items():
                found.setdefault(name, item)
        return list(found.values())

    def rules(self, table: Table, name: str) -> tuple[ShownByServer, ...]:
        """Return who sees something by that name, as a rule, unless everybody does."""
        everywhere = all(name in named for named in self._lists[table].values())
        return () if everywhere else (ShownByServer(self, table, name),)

    def shows(self, table: Table, name: str, abilities: Abilities) -> bool:
        """Whether something is listed for some abilities; if that is not known, for none."""
        lists = self._lists[table]
        return name in lists.get(abilities, lists.get(NONE, {}))

    # -- what is known --------------------------------------------------------------------

    @property
    def others(self) -> list[Abilities]:
        """The abilities that callers had beside none at all."""
        return list({key: None for lists in self._lists.values() for key in lists if key != NONE})

    def turn(self, abilities: Abilities) -> trio.Lock:
        """Return the lock of who finds out, and follows, what is listed for some abilities."""
        return self._turns[abilities]

    def note_followed(self, abilities: Abilities, client: Client) -> None:
        """Note that it is known what is listed for some abilities, and who hears of changes."""
        self._followed_by[abilities] = client
        self._known.unpark_all()

    def is_known(self, abilities: Abilities) -> bool:
        client = self._followed_by.get(abilities)
        return abilities == NONE or (client is not None and client.is_connected)

    async def wait_until_known(self, abilities: Abilities) -> None:
        while not self.is_known(abilities):
            await self._known.park()


@frozen
class ShownByServer:
    """A rule of visibility: who has the abilities for which something is listed sees it."""

    offers: Offers
    table: Table
    name: str

    def __call__(self, caller: Context) -> bool:
        return self.offers.shows(self.table, self.name, abilities_of(caller))


def is_named(item: Any, key: str) -> bool:
    """Whether an item of a list has a name, or a URI."""
    return isinstance(item, dict) and isinstance(item.get(key), str)
