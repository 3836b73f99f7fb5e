"""The benchmark of a shop over HTTP: what its users do, and that wrong answers are not measured."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from benchmarks import company
from benchmarks.columns import measurements
from benchmarks.company import COLUMNS, TOOLS, Sample
from benchmarks.contest import Outcome
from benchmarks.load import LoadError
from benchmarks.packages import COMPILED
from benchmarks.peers import OURS, PYTHON, TYPESCRIPT, Peer
from benchmarks.processes import Command
from benchmarks.visitors import Answer, Request, Visits, visit
from tests.benchmarks.peers import as_param

PEERS = company.peers(install=False)
INSTALLED = [each for each in PEERS if not each.missing or each.name in (OURS, PYTHON)]
RIGHT: dict[str, dict[str, Any]] = {
    "search_products": {
        "total_found": 2251,
        "products": [{}] * 10,
        "top10_popular_ids": list(range(10)),
    },
    "get_user_cart": {"cart": {"items": [{}]}, "recent_history": [{}] * 5},
    "checkout": {"status": "confirmed", "total": 42.5, "items_count": 2},
}


def answer_of(result: dict[str, Any], **headers: str) -> Answer:
    return Answer(headers, json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())


def content(found: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(found)}]}


def answered(request: Request, session: str) -> Answer:
    """What a server answers to a user."""
    message = json.loads(request.body or b"{}")
    if message.get("method") == "initialize":
        return answer_of({}, **({"mcp-session-id": session} if session else {}))
    if message.get("method") == "tools/list":
        return answer_of({"tools": [{}] * len(TOOLS)})
    if message.get("method") == "tools/call":
        return answer_of(content(RIGHT[message["params"]["name"]]))
    return Answer()


@pytest.mark.parametrize("session", ["", "s-1"])
def test_a_user_calls_each_tool_in_a_session_of_its_own(session: str) -> None:
    user = company.shopper(7)
    request, kinds, methods = next(user), [], []
    while len(kinds) < 8:
        kinds += [request.kind] if request.kind else []
        methods.append(request.method)
        request = user.send(answered(request, session))
    assert kinds[1::2] == [*TOOLS, "tools/list"]
    assert set(kinds[::2]) == {"initialize"}
    assert ("DELETE" in methods) == bool(session)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_wrong_result_is_not_measured(tool: str) -> None:
    assert company.is_right(tool, RIGHT[tool])
    wrong = {"total_found": 1, "cart": {"items": []}, "status": "refused"}
    assert not company.is_right(tool, {**RIGHT[tool], **wrong})


def test_an_answer_is_read_from_a_body_or_a_stream() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}
    body = json.dumps(message).encode()
    assert company.message_of(Answer(body=body)) == message
    stream = Answer({"content-type": "text/event-stream"}, b"event: message\ndata: " + body + b"\n")
    assert company.message_of(stream) == message
    with pytest.raises(LoadError, match="an error in place of a result"):
        company.message_of(Answer(body=b'{"error":{"code":1}}'))


class Once(BaseHTTPRequestHandler):
    """Answers in pieces, as servers may; what is not to be answered is refused."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404 if body == b"refuse" else 200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"2\r\nab\r\n")
        self.wfile.flush()
        self.wfile.write(b"1\r\nc\r\n0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Once) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_visits_are_counted_by_kind(port: int) -> None:
    seen = []

    def user() -> Any:
        while True:
            seen.append((yield Request("POST", {}, b"x", "one")))
            yield Request("POST", {}, b"x")

    visits = visit(port, [user(), user()], 0.1)
    assert {each.body for each in seen} == {b"abc"}
    assert visits.counted == len(visits.latencies["one"]) > 0
    assert visits.rate > 0
    assert 0 < visits.mean(["one"]) <= visits.p99(["one"]) < visits.seconds


def test_a_refusal_is_not_measured(port: int) -> None:
    def user() -> Any:
        while True:
            yield Request("POST", {}, b"refuse", "one")

    with pytest.raises(LoadError, match="status 404: abc"):
        visit(port, [user()], 1)


def test_the_table_compares_with_ours_and_says_who_is_missing() -> None:
    def measured(name: str, rate: int) -> Outcome[Sample]:
        visits = Visits(1.0, rate, {tool: [0.01] for tool in TOOLS})
        return Outcome(Peer(name, Command([], {})), [Sample(visits, 1 / rate, 50 << 20)] * 2)

    gone = Outcome[Sample](Peer(TYPESCRIPT, Command([], {})).lacking("node is not installed"))
    lines = company.servers_table([measured(OURS, 900), measured(PYTHON, 300), gone]).split("\n")
    assert lines[2].split()[1:] == ["900", "10.0", "10.0", "1,111", "50", "1.00", "1.00"]
    assert lines[3].split()[-1] == "0.33"
    assert lines[4] == f"{TYPESCRIPT}  missing: node is not installed"
    assert COLUMNS["memory"].title == "peak MiB"


def test_a_record_is_complete_without_servers_that_need_a_compiler() -> None:
    outcomes = [
        Outcome[Sample](Peer(name, Command([], {}), is_optional=name in COMPILED).lacking("x"))
        for name in (OURS, *COMPILED)
    ]
    assert list(measurements(outcomes, [])) == [OURS]
    assert [each.is_optional for each in PEERS] == [each.name in COMPILED for each in PEERS]


@pytest.mark.parametrize("peer", list(map(as_param, INSTALLED)))
@pytest.mark.needs("redis-server", "node")
def test_every_server_can_be_measured(peer: Peer) -> None:
    assert peer.missing == ""
    assert company.take(peer, 0).visits.rate > 0
