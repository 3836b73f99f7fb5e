"""The load over HTTP: `wrk` calls the echo tool of a server that is started for it.

`wrk` is in Debian's package of that name. It keeps some connections open, each of which has one
request at a time. Every request has an id of its own; the rest of it is ready before the load
begins.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from math import ceil
from pathlib import Path
from typing import Any

from attrs import frozen

from benchmarks.eras import FIRST_ID
from benchmarks.load import LoadError
from benchmarks.peers import Peer
from benchmarks.processes import free_port, wait_until_up
from benchmarks.tokens import Headers

CONNECTIONS = 16

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_CALL = {"name": "echo", "arguments": {"text": "hello"}}


def headers_of(method: str, name: str) -> dict[str, str]:
    """The headers of a modern request: they repeat what its body says."""
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": name,
    }


MODERN_HEADERS = headers_of("tools/call", "echo")
_LEGACY_HEADERS = {**MODERN_HEADERS, "MCP-Protocol-Version": "2025-11-25"}

_CHECKED_FROM, _MEASURED_FROM = FIRST_ID, 5 * FIRST_ID
"""No session gets an id twice, and all ids have the same number of digits."""

# Everything in a request but its id is ready before the load begins, one beginning per sender: what
# the load generator costs is taken from the same processors.
_SCRIPT = """
local starts, rest = {}, '%(rest)s'
local number, first = %(first)d, %(first)d

