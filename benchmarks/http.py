"""The HTTP server beside its peers: `tools/call` in the modern revision over kept connections.

The load comes from `wrk` (Debian's package of that name), with 16 connections. Every peer is
started anew for each measurement. Two of them are floors: they answer the same bytes to anything.
Beside the contest, our server alone: throughput under one and under many legacy sessions, and with
access tokens; memory for each open stream, each idle connection, and each session of a principal
with a token, beside one without.
"""

import json
import re
import shutil
import socket
import subprocess
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice, repeat
from pathlib import Path
from statistics import median
from time import sleep

from attrs import evolve, field, frozen

from benchmarks.chart import Bar, Panel
from benchmarks.figures import Target, paired_ratio, spread, targets_table
from benchmarks.load import LoadError
from benchmarks.packages import find_fastmcp
from benchmarks.peers import Peer, find_python, find_typescript, python_server
from benchmarks.processes import Command
from benchmarks.report import Report, measuring, run_alone
from benchmarks.tables import table
from benchmarks.tokens import Headers, Issuer
from benchmarks.wrk import (
    CONNECTIONS,
    META,
    MODERN_HEADERS,
    Sample,
    check,
    load,
    new_sessions,
    serving,
)

_SERVERS = Path(__file__).parent / "servers"
_SESSIONS = 1000
STREAMS, IDLE = 1000, 2000
PRINCIPALS = 10_000
_CLIENTS = 1000
_NEW_TOKENS = 12_000
"""More than our server remembers: when the first one comes again, it is forgotten."""
_PROOFS = 5000
"""For each second, which no server uses up."""

OURS, PYTHON, TYPESCRIPT = "trio-mcp", "Python SDK on uvicorn", "TypeScript SDK on Node"
BARE, BARE_UVICORN = _FLOORS = "bare Trio", "bare app on uvicorn"
UVICORN, FASTMCP = "trio-mcp on uvicorn", "FastMCP on uvicorn"
ONE, MANY = "trio-mcp, 1 session", f"trio-mcp, {_SESSIONS:,} sessions"
JWT, CLIENTS = "trio-mcp, a JWT", f"trio-mcp, {_CLIENTS:,} JWTs in turn"
NEW, DPOP = "trio-mcp, a new JWT each", "trio-mcp, a DPoP proof each"
_BEARERS = {JWT: 1, CLIENTS: _CLIENTS, NEW: _NEW_TOKENS}
"""How many tokens there are."""

ISSUER = Issuer()


@frozen
class Outcome:
    """A server and its samples, one per round; none if it is missing."""

    peer: Peer
    samples: Sequence[Sample] = field(factory=list)


def peers(*, install: bool) -> list[Peer]:
    """Name everybody who takes part, in the order of a round."""
    python = find_python()
    uvicorn = evolve(python, version="")  # it comes with the official SDK
    typescript = find_typescript(install=install)
    node = Command(["node", str(_SERVERS / "http_typescript_sdk.mjs")], {})
    ours = python_server("http_trio_mcp.py")
    protected = evolve(ours, environment={**ours.environment, **ISSUER.environment()})
    return [
        Peer(OURS, ours),
        evolve(python, name=PYTHON, command=python_server("http_python_sdk.py")),
        evolve(find_fastmcp("http_fastmcp.py", install=install), name=FASTMCP),
        evolve(typescript, name=TYPESCRIPT, command=node),
        evolve(uvicorn, name=UVICORN, command=python_server("http_trio_mcp_uvicorn.py")),
        Peer(BARE, python_server("http_bare_trio.py")),
        evolve(uvicorn, name=BARE_UVICORN, command=python_server("http_bare_uvicorn.py")),
        Peer(ONE, ours),
        Peer(MANY, ours),
        *(Peer(name, protected) for name in (*_BEARERS, DPOP)),
    ]


