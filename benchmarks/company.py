"""The workload of a published comparison: a shop's three tools, over Redis and an HTTP API.

TM Dev Lab's "MCP Server Performance Benchmark v2" compares servers in many languages by it. Fifty
users begin a session, call a tool, and end the session, again and again. As there, `initialize`,
`tools/call` and `tools/list` are counted, and what else the protocol asks for is not. There is no
pause between the sessions here, and each server is one process.
"""

import json
import shutil
import subprocess
from argparse import Namespace
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coredis
import trio
from attrs import evolve, frozen

from benchmarks.backends import REDIS, backend, missing
from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, table_beside
from benchmarks.contest import Outcome, in_rounds
from benchmarks.endless import MIB
from benchmarks.load import LoadError
from benchmarks.packages import FOLDER, PythonPackage, find, find_compiled, find_fastmcp
from benchmarks.peers import OURS, Peer, find_python, find_typescript, python_server
from benchmarks.processes import (
    Command,
    cpu_seconds,
    free_port,
    peak_memory,
    wait_until_up,
)
from benchmarks.report import Report, measuring, run_alone
from benchmarks.servers.company_shop import API
from benchmarks.servers.company_shop import REDIS as REDIS_URL
from benchmarks.visitors import Answer, Request, User, Visits, visit
from benchmarks.wrk import serving

USERS = 50
_REVISION = "2025-06-18"
_WARM_UP = 1.0
_API = Path(__file__).parent / "servers" / "company_api.mjs"
_ORDER = [{"product_id": 42, "quantity": 2}, {"product_id": 1337, "quantity": 1}]
_FOUND = 2251
"""Products of the category and the prices that are asked for."""


def calls_of(user: str) -> Mapping[str, dict[str, Any]]:
    """Return the arguments of each tool, as one user calls it."""
    search = {"category": "Electronics", "min_price": 50.0, "max_price": 500.0, "limit": 10}
    return {
        "search_products": search,
        "get_user_cart": {"user_id": user},
        "checkout": {"user_id": user, "items": _ORDER},
    }


TOOLS = tuple(calls_of(""))


def is_right(tool: str, found: Any) -> bool:
    """Say whether a tool's result is what was asked for."""
    if tool == "search_products":
        shown = len(found["products"]), len(found["top10_popular_ids"])
        return (found["total_found"], *shown) == (_FOUND, 10, 10)
    if tool == "get_user_cart":
        return bool(found["cart"]["items"]) and len(found["recent_history"]) == 5
    return bool(found["total"] > 0) and (found["status"], found["items_count"]) == ("confirmed", 2)


# -- a user ---------------------------------------------------------------------------------------


def shopper(number: int) -> User:
    """Make one of the users, who never ends: a session for each tool, and one for their list."""
    calls = calls_of(f"user-{number:05d}")
    while True:
        for tool, arguments in calls.items():
            answer = yield from _session("tools/call", {"name": tool, "arguments": arguments}, tool)
            text = answer["result"]["content"][0]["text"]
            if answer["result"].get("isError") or not is_right(tool, json.loads(text)):
                raise LoadError(f"the tool {tool} gave a wrong answer: {text[:200]}")
        answer = yield from _session("tools/list", {}, "tools/list")
        if len(answer["result"]["tools"]) != len(TOOLS):
            raise LoadError("tools/list gave a wrong answer")


def _session(
    method: str, params: dict[str, Any], kind: str
) -> Generator[Request, Answer, dict[str, Any]]:
    """Begin a session, make one request in it, and end it, if the server has begun one."""
    hello = {
        "protocolVersion": _REVISION,
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1.0"},
    }
    greeted = yield _post("initialize", hello, {}, kind="initialize", number=1)
    headers = {"MCP-Protocol-Version": _REVISION}
    session = greeted.headers.get("mcp-session-id")
    if session:
        headers["Mcp-Session-Id"] = session
    yield _post("notifications/initialized", None, headers)
    answer = yield _post(method, params, headers, kind=kind, number=2)
    if session:
        yield Request("DELETE", headers)
    return message_of(answer)


def _post(
    method: str,
    params: dict[str, Any] | None,
    headers: Mapping[str, str],
    *,
    kind: str = "",
    number: int | None = None,
) -> Request:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        message["id"] = number
    if params is not None:
        message["params"] = params
    return Request("POST", headers, json.dumps(message).encode(), kind)


def message_of(answer: Answer) -> dict[str, Any]:
    """Return the message of an answer: its body, or the last event of the stream that it is."""
    text = answer.body
    if "text/event-stream" in answer.headers.get("content-type", ""):
        text = [line[5:] for line in text.splitlines() if line.startswith(b"data:")][-1]
    found: dict[str, Any] = json.loads(text)
    if "result" not in found:
        raise LoadError(f"an error in place of a result: {text.decode()[:200]}")
    return found


