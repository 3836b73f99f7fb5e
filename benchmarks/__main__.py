"""Every benchmark, one after another, with one chart: `python -m benchmarks`."""

from argparse import ArgumentParser
from pathlib import Path

from benchmarks import (
    client,
    company,
    features,
    framing,
    http,
    proxy,
    stdio,
    stores,
    tasks,
    work,
    workers,
)
from benchmarks.complete import FEWEST_ROUNDS, keep
from benchmarks.report import add_output_options, measuring, publish

_add_options = measuring(budget=True, installs=True, pins=True)


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    _add_options(parser)
    add_output_options(parser)
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="keep the run there for the documentation, if it is complete",
    )
    options = parser.parse_args()
    if options.record and options.rounds < FEWEST_ROUNDS:
        parser.error(f"a record takes at least {FEWEST_ROUNDS} rounds")
    benchmarks = (
        framing,
        stdio,
        work,
        features,
        tasks,
        client,
        proxy,
        http,
        company,
        stores,
        workers,
    )
    reports = [benchmark.run(options) for benchmark in benchmarks]
    publish(reports, options)
    if options.record:
        pinned = not options.unpinned
        print(keep(reports, options.record, seconds=options.seconds, pinned=pinned))


main()
