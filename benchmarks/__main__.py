"""Every benchmark, one after another, with one chart: `python -m benchmarks`."""

from argparse import ArgumentParser

from benchmarks import client, features, framing, http, stdio
from benchmarks.report import add_output_options, publish


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    stdio.add_options(parser)
    add_output_options(parser)
    options = parser.parse_args()
    benchmarks = (framing, stdio, features, client, http)
    publish([benchmark.run(options) for benchmark in benchmarks], options)


main()
