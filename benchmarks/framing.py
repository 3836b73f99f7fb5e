"""Framing beside a bare `bytes.split` loop, on the same chunks, in one process; and `decoding`.

The bare loop keeps what follows the last newline and puts it before the next chunk. On a long
line in small chunks that copies the line again and again, so there a bare loop that joins a list
of pieces stands beside ours instead, and the other is shown once.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from time import perf_counter

from attrs import frozen

from benchmarks import decoding
from benchmarks.chart import Bar, Panel
from benchmarks.figures import Target, paired_ratio, spread, targets_table
from benchmarks.report import Report, measuring, run_alone
from benchmarks.tables import table
from trio_mcp.wire.framing import LineDecoder

_KIB = 1024
_MIB = 1024 * 1024
_LIMIT = 10 * _MIB
_BOUND = 1.5

Framer = Callable[[Sequence[bytes]], int]
"""Takes chunks and returns how many lines they were."""


def ours(chunks: Sequence[bytes]) -> int:
    decoder = LineDecoder(_LIMIT)
    return sum(len(decoder.feed(chunk)) for chunk in chunks)


def bare_split(chunks: Sequence[bytes]) -> int:
    count, tail = 0, b""
    for chunk in chunks:
        lines = (tail + chunk).split(b"\n")
        tail = lines.pop()
        count += len(lines)
    return count


def bare_join(chunks: Sequence[bytes]) -> int:
    count = 0
    pieces: list[bytes] = []
    for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        pieces.append(first)
        if lines:
            b"".join(pieces)
            pieces = [lines.pop()]
            count += 1 + len(lines)
    return count


@frozen
class Case:
    """Lines of one length, without their newlines, in chunks of one size."""

    name: str
    line: int
    chunk: int
    total: int
    bare: Framer
    once: Framer | None = None
    """A further loop that is too slow to be measured in every round."""

    def chunks(self) -> list[bytes]:
        stream = (b"x" * self.line + b"\n") * (self.total // self.line)
        return [stream[at : at + self.chunk] for at in range(0, len(stream), self.chunk)]


CASES = (
    Case("100 B lines, 64 KiB chunks", 100, 64 * _KIB, 32 * _MIB, bare_split),
    Case("1 KiB lines, 64 KiB chunks", _KIB, 64 * _KIB, 128 * _MIB, bare_split),
    Case("64 KiB lines, 64 KiB chunks", 64 * _KIB, 64 * _KIB, 128 * _MIB, bare_split),
    Case("a 10 MiB line, 4 KiB chunks", _LIMIT, 4 * _KIB, 4 * _LIMIT, bare_join, bare_split),
)


@frozen
class Outcome:
    """Bytes per second, round by round."""

    case: Case
    ours: list[float]
    bare: list[float]
    once: float | None

    @property
    def ratio(self) -> float:
        """How many times the bare loop's time ours takes."""
        return paired_ratio(self.bare, self.ours)


def measure(case: Case, rounds: int) -> Outcome:
    """Run both loops alternately; a first round warms up and is not counted."""
    chunks = case.chunks()
    size = sum(map(len, chunks))
    pairs = [
        (_speed(ours, chunks, size), _speed(case.bare, chunks, size)) for _ in range(rounds + 1)
    ]
    once = None if case.once is None else _speed(case.once, *_first_line(chunks, case))
    return Outcome(case, [our for our, _ in pairs[1:]], [bare for _, bare in pairs[1:]], once)


def _first_line(chunks: Sequence[bytes], case: Case) -> tuple[list[bytes], int]:
    count = case.line // case.chunk + 1
    return list(chunks[:count]), count * case.chunk


def _speed(framer: Framer, chunks: Sequence[bytes], size: int) -> float:
    begin = perf_counter()
    framer(chunks)
    return size / (perf_counter() - begin)


def _rows(outcomes: Sequence[Outcome]) -> Iterator[list[str]]:
    for outcome in outcomes:
        once = "-" if outcome.once is None else f"{outcome.once / 1e6:,.0f}"
        speeds = [f"{median(values) / 1e6:,.0f}" for values in (outcome.ours, outcome.bare)]
        loop = "list join" if outcome.case.bare is bare_join else "split"
        figures = (f"{spread(outcome.ours):.2f}", f"{outcome.ratio:.2f}")
        yield [outcome.case.name, loop, *speeds, *figures, once]


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = [measure(case, options.rounds) for case in CASES]
    headers = [
        "framing",
        "bare loop",
        "ours MB/s",
        "bare MB/s",
        "spread",
        "time ratio",
        "quadratic split MB/s",
    ]
    decoded = [decoding.measure(kind, options.rounds) for kind in decoding.KINDS]
    targets = [Target(f"framing time, {o.case.name}", _BOUND, o.ratio) for o in outcomes]
    targets += [outcome.target for outcome in decoded]
    text = [
        table(headers, _rows(outcomes), left=(0, 1)),
        "",
        table(decoding.HEADERS, decoding.rows(decoded), left=(0,)),
        "",
        targets_table(targets),
    ]
    bars = [
        Bar(f"{outcome.case.name}{suffix}", median(values), f"{median(values) / 1e6:,.0f}", is_ours)
        for outcome in outcomes
        for suffix, values, is_ours in (
            (", ours", outcome.ours, True),
            (", bare", outcome.bare, False),
        )
    ]
    figures = {o.case.name: {"ours": o.ours, "bare": o.bare, "quadratic": o.once} for o in outcomes}
    return Report("framing", "\n".join(text), [Panel("framing in MB/s", bars)], figures)


add_options = measuring(timed=False)


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("framing", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
