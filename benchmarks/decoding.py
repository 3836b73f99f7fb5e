"""Decoding beside a bare `orjson.loads`, on the same messages, in one process.

Each message is of one kind: what it is made of decides what it takes to find out that nothing of it
was lost on the way.
"""

import json
from collections.abc import Iterator, Sequence
from statistics import median
from time import process_time

import orjson
from attrs import frozen

from benchmarks.figures import Target, paired_ratio, spread
from trio_mcp.wire.jsonrpc import Json, decode

_BOUND = 1.6
_COMPACT = (",", ":")
_ROW = {"id": 7, "name": "Zoë Example", "mail": "zoe@example.com", "active": True, "score": 0.75}


@frozen
class Kind:
    """What a message holds, and how that is written."""

    name: str
    content: Json
    indent: int | None = None
    separators: tuple[str, str] = _COMPACT
    ascii_only: bool = False

    def line(self) -> bytes:
        """Return a message of about a mebibyte."""
        params = {"name": "echo", "arguments": {"value": self.content}}
        text = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            indent=self.indent,
            separators=self.separators if self.indent is None else None,
            ensure_ascii=self.ascii_only,
        )
        return text.encode()


def _nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


_CODE = 'def f(x):\n\treturn f"{x}" + "\\n"\n'
_PROSE = 'At 10:15 she said "it is done": they had waited for that.\n'
_BLOCKS = [{"type": "text", "text": _CODE * 500}] * 50
_DATED = [{**_ROW, "at": "2026-11-27T10:15:20Z"}]

KINDS = (
    Kind("rows", [_ROW] * 10_000),
    Kind("rows, as json.dumps writes them", [_ROW] * 9_000, separators=(", ", ": ")),
    Kind("rows, indented", [_ROW] * 5_000, indent=2),
    Kind("rows, escaped to ASCII", [_ROW] * 9_000, ascii_only=True),
    Kind("rows with times", _DATED * 8_000),
    Kind("rows with times, as json.dumps writes them", _DATED * 8_000, separators=(", ", ": ")),
    Kind("small objects", [{"a": number % 10} for number in range(100_000)]),
    Kind("nested deeply", [_nested(100)] * 1_500),
    Kind("long texts", ["a text of many words, " * 2_000] * 24),
    Kind("long texts, not ASCII", ["ein Text über viele Wörter, " * 2_000] * 18),
    Kind("long texts, escaped to ASCII", ["日本語の文章です。" * 500] * 40, ascii_only=True),
    Kind("source code", [_CODE * 500] * 50),
    Kind("source code, in objects", _BLOCKS),
    Kind("source code, in objects, as json.dumps writes them", _BLOCKS, separators=(", ", ": ")),
    Kind("prose, in objects", [{"role": "user", "content": _PROSE * 15}] * 900),
    Kind("JSON in a text", [json.dumps([_ROW] * 9_000, ensure_ascii=False)]),
    Kind("short texts", [f"word {number}" for number in range(80_000)]),
    Kind("integers", list(range(150_000))),
    Kind("integers of 63 bits", [2**62 + 7**15 * number for number in range(50_000)]),
    Kind("floats", [number / 7 for number in range(60_000)]),
    Kind("rows, with an integer beyond 64 bits", [{**_ROW, "id": 2**70}, *[_ROW] * 9_999]),
    Kind("integers beyond 64 bits", [2**70 + number for number in range(45_000)]),
)


@frozen
class Outcome:
    """Seconds of processor time for a message, round by round."""

    kind: Kind
    size: int
    ours: list[float]
    bare: list[float]

    @property
    def ratio(self) -> float:
        """How many times the parser's time ours takes."""
        return paired_ratio(self.ours, self.bare)

    @property
    def target(self) -> Target:
        return Target(f"decoding time, {self.kind.name}", _BOUND, self.ratio)


def measure(kind: Kind, rounds: int) -> Outcome:
    """Run both alternately; a first round warms up and is not counted."""
    line = kind.line()
    pairs = [(_seconds(decode, line), _seconds(orjson.loads, line)) for _ in range(rounds + 1)]
    return Outcome(kind, len(line), [our for our, _ in pairs[1:]], [bare for _, bare in pairs[1:]])


def _seconds(parse: object, line: bytes, times: int = 5) -> float:
    assert callable(parse)
    begin = process_time()
    for _ in range(times):
        parse(line)
    return (process_time() - begin) / times


def rows(outcomes: Sequence[Outcome]) -> Iterator[list[str]]:
    """Yield the rows of a table: kind, bytes, milliseconds of both, spread of ours, ratio."""
    for outcome in outcomes:
        times = [f"{median(values) * 1e3:.2f}" for values in (outcome.ours, outcome.bare)]
        figures = (f"{spread(outcome.ours):.2f}", f"{outcome.ratio:.2f}")
        yield [outcome.kind.name, f"{outcome.size:,}", *times, *figures]


HEADERS = ["decoding", "bytes", "ours ms", "orjson ms", "spread", "time ratio"]