def measure(peer: Peer, seconds: float) -> Sample:
    """Load a server that is started for it.

    Raises:
        LoadError: It did not start, or answered wrongly.
    """
    with serving(peer) as (port, _):
        if peer.name in _FLOORS:  # whose answers are right for no request
            return load(port, seconds, [], size=None)
        sessions = {ONE: 1, MANY: _SESSIONS}.get(peer.name, 0)
        senders = new_sessions(port, repeat({}, sessions)) or _senders(peer, 1)
        once = peer.name == DPOP
        how = {"legacy": sessions > 0, "once": once}
        # The last tokens of many: the server has forgotten them when their turn comes again.
        size = check(port, senders if once else senders[-_CLIENTS:], **how)
        if once:
            senders = _senders(peer, seconds)
        return load(port, seconds, senders, size=size, **how)


def _senders(peer: Peer, seconds: float) -> list[Headers]:
    """Make the headers that tell the senders of requests apart."""
    if peer.name == DPOP:
        return list(islice(ISSUER.provers(), round(_PROOFS * seconds)))
    return list(islice(ISSUER.bearers(), _BEARERS.get(peer.name, 0)))


def _post(port: int, message: dict[str, object], headers: dict[str, str]) -> socket.socket:
    body = json.dumps(message).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return connection


def memory_per_session() -> dict[str, float]:
    """Return the KiB that our server takes for a session of each principal, and without any."""
    ours = python_server("http_trio_mcp.py")
    protected = evolve(ours, environment={**ours.environment, **ISSUER.environment()})
    senders = {"session": repeat({}), "session with a token": ISSUER.bearers()}
    figures = {}
    for (name, headers), command in zip(senders.items(), (ours, protected), strict=True):
        with serving(Peer(OURS, command)) as (port, pid):
            made = islice(headers, PRINCIPALS + 1)
            new_sessions(port, islice(made, 1))  # what is imported only now is not its own
            before = _resident(pid)
            new_sessions(port, made)
            figures[name] = (_resident(pid) - before) / PRINCIPALS
    return figures