function init()
  for line in io.lines("%(senders)s") do
    local headers = {%(headers)s}
    for name, value in line:gmatch("([^\t]+)\t([^\t]+)") do
      headers[name] = value
    end
    local whole = wrk.format("POST", "/mcp", headers, '{"jsonrpc":"2.0","id":' .. first .. rest)
    starts[#starts + 1] = whole:sub(1, -1 - #(first .. rest))
  end
end

function request()
  local sent = number - first
  if %(once)s and sent + %(connections)d >= #starts then
    wrk.thread:stop()
  end
  number = number + 1
  return starts[sent %% #starts + 1] .. number .. rest
end

function setup(thread)
  caller = thread
end

function done(summary, latency, requests)
  io.write(string.format("RESULT %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    latency:percentile(99.0), summary.bytes, summary.errors.status + summary.errors.read
    + summary.errors.connect + summary.errors.write + summary.errors.timeout
    + (caller:get("wrong") or 0)))
end
"""
_CHECK = """
wrong = 0
local unanswered = {}
local send = request

function request()
  local text = send()
  unanswered[number] = true
  return text
end

function response(status, headers, body)
  local id = tonumber(body:match('"id": ?(%d+)'))
  if not (status == 200 and id and unanswered[id] and body:find('"text": ?"hello"'))
    or body:find('"isError": ?true') then
    wrong = wrong + 1
  end
  unanswered[id or 0] = nil
end
"""
_RESULT = re.compile(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+)")
_SAME_SIZE = 0.02
"""By how much the mean size of answers may differ: the last ones are read in part."""


@frozen
class Sample:
    """One run of load."""

    rate: float
    p99: float
    """Seconds."""
    count: int = 0
    """How many requests there were."""
    size: float = 0.0
    """The bytes of an answer, with its head, in the mean."""


@contextmanager
def serving(peer: Peer) -> Iterator[tuple[int, int]]:
    """Run a server; yields its port and its process id."""
    port = free_port()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*peer.command.arguments, str(port)],
            env=None if not peer.command.environment else _environment(peer),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # so that what it has started can be ended with it
        )
        try:
            wait_until_up(port, process)
            yield port, process.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment(peer: Peer) -> dict[str, str]:
    return {**os.environ, **peer.command.environment}


def check(
    port: int, senders: Sequence[Headers], *, legacy: bool = False, once: bool = False
) -> float:
    """Call a server's echo tool for a second, and look at every answer: status, id, text.

    Args:
        port: Where it listens.
        senders: What the headers of requests have beside those of all, in turn.
        legacy: Whether requests are of revision 2025-11-25, which has sessions.
        once: Whether each of the senders is good for one request.

    Returns:
        The bytes of an answer, by which `load` checks the others.

    Raises:
        LoadError: It answered wrongly.
    """
    return _run_wrk(port, 1, senders, legacy=legacy, once=once, check=True).size


def load(
    port: int,
    seconds: float,
    senders: Sequence[Headers],
    *,
    size: float | None,
    legacy: bool = False,
    once: bool = False,
) -> Sample:
    """Call a server's echo tool for so long, and measure.

    To look at every answer would cost more than to ask. So what is checked here is each status, and
    how long answers are.

    Args:
        port: Where it listens.
        seconds: For how long; one at least.
        senders: What the headers of requests have beside those of all, in turn.
        size: The bytes of a right answer, as `check` has found; `None` for what gives no right one.
        legacy: Whether requests are of revision 2025-11-25, which has sessions.
        once: Whether each of the senders is good for one request.

    Raises:
        LoadError: It answered wrongly, or there were too few senders.
    """
    found = _run_wrk(port, seconds, senders, legacy=legacy, once=once)
    if size is not None and abs(found.size / size - 1) > _SAME_SIZE + CONNECTIONS / found.count:
        raise LoadError(f"an answer had {found.size:.0f} bytes in the mean, and not {size:.0f}")
    if once and found.count + CONNECTIONS >= len(senders):
        raise LoadError(f"{len(senders):,} senders were too few")
    return found


def _run_wrk(
    port: int,
    seconds: float,
    senders: Sequence[Headers],
    *,
    legacy: bool,
    once: bool,
    check: bool = False,
) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "load.lua")
        script.write_text(_script(_write_senders(folder, senders), legacy, once, check))
        how = ["-t1", f"-c{CONNECTIONS}", f"-d{max(1, ceil(seconds))}", "-s", str(script)]
        done = subprocess.run(
            ["wrk", *how, f"http://127.0.0.1:{port}/mcp"],
            capture_output=True,
            text=True,
            timeout=seconds + 30,
            check=False,
        )
    found = _RESULT.search(done.stdout)
    if found is None:
        raise LoadError((done.stderr or done.stdout).strip().splitlines()[-1])
    requests, microseconds, p99, size, errors = map(int, found.groups())
    if errors or not requests:
        raise LoadError(f"{errors} of {requests} requests failed")
    return Sample(requests / (microseconds / 1e6), p99 / 1e6, requests, size / requests)


def _write_senders(folder: str, senders: Sequence[Headers]) -> Path:
    """Write the headers of each sender as a line of a file."""
    file = Path(folder, "senders")
    lines = ["\t".join(f"{name}\t{value}" for name, value in each.items()) for each in senders]
    file.write_text("\n".join(lines or [""]) + "\n")
    return file


def _script(senders: Path, legacy: bool, once: bool, check: bool) -> str:
    """Make the script that tells wrk what to send, and how to check answers."""
    params = _CALL if legacy else {**_CALL, "_meta": META}
    rest = json.dumps({"method": "tools/call", "params": params}, separators=(",", ":"))
    headers = _LEGACY_HEADERS if legacy else MODERN_HEADERS
    text = _SCRIPT % {
        "senders": senders,
        "once": str(once).lower(),
        "connections": CONNECTIONS,
        "headers": ",".join(f'["{name}"]="{value}"' for name, value in headers.items()),
        "first": _CHECKED_FROM if check else _MEASURED_FROM,
        "rest": "," + rest[1:],
    }
    return text + _CHECK if check else text


def new_sessions(port: int, senders: Iterable[Headers]) -> list[Headers]:
    """Begin a session for each sender; return the headers that go with it."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1.0"},
    }
    hello: dict[str, object] = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
    headers = {name: _LEGACY_HEADERS[name] for name in ("Content-Type", "Accept")}
    body = json.dumps({**hello, "params": params})
    found: list[Headers] = []
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        for sender in senders:
            connection.request("POST", "/mcp", body, {**headers, **sender})
            response = connection.getresponse()
            response.read()
            session = response.getheader("mcp-session-id")
            if session is None:
                raise LoadError("initialize gave no session")
            found.append({**sender, "Mcp-Session-Id": session})
    return found


def call(port: int, name: str) -> Any:
    """Call a tool once, in a modern request; return its result."""
    params = {"name": name, "arguments": {}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        headers = headers_of("tools/call", name)
        connection.request("POST", "/mcp", json.dumps(message), headers)
        return json.loads(connection.getresponse().read())["result"]
