"""The records of runs that the site shows, read strictly: an incomplete one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from attrs import Attribute, field, frozen, validators
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.v import format_exception

R = TypeVar("R")

CONTESTS = (
    "framing",
    "stdio",
    "work",
    "features",
    "tasks",
    "client",
    "proxy",
    "http",
    "company",
    "stores",
    "workers",
)
"""What `make bench` measures. A record that is older than a contest has no figures of it."""

_NOT_EMPTY: Any = validators.min_len(1)


class RecordError(Exception):
    """There is no record, or it is not one; the message says what to do."""


def _same_length(table: Table, attribute: Attribute[Any], rows: list[list[str]]) -> None:
    for row in rows:
        if len(row) not in (1, len(table.headers)):
            raise ValueError(
                f"a row has {len(row)} cells below {len(table.headers)} headers: {row}"
            )


@frozen
class Made:
    """Where a record comes from."""

    date: str
    version: str
    commit: str
    python: str
    node: str
    system: str
    processors: int
    processor: str = ""
    memory: str = ""


@frozen
class Table:
    """What was printed: a row of one cell is a remark."""

    headers: list[str] = field(validator=_NOT_EMPTY)
    rows: list[list[str]] = field(validator=[_NOT_EMPTY, _same_length])


@frozen
class Bar:
    """One of the figures that are compared."""

    label: str
    value: float = field(validator=validators.ge(0))
    text: str
    ours: bool


@frozen
class Panel:
    """Figures that are compared."""

    title: str
    bars: list[Bar] = field(validator=_NOT_EMPTY)


@frozen
class Contest:
    """One benchmark."""

    rounds: int
    spread: float
    tables: list[Table] = field(validator=_NOT_EMPTY)
    panels: list[Panel] = field(validator=_NOT_EMPTY)


@frozen
class Benchmarks:
    """A run of all benchmarks."""

    made: Made
    seconds: float
    pinned: bool
    contests: dict[str, Contest] = field(validator=_NOT_EMPTY)


@frozen
class Scenario:
    """The outcome of one scenario of the conformance suite."""

    revision: str
    side: str
    name: str
    counted: str
    offered: bool
    passed: bool
    checks: int
    problems: list[str]
    missing: str | None

    @property
    def outcome(self) -> str:
        """Its outcome, in words."""
        if not self.offered:
            return f"not offered: {self.missing}"
        if not self.passed:
            return f"failed: {'; '.join(self.problems)}"
        checks = f"passed, {self.checks} check{'' if self.checks == 1 else 's'}"
        return checks if self.counted == "required" else f"{checks} ({self.counted})"


@frozen
class Conformance:
    """A run of the conformance suite."""

    made: Made
    suite: str
    scenarios: list[Scenario] = field(validator=_NOT_EMPTY)


@frozen
class Faults:
    """A run in which things went wrong."""

    made: Made
    instances: int
    clients: int
    seconds: float
    counted: Table


@frozen
class Peers:
    """What libraries did when things went wrong: a column for each of them."""

    made: Made
    rounds: int
    servers: Table
    guests: Table
    clients: Table
    answers: Table


@frozen
class Costs:
    """One table: what logins cost, tools by how they are written, telemetry, or the opcodes of a
    call; or which names a command knows.
    """

    made: Made
    counted: Table


@frozen
class Memory:
    """The memory of a process while calls were made."""

    name: str
    calls: list[int] = field(validator=_NOT_EMPTY)
    bytes: list[int] = field(validator=_NOT_EMPTY)


@frozen
class Soak:
    """A long run."""

    made: Made
    counted: Table
    seen: Table
    memory: list[Memory]


def load(path: Path, kind: type[R], command: str) -> R:
    """Read a record.

    Args:
        path: Where it is.
        kind: What it is a record of.
        command: The command that makes it again.

    Raises:
        RecordError: It is missing, or not of that kind.
    """
    advice = f"`{command}` makes it again"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"there is no record {path.name}; {advice}") from None
    except (OSError, ValueError) as error:
        raise RecordError(f"{path.name} cannot be read: {error}; {advice}") from None
    try:
        return Converter(forbid_extra_keys=True).structure(content, kind)
    except BaseValidationError as error:
        wrong = "; ".join(transform_error(error, path=path.name, format_exception=_words))
        raise RecordError(f"{path.name} is no record: {wrong}; {advice}") from None


def _words(error: BaseException, kind: type | None) -> str:
    """Say what is wrong, as the validators above do."""
    return str(error) if isinstance(error, ValueError) else format_exception(error, kind)
