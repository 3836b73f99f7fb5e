"""Run the official conformance suite against our server and our client.

    python -m tests.conformance.run

It installs the suite below `.conformance/`, runs what each revision requires, for servers and for
clients (all that there is for revisions whose requirements the suite does not list), prints how
much of it passed and what did not, and leaves everything that the suite wrote, with the outcomes as
JSON, in `.conformance/results/`. It exits with 1 unless everything that the
library offers passes. With `--record FILE` the outcomes are kept there, for the documentation.

The authorization server that it tests is our OAuth proxy, before one from npm (`make peers`).

With `--fleet` our server is three processes that share a Redis, behind an nginx that sends each
request to the next of them. With `--through-proxy` our proxy stands in front of it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, get_args

from benchmarks.records import provenance, write
from tests.conformance.authorization import log_in
from tests.conformance.emptied import write_checks
from tests.conformance.install import VERSION, Suite, install
from tests.conformance.results import (
    Outcome,
    Side,
    as_json,
    failures,
    outcome_of,
    scenarios_of,
    table,
    unlisted,
)
from tests.interop.packages import are_installed
from tests.store.redis_server import redis_server
from tests.support.fleet import balanced, instances, port_of

Serving = Callable[[], AbstractContextManager[str]]

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".conformance"
RESULTS = CACHE / "results"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
NOT_THROUGH_A_PROXY = ("server-sse-polling",)
"""Scenarios of what cannot be passed on: a tool that has its caller come back for the rest closes
the stream between the caller and the proxy, of which its server knows nothing."""
SCENARIO_LIMIT = 120_000
"""Milliseconds for a scenario. Those of clients run side by side, however few processors there are."""
TIME_LIMIT = 1200
"""Seconds for one side of one revision."""


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"tests.conformance.{name}"]


def serving() -> AbstractContextManager[str]:
    """Run our server during the block. Yields its URL."""
    return _process("everything_server")


@contextmanager
def serving_through_proxy() -> Iterator[str]:
    """Run our server behind our proxy during the block. Yields the URL of the proxy."""
    with serving() as url, _process("proxy", url) as outer:
        yield outer


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[str]:
    """Run a server of ours during the block. Yields its URL."""
    with (
        (RESULTS / f"{module}.log").open("w") as log,
        subprocess.Popen(
            [*_module(module), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                sys.exit(f"The server did not start; see {log.name}.")
            yield url
            if server.poll() is not None:
                sys.exit(f"The server ended by itself; see {log.name}.")
        finally:
            server.kill()


_FLEET = 3


@contextmanager
def serving_by_fleet() -> Iterator[str]:
    """Run our server as several processes during the block. Yields the URL of their balancer."""
    folder = RESULTS / "fleet"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with redis_server(folder) as redis:
        environment = {**os.environ, "EVERYTHING_STORE": redis.url}
        command, log = _module("everything_server"), RESULTS / "server.log"
        with (
            instances(command, _FLEET, environment=environment, cwd=ROOT, log=log) as urls,
            balanced(folder / "nginx", [port_of(each) for each in urls]) as port,
        ):
            yield f"http://127.0.0.1:{port}/mcp"


def run(suite: Suite, revision: str, side: Side, server: Serving = serving) -> list[Outcome]:
    """Run what a revision requires of servers, or of clients."""
    output = RESULTS / f"{revision}-{side}"
    output.mkdir()
    requirements = suite.requirements(revision)
    if side == "authorization":
        return _run_authorization(suite, revision, output)
    if requirements is None:
        wanted = unlisted(revision, side, suite.scenarios(revision, side))
        selections = [["--suite", "all", "--spec-version", revision]]
    else:
        wanted = scenarios_of(revision, side, requirements)
        selections = [["--requirements", revision]]
    if revision == REVISIONS[-1]:
        named = {each.name for each in wanted}
        beside = [name for name in suite.extensions(side) if name not in named]
        wanted += unlisted(revision, side, beside)
        selections += [
            ["--scenario", name, "--spec-version", revision, "--force"] for name in beside
        ]
    with (output / "output.txt").open("w") as log, _other_side(side, server) as other:
        for each in selections:
            options = [side, *each, "--timeout", str(SCENARIO_LIMIT), "--output-dir", str(output)]
            _run(suite.command(*options, *other), log.fileno())
        if side == "server" and revision == REVISIONS[-1]:
            write_checks(other[-1], output)
    return [outcome_of(each, output) for each in wanted]


def _run_authorization(suite: Suite, revision: str, output: Path) -> list[Outcome]:
    """Run the scenarios of authorization servers, which no revision requires."""
    wanted = unlisted(revision, "authorization", suite.scenarios(revision, "authorization"))
    options = ["--spec-version", revision, "--output-dir", str(output)]
    with (
        (output / "output.txt").open("w") as log,
        _process("authorization", str(output / "npm")) as url,
    ):
        log_in(suite.command("authorization", *options), url, log)
    return [outcome_of(each, output) for each in wanted]


@contextmanager
def _other_side(side: Side, server: Serving) -> Iterator[list[str]]:
    """Tell the suite where our server is, or how to run our client."""
    if side == "server":
        with server() as url:
            yield ["--url", url]
    else:
        yield ["--command", shlex.join(_module("everything_client"))]


def _run(command: list[str], log: int) -> None:
    """Run the suite. Its exit code says nothing: it does not count everything that we do."""
    subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=TIME_LIMIT, check=False)


def record(outcomes: list[Outcome], suite: Suite) -> dict[str, Any]:
    """What is kept of a run. What is not offered has a name, and no problems: it was not wanted."""
    scenarios = []
    for outcome, each in zip(outcomes, as_json(outcomes), strict=True):
        missing = outcome.scenario.missing
        problems = [] if missing else each["problems"]
        scenarios.append({**each, "missing": missing, "problems": problems})
    return {"made": provenance(suite.node), "suite": VERSION, "scenarios": scenarios}


def main() -> None:
    """Run all of it, or the part that the command line names."""
    parser = ArgumentParser(prog="python -m tests.conformance.run")
    parser.add_argument("--revision", choices=REVISIONS, action="append", help="only this one")
    parser.add_argument("--side", choices=get_args(Side), action="append", help="only this one")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the outcomes there")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--fleet", action="store_true", help="servers only, three that are one")
    ways.add_argument("--through-proxy", action="store_true", help="servers only, behind our proxy")
    options = parser.parse_args()
    server: Serving = serving
    if options.fleet or options.through_proxy:
        options.side = ["server"]
        server = serving_by_fleet if options.fleet else serving_through_proxy
    if options.record and (options.revision or options.side):
        parser.error(
            "a part of a run is not a record: leave out --revision and --side, or --record"
        )
    suite = install(CACHE)
    if "authorization" in (options.side or get_args(Side)) and not are_installed():
        sys.exit("The provider of logins is missing: run `make peers`, or name another --side.")
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir()
    outcomes = [
        outcome
        for revision in options.revision or REVISIONS
        for side in options.side or get_args(Side)
        for outcome in run(suite, revision, side, server)
    ]
    summary = {"suite": VERSION, "scenarios": as_json(outcomes)}
    (RESULTS / "results.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(f"Conformance suite {VERSION}\n\n{table(outcomes)}")
    if options.record:
        write(options.record, record(outcomes, suite))
        print(f"\nrecord: {options.record}")
    if options.through_proxy:
        outcomes = [each for each in outcomes if each.scenario.name not in NOT_THROUGH_A_PROXY]
    if any(each.failed for each in outcomes):
        sys.exit(f"\nFailed:\n\n{failures(outcomes)}")


if __name__ == "__main__":
    main()
