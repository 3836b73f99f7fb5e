"""See what libraries do when things go wrong, and keep it for the documentation.

    python -m benchmarks.faults --record docs/measured/peers.json

Each fault meets each library in a process of its own, several times. FastMCP, and the packages from
npm, are installed where they are missing.
"""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from benchmarks.faults.run import ANSWERS, CLIENTS, GUEST_SERVERS, SERVERS, Part, measure
from benchmarks.records import provenance, write
from benchmarks.tables import table

PARTS: Mapping[str, Part] = {
    "servers": SERVERS,
    "guests": GUEST_SERVERS,
    "clients": CLIENTS,
    "answers": ANSWERS,
}


async def _run(parts: Sequence[str], rounds: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in parts:
        made[name] = await measure(PARTS[name], rounds)
        headers, rows = made[name]["headers"], made[name]["rows"]
        print(table(headers, rows, left=range(len(headers))), end="\n\n", flush=True)
    return made


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=PARTS, help="what is tried; otherwise all of it"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep all of it there")
    options = parser.parse_args()
    if options.parts and options.record:
        parser.error("a record has all parts")
    tables = trio.run(_run, options.parts or list(PARTS), options.rounds)
    if options.record:
        write(options.record, {"made": provenance(), "rounds": options.rounds, **tables})


if __name__ == "__main__":
    main()
