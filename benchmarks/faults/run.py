"""Who takes part, and how each fault meets each of them."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import trio
from attrs import evolve, frozen

from benchmarks.eras import MODERN
from benchmarks.faults import clients, servers
from benchmarks.faults.answers import PYTHON_ONLY, QUESTIONS, Listed, Question
from benchmarks.faults.clients import python_client
from benchmarks.faults.outcomes import Seen, cell
from benchmarks.faults.session import talking
from benchmarks.packages import find_fastmcp
from benchmarks.peers import OURS, TYPESCRIPT, Peer, find_python, find_typescript, python_server
from benchmarks.processes import Command
from benchmarks.work import GUESTS


@frozen
class Library:
    """A library with a server and a client."""

    server: Peer
    client: Command

    @property
    def title(self) -> str:
        return f"{self.server.name} {self.server.version or self.server.missing}".strip()


def libraries(*, install: bool) -> list[Library]:
    """Name all that take part.

    Args:
        install: Whether packages that are not there yet are installed.
    """
    fastmcp = find_fastmcp("fastmcp_faults.py", install=install)
    calls = python_client("fastmcp_faults.py")
    python, server = fastmcp.command.arguments
    calling = "typescript_sdk_client_faults.mjs"
    return [
        Library(
            Peer(OURS, python_server("trio_mcp_faults.py")), python_client("trio_mcp_faults.py")
        ),
        Library(find_python(script="python_sdk_faults.py"), python_client("python_sdk_faults.py")),
        Library(
            evolve(fastmcp, command=Command([python, server], calls.environment)),
            Command([python, *calls.arguments[1:]], calls.environment),
        ),
        Library(
            find_typescript(install=install, script="typescript_sdk_faults.mjs"),
            find_typescript(install=install, script=calling, package="client").command,
        ),
    ]


def guests(*, install: bool) -> list[Library]:
    """Name servers of other projects, made with other libraries.

    Args:
        install: Whether packages that are not there yet are installed.
    """
    return [Library(each.peer(install=install), Command([], {})) for each in GUESTS]


Try = Callable[[Library], Awaitable[Seen]]


@frozen
class Part:
    """Faults that are tried in the same way.

    Args:
        tries: By what happens.
        once: Those that take so long that they are tried in one round, with all libraries at once.
        find: Names those that take part.
    """

    tries: Mapping[str, Try]
    once: Collection[str] = ()
    find: Callable[..., list[Library]] = libraries


async def _fault(fault: servers.Fault, library: Library) -> Seen:
    async with talking(library.server.command) as session:
        try:
            return await fault(session)
        except trio.BrokenResourceError:
            return "the connection is lost"


async def _meeting(fault: clients.Fault, library: Library) -> Seen:
    return await clients.seen(library.client, fault)


async def _question(question: Question | Listed, library: Library) -> Seen:
    typescript = library.server.name == TYPESCRIPT
    if typescript and isinstance(question, Question) and question.tool in PYTHON_ONLY:
        return "–"
    async with talking(library.server.command, MODERN) as session:
        return await question.ask(session)


SERVERS = Part(
    {name: partial(_fault, fault) for name, fault in servers.FAULTS.items()}, servers.ONCE
)
GUEST_SERVERS = Part(
    {name: partial(_fault, servers.FAULTS[name]) for name in servers.ANYWHERE}, find=guests
)
CLIENTS = Part(
    {name: partial(_meeting, fault) for name, fault in clients.FAULTS.items()}, clients.ONCE
)
ANSWERS = Part({name: partial(_question, it) for name, it in QUESTIONS.items()})


async def measure(part: Part, rounds: int) -> dict[str, Any]:
    """Try all of a part; return its table."""
    found = part.find(install=True)
    rows = []
    for name, tried in part.tries.items():
        row = await (
            _at_once(tried, found) if name in part.once else _in_turn(tried, found, rounds)
        )
        rows.append([name, *map(cell, row)])
        print(rows[-1], flush=True)
    return {"headers": ["", *(each.title for each in found)], "rows": rows}


async def _in_turn(tried: Try, found: Sequence[Library], rounds: int) -> list[list[Seen]]:
    """Try one thing with one library after the other, in each round."""
    seen: list[list[Seen]] = [[] for _ in found]
    for _ in range(rounds):
        for library, those in zip(found, seen, strict=True):
            if not library.server.missing:
                those.append(await tried(library))
    return seen


async def _at_once(tried: Try, found: Sequence[Library]) -> list[list[Seen]]:
    """Try one thing once, with all libraries at a time."""
    seen: list[list[Seen]] = [[] for _ in found]

    async def one(library: Library, those: list[Seen]) -> None:
        if not library.server.missing:
            those.append(await tried(library))

    async with trio.open_nursery() as nursery:
        for library, those in zip(found, seen, strict=True):
            nursery.start_soon(one, library, those)
    return seen
