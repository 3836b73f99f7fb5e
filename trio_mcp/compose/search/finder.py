"""What a provider has, and how it is found: by an index that is built when it is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp.background import of_this_run
from trio_mcp.compose.search.lines import Described, fields_of
from trio_mcp.compose.search.words import Field, Index
from trio_mcp.loggers import logger_of
from trio_mcp.registry.functions import is_async
from trio_mcp.registry.kinds import LISTED, Table
from trio_mcp.registry.provider import Provider
from trio_mcp.threads import in_thread
from trio_mcp.wire.safe_repr import safe_repr

logger = logger_of("trio_mcp.search")

Rank = Callable[[str, Mapping[str, Described]], Iterable[str] | Awaitable[Iterable[str]]]
"""Ranks what there is for a query: gets descriptions by name, and returns names, the best first.

Tools have their names, resources their URIs and templates their URI templates; the names of prompts
begin with `prompt:`. The mapping is the same object until something in it changes.
"""

_AT_ONCE: Final = 500
"""Texts that are added in one go."""
_FEW: Final = 200
"""So many can be added, or looked through, without a thread."""

_PROMPT: Final = "prompt:"


@define(eq=False)
class _Edition:
    """What there is at one time, and the index of it."""

    versions: Sequence[int]
    offers: Mapping[str, Described]
    index: Index = field(factory=Index)
    is_complete: bool = False
    """Whether all is in the index."""
    _rest: Iterator[tuple[str, Iterator[Field]]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rest = ((name, fields_of(each)) for name, each in self.offers.items())

    @property
    def is_small(self) -> bool:
        return len(self.offers) <= _FEW

    def index_more(self) -> None:
        before = len(self.index)
        self.index.add(islice(self._rest, _AT_ONCE))
        self.is_complete = len(self.index) - before < _AT_ONCE


@define(eq=False)
class _State:
    """What is known in one run of Trio."""

    lock: trio.Lock = field(factory=trio.Lock)
    edition: _Edition | None = None


class Finder:
    """Finds what a provider has.

    Args:
        provider: The provider.
        tables: What of it is found.
        rank: How, in place of the index.
    """

    def __init__(self, provider: Provider, tables: Sequence[Table], rank: Rank | None) -> None:
        self._provider = provider
        self._tables = tables
        self._rank = rank
        self._state = trio.lowlevel.RunVar[_State]("search")

    async def find(self, query: str, threads: trio.CapacityLimiter | None) -> list[str]:
        """Return the names of what is found, the best first (`place_of`).

        Cancelled, it leaves what has been built of the index for the next one.

        Args:
            query: What is looked for.
            threads: Bounds the threads in which a function of the author's runs.
        """
        state = of_this_run(self._state, _State)
        async with state.lock:
            edition = await self._current(state)
        ranked = await self._ranked(query, edition, threads)
        if ranked is not None:
            return ranked
        async with state.lock:
            await _complete(edition)
        find = edition.index.find
        return find(query) if edition.is_small else await in_thread(find, query)

    async def _current(self, state: _State) -> _Edition:
        versions = self._versions()
        if state.edition is None or state.edition.versions != versions:
            count = sum(len(self._provider.table(table)) for table in self._tables)
            make = partial(self._edition, versions)
            state.edition = make() if count <= _FEW else await in_thread(make)
        return state.edition

    def _versions(self) -> Sequence[int]:
        versions = self._provider.changes.versions
        return [versions[LISTED[table].capability] for table in self._tables]

    def place_of(self, name: str) -> tuple[Table, str]:
        """Return the table in which something is, and its name there."""
        if name.startswith(_PROMPT) and "prompts" in self._tables:
            return "prompts", name.removeprefix(_PROMPT)
        there = (table for table in self._tables if name in self._provider.table(table))
        return next(there, "tools"), name

    def _edition(self, versions: Sequence[int]) -> _Edition:
        offers: dict[str, Described] = {}
        for table in self._tables:
            start = _PROMPT if table == "prompts" else ""
            there = list(self._provider.table(table).items())  # threads may change it
            offers.update((f"{start}{name}", item.description) for name, item in there)
        return _Edition(versions, MappingProxyType(offers))

    # -- the author's own way -------------------------------------------------------------

    async def _ranked(
        self, query: str, edition: _Edition, threads: trio.CapacityLimiter | None
    ) -> list[str] | None:
        """Have the author's function rank what there is; `None` if there is none, or it fails."""
        if self._rank is None:
            return None
        try:
            names = await _asked(self._rank, query, edition.offers, threads)
        except Exception:  # finding by words is better than finding nothing
            logger.exception("The function that ranks has failed; words are compared instead")
            return None
        known = [name for name in names if name in edition.offers]
        if len(known) < len(names):
            wrong = next(name for name in names if name not in edition.offers)
            logger.warning("The function that ranks named %.200r, which is not there", wrong)
        return known


async def _asked(
    rank: Rank, query: str, offers: Mapping[str, Described], threads: trio.CapacityLimiter | None
) -> Collection[str]:
    if is_async(rank):
        found: Any = rank(query, offers)
        return _names(await found, len(offers))
    return await trio.to_thread.run_sync(
        lambda: _names(rank(query, offers), len(offers)), abandon_on_cancel=True, limiter=threads
    )


async def _complete(edition: _Edition) -> None:
    """Have all be in the index. No step is left half-way, so another one can go on from there."""
    while not edition.is_complete:
        if edition.is_small:
            edition.index_more()
        else:
            await in_thread(edition.index_more, abandon_on_cancel=False)


def _names(found: Any, limit: int) -> Collection[str]:
    """Return the names that a function returned, each once."""
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        raise TypeError(f"names are needed, the best first, not {safe_repr(found)}")
    names = list(islice(found, limit + 1))
    if not all(isinstance(name, str) for name in names):
        raise TypeError("names are needed, the best first, and one of them is not a string")
    return list(dict.fromkeys(names))