# -- what the tools ask ---------------------------------------------------------------------------


@contextmanager
def surroundings() -> Iterator[dict[str, str]]:
    """Run the API and a Redis that has carts, orders and a ranking; yield a server's environment.

    Raises:
        LoadError: One of them does not start.
    """
    with backend(REDIS) as store, _api() as api:
        trio.run(_fill, store.url)
        yield {API: api, REDIS_URL: store.url}


@contextmanager
def _api() -> Iterator[str]:
    port = free_port()
    with subprocess.Popen(["node", str(_API), str(port)]) as process:
        try:
            wait_until_up(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


async def _fill(url: str) -> None:
    """Give each user a cart and a history, and rank some products."""
    async with coredis.Redis.from_url(url) as client:
        ranks: dict[str | bytes, float] = {
            f"product:{number}": 1000 - number for number in range(1, 101)
        }
        await client.zadd("bench:popular", ranks)
        for number in range(USERS):
            user = f"user-{number:05d}"
            cart = {"items": json.dumps(_ORDER), "total": "42.5"}
            await client.hset(f"bench:cart:{user}", cart)
            history = [json.dumps({"order_id": f"ORD-{each}", "items": _ORDER}) for each in "12345"]
            await client.rpush(f"bench:history:{user}", history)


# -- the servers ----------------------------------------------------------------------------------


@frozen
class Sample:
    """What one round measured of one server."""

    visits: Visits
    cpu: float | None
    """Seconds of the server's processor time for a counted request."""
    memory: int | None
    """The most bytes that it had resident."""


_COLUMNS: Sequence[Column[Sample]] = (
    Column("rate", "req/s", lambda s: s.visits.rate, 1, ",.0f"),
    Column("mean", "mean ms of a call", lambda s: s.visits.mean(TOOLS), 1e3, ".1f"),
    Column("p99", "p99 ms of a call", lambda s: s.visits.p99(TOOLS), 1e3, ".1f"),
    Column("cpu", "CPU µs", lambda s: s.cpu, 1e6, ",.0f"),
    Column("memory", "peak MiB", lambda s: s.memory, 1 / MIB, ".0f"),
)
COLUMNS = {column.key: column for column in _COLUMNS}


def peers(*, install: bool) -> list[Peer]:
    """Name everybody who takes part, in the order of a round.

    Args:
        install: Whether packages that are not there yet are installed.
    """
    node = Command(["node", str(_API.with_name("company_typescript_sdk.mjs"))], {})
    # What its tools need beside it is installed once FastMCP itself is there.
    fastmcp = find_fastmcp("company_fastmcp.py", install=install)
    client = PythonPackage("coredis", ">=6.9,<7", FOLDER / "fastmcp")
    found = [
        Peer(OURS, python_server("company_trio_mcp.py")),
        find_python(script="company_python_sdk.py"),
        evolve(find(fastmcp, client, install=install), version=fastmcp.version),
        evolve(find_typescript(install=install), command=node),
        *find_compiled("company", install=install),
    ]
    lacking = missing(REDIS) or ("" if shutil.which("node") else "node is not installed")
    return [peer.lacking(lacking) if lacking else peer for peer in found]


def take(peer: Peer, seconds: float) -> Sample:
    """Start a server and what it asks, measure it, end it all.

    Args:
        peer: Who is measured.
        seconds: How long users visit, after a second that is not counted; 0 for a moment.

    Raises:
        LoadError: It did not start or did not answer properly.
    """
    try:
        with surroundings() as environment:
            command = peer.command
            command = evolve(command, environment={**command.environment, **environment})
            with serving(evolve(peer, command=command)) as (port, pid):
                return _take(port, pid, seconds)
    except (OSError, ValueError, LookupError) as error:
        raise LoadError(str(error)) from error


def _take(port: int, pid: int, seconds: float) -> Sample:
    visit(port, list(map(shopper, range(USERS))), min(seconds, _WARM_UP))
    before = cpu_seconds(pid)
    visits = visit(port, list(map(shopper, range(USERS))), seconds or 0.5)
    after = cpu_seconds(pid)
    cpu = None if before is None or after is None else (after - before) / visits.counted
    return Sample(visits, cpu, peak_memory(pid))


def servers_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside ours; who is missing is named."""
    what = f"a shop over HTTP, {USERS} users"
    return table_beside(what, outcomes, _COLUMNS, COLUMNS["rate"], OURS, "× ours")


add_options = measuring(budget=True, installs=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = in_rounds(
        peers(install=not options.no_install),
        take,
        rounds=options.rounds,
        seconds=options.seconds,
        budget=options.budget,
    )
    panel = Panel(f"a shop: requests per second, {USERS} users", bars(outcomes, COLUMNS["rate"]))
    return Report("company", servers_table(outcomes), [panel], measurements(outcomes, _COLUMNS))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("company", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
