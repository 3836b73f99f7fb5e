"""Servers measured in rounds: A B C, A B C, so that what disturbs one disturbs all.

Every round starts each server anew: handshake, warm-up, one call after another, many calls in
flight. A first round, which is not counted, fills caches and finds out who can take part.
"""

import json
from collections.abc import Callable, Sequence
from time import monotonic, perf_counter
from typing import Generic, TypeVar

from attrs import define, evolve, field, frozen

from benchmarks.eras import FIRST_ID, MAX_CALLS, TEXT, Calls, Era
from benchmarks.load import Load, LoadError, drive, write_all
from benchmarks.peers import Peer
from benchmarks.processes import Server, running

WINDOW = 64
_LIFETIME = 60.0
_WARM_UP_SLICE = 0.3
_WARM_UP_SLICES = 10
PILOT = 200

S = TypeVar("S")
"""What one round measured of one server."""


@frozen
class Sample:
    """What one round measured of one server."""

    start: float
    """Seconds from starting the process to the answer to its handshake."""
    sequential: Load
    windowed: Load
    cpu_alone: float | None
    """Seconds of processor time per request, one at a time."""
    cpu: float | None
    """Seconds of processor time per request, with many in flight."""
    memory: int | None
    """The most bytes that it had resident."""


@frozen
class Outcome(Generic[S]):
    """A server and its samples, one per round; none if it is missing."""

    peer: Peer
    samples: list[S] = field(factory=list)

    def values(self, pick: Callable[[S], float | None]) -> list[float]:
        """Pick one figure out of every sample; nothing if the system does not tell it."""
        picked = [pick(sample) for sample in self.samples]
        return [value for value in picked if value is not None]


@define
class Caller:
    """Calls a server's tool, or sends other requests, with ids that never repeat."""

    server: Server
    era: Era
    next_id: int = FIRST_ID
    make: Callable[[int, int], Calls] | None = None
    """Makes so many requests from that id on, in place of calls of the echo tool."""

    def open(self) -> float:
        """Make the handshake and return the seconds since the start of the process."""
        first, *others = self.era.opening
        write_all(self.server.writer, first)
        answer = json.loads(self.server.lines.read())
        elapsed = perf_counter() - self.server.started
        if "result" not in answer:
            raise LoadError("the handshake was refused")
        for line in others:
            write_all(self.server.writer, line)
        return elapsed

    def check(self) -> None:
        """Call once and look at the answer closely."""
        write_all(self.server.writer, self.era.calls(1, self.take(1)).blob)
        answer = json.loads(self.server.lines.read())
        if "result" not in answer or answer["result"]["content"][0]["text"] != TEXT:
            raise LoadError("the echo tool gave a wrong answer")

    def warm_up(self) -> float:
        """Call until it gets no faster, as with a just-in-time compiler; return the best rate."""
        best, stale = 0.0, 0
        for _ in range(_WARM_UP_SLICES):
            rate = self.run_for(_WARM_UP_SLICE, WINDOW).rate
            stale = 0 if rate > 1.05 * best else stale + 1
            best = max(best, rate)
            if stale == 2:
                break
        return best

    def run_for(self, seconds: float, window: int) -> Load:
        """Call for about so long, after a few calls that tell the rate, and measure."""
        pilot = self.run(PILOT, window)
        return self.run(int(pilot.rate * seconds), window)

    def run(self, count: int, window: int) -> Load:
        """Call so many times, or nearly, and measure."""
        count = min(max(count, PILOT), MAX_CALLS // 8)
        calls = (self.make or self.era.calls)(count, self.take(count))
        return drive(self.server.writer, self.server.lines, calls, window)

    def run_timed(self, count: int, window: int) -> tuple[Load, float | None]:
        """Call so many times, and measure the server's processor time per request as well."""
        before = self.server.cpu_seconds()
        load = self.run(count, window)
        after = self.server.cpu_seconds()
        return load, None if before is None or after is None else (after - before) / load.count

    def take(self, count: int) -> int:
        """Return the first of so many ids that nobody has yet."""
        first_id = self.next_id
        self.next_id += count
        return first_id


def measure(peer: Peer, *, seconds: float, pinned: bool) -> Sample:
    """Start a server, measure it, end it.

    Args:
        peer: Who is measured.
        seconds: How long each of the two runs of calls lasts, about; 0 for the fewest calls.
        pinned: Whether the server has one processor and the load generator the other.

    Raises:
        LoadError: It did not start or did not answer properly.
    """
    with running(peer.command, lifetime=_LIFETIME, pinned=pinned) as server:
        try:
            return _measure(server, Caller(server, peer.era), seconds)
        except (LoadError, OSError, ValueError, LookupError) as error:
            raise LoadError(server.last_words() or str(error)) from error


def _measure(server: Server, caller: Caller, seconds: float) -> Sample:
    start = caller.open()
    caller.check()
    rate = caller.warm_up() if seconds else 0
    pilot = caller.run(PILOT, 1)
    sequential, alone = caller.run_timed(int(pilot.rate * seconds), 1)
    windowed, many = caller.run_timed(int(rate * seconds), WINDOW)
    return Sample(start, sequential, windowed, alone, many, server.peak_memory())


def contest(
    peers: Sequence[Peer], *, rounds: int, seconds: float, budget: float, pinned: bool
) -> list[Outcome[Sample]]:
    """Measure everybody in rounds, as `in_rounds` does.

    Args:
        peers: Who takes part, in the order of a round.
        rounds: How often.
        seconds: How long a run of calls lasts, about.
        budget: Seconds after which no further round begins; one round there is always.
        pinned: Whether the server has one processor and the load generator the other.
    """

    def take(peer: Peer, seconds: float) -> Sample:
        return measure(peer, seconds=seconds, pinned=pinned)

    return in_rounds(peers, take, rounds=rounds, seconds=seconds, budget=budget)


def in_rounds(
    peers: Sequence[Peer],
    take: Callable[[Peer, float], S],
    *,
    rounds: int,
    seconds: float,
    budget: float,
) -> list[Outcome[S]]:
    """Measure everybody in rounds; who cannot take part is in the outcome with the reason.

    Args:
        peers: Who takes part, in the order of a round.
        take: Takes a sample of one, that lasts about so many seconds; 0 for the least.
        rounds: How often.
        seconds: How long a sample lasts, by the measure of `take`.
        budget: Seconds after which no further round begins; one round there is always.
    """
    end = monotonic() + budget
    outcomes: list[Outcome[S]] = [_attempt(Outcome(peer), take, 0.0) for peer in peers]
    outcomes = [evolve(outcome, samples=[]) for outcome in outcomes]
    for number in range(rounds):
        if number and monotonic() > end:
            break
        outcomes = [_attempt(outcome, take, seconds) for outcome in outcomes]
    return outcomes


def _attempt(outcome: Outcome[S], take: Callable[[Peer, float], S], seconds: float) -> Outcome[S]:
    """Add a sample, unless the server is missing or fails now."""
    if outcome.peer.missing:
        return outcome
    try:
        sample = take(outcome.peer, seconds)
    except (LoadError, OSError) as error:
        return Outcome(outcome.peer.lacking(str(error)))
    return evolve(outcome, samples=[*outcome.samples, sample])