def memory_per_connection() -> dict[str, float]:
    """Return the KiB that our server takes for each open stream, and for each idle connection."""
    listen: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": META}
    headers = {**MODERN_HEADERS, "Mcp-Method": "subscriptions/listen"}
    del headers["Mcp-Name"]
    figures = {}
    with (
        serving(Peer(OURS, python_server("http_trio_mcp.py"))) as (port, pid),
        ExitStack() as opened,
    ):
        before = _resident(pid)
        for _ in range(STREAMS):
            stream = opened.enter_context(_post(port, {**listen, "params": wanted}, headers))
            stream.recv(65536)
        between = _resident(pid)
        for _ in range(IDLE):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        sleep(0.5)
        figures["stream"] = (between - before) / STREAMS
        figures["idle"] = (_resident(pid) - between) / IDLE
    return figures


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return float(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


def contest(peers: Sequence[Peer], *, rounds: int, seconds: float) -> list[Outcome]:
    """Measure everybody in rounds; who cannot take part is in the outcome with the reason."""
    outcomes = [Outcome(peer) for peer in peers]
    for _ in range(rounds):
        outcomes = [_attempt(outcome, seconds) for outcome in outcomes]
    return outcomes


def _attempt(outcome: Outcome, seconds: float) -> Outcome:
    if outcome.peer.missing:
        return outcome
    if shutil.which("wrk") is None:
        return Outcome(outcome.peer.lacking("the load generator wrk is not installed"))
    try:
        sample = measure(outcome.peer, seconds)
    except (LoadError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Outcome(outcome.peer.lacking(str(error)))
    return evolve(outcome, samples=[*outcome.samples, sample])


def targets(outcomes: Sequence[Outcome], memory: dict[str, float]) -> list[Target]:
    """Hold the figures against what was promised."""
    by_name = {outcome.peer.name: outcome for outcome in outcomes}
    ours = by_name[OURS]
    theirs = max((by_name[PYTHON], by_name[TYPESCRIPT]), key=lambda each: _middle(each, "rate"))
    calmest = min(
        (each for each in (by_name[PYTHON], by_name[TYPESCRIPT]) if each.samples),
        key=lambda each: _middle(each, "p99"),
        default=theirs,
    )
    found = [
        _target(f"HTTP requests/s to the {theirs.peer.name}", ours, theirs, "rate", 4, True),
        _target(f"HTTP p99 to the {calmest.peer.name}", ours, calmest, "p99", 1, False),
        _target(
            f"HTTP requests/s, {_SESSIONS:,} sessions to one",
            by_name[MANY],
            by_name[ONE],
            "rate",
            0.8,
            True,
        ),
        _target(
            f"HTTP requests/s, on uvicorn to the {PYTHON}",
            by_name[UVICORN],
            by_name[PYTHON],
            "rate",
            3,
            True,
        ),
        _target("HTTP requests/s, a JWT each to none", by_name[JWT], ours, "rate", 0.95, True),
    ]
    for kind, title in (("stream", "open stream"), ("idle", "idle connection")):
        found.append(Target(f"KiB for each {title}", 25, memory.get(kind), False, "no server"))
    more = None
    if "session" in memory:
        more = memory["session with a token"] - memory["session"]
    what = f"KiB more for a session with a token, {PRINCIPALS:,} principals"
    return [*found, Target(what, 1, more, False, "no server")]


def _target(
    text: str, one: Outcome, other: Outcome, key: str, bound: float, at_least: bool
) -> Target:
    for outcome in (one, other):
        if not outcome.samples:
            return Target(text, bound, None, at_least, f"{outcome.peer.name} is missing")
    return Target(text, bound, paired_ratio(_values(one, key), _values(other, key)), at_least)


def _values(outcome: Outcome, key: str) -> list[float]:
    return [getattr(sample, key) for sample in outcome.samples]


def _middle(outcome: Outcome, key: str) -> float:
    return median(_values(outcome, key)) if outcome.samples else 0.0


def servers_table(outcomes: Sequence[Outcome]) -> str:
    """Lay out the medians, and the throughput beside ours; who is missing is named."""
    headers = [f"HTTP, echo tool, {CONNECTIONS} connections", "req/s", "p99 ms", "spread", "× ours"]
    return table(headers, [_row(outcome, outcomes[0]) for outcome in outcomes])


def _row(outcome: Outcome, ours: Outcome) -> list[str]:
    title = " ".join(filter(None, [outcome.peer.name, outcome.peer.version]))
    if not outcome.samples:
        return [f"{title}  missing: {outcome.peer.missing}"]
    figure = "-"
    if ours.samples:
        figure = f"{paired_ratio(_values(outcome, 'rate'), _values(ours, 'rate')):.2f}"
    rate, p99 = _middle(outcome, "rate"), _middle(outcome, "p99")
    differed = f"{spread(_values(outcome, 'rate')):.2f}"
    return [title, f"{rate:,.0f}", f"{p99 * 1e3:.1f}", differed, figure]


def panels(outcomes: Sequence[Outcome]) -> list[Panel]:
    """Draw what a reader compares."""
    bars = [
        Bar(
            " ".join(filter(None, [each.peer.name, each.peer.version])),
            _middle(each, "rate"),
            f"{_middle(each, 'rate'):,.0f}",
            each.peer.name.startswith(OURS),
        )
        for each in outcomes
        if each.samples
    ]
    return [Panel(f"HTTP: calls per second, {CONNECTIONS} connections", bars)]


add_options = measuring(installs=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    taking_part = peers(install=not options.no_install)
    outcomes = contest(taking_part, rounds=options.rounds, seconds=options.seconds)
    memory = {}
    if outcomes[0].samples:
        memory = {**memory_per_connection(), **memory_per_session()}
    text = [servers_table(outcomes), "", targets_table(targets(outcomes, memory))]
    figures: dict[str, object] = {
        each.peer.name: {
            "version": each.peer.version,
            "missing": each.peer.missing,
            "rate": _values(each, "rate"),
            "p99": _values(each, "p99"),
        }
        for each in outcomes
    }
    return Report("http", "\n".join(text), panels(outcomes), {**figures, "memory_kib": memory})


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("http", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
