"""The load over HTTP: `wrk` calls the echo tool of a server that is started for it.

`wrk` is in Debian's package of that name. It keeps some connections open, each of which has one
request at a time.
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
from typing import Any

from attrs import frozen

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

_SCRIPT = """
local senders = {}
for line in io.lines("%(senders)s") do
  local sender = {}
  for name, value in line:gmatch("([^\t]+)\t([^\t]+)") do
    sender[name] = value
  end
  senders[#senders + 1] = sender
end
local headers = {%(headers)s}
local number = 0
request = function()
  number = number + 1
  if %(once)s and number + %(connections)d >= #senders then
    wrk.thread:stop()
  end
  if #senders > 0 then
    for name, value in pairs(senders[number %% #senders + 1]) do
      headers[name] = value
    end
  end
  return wrk.format("POST", "/mcp", headers, '%(before)s' .. number .. '%(after)s')
end
done = function(summary, latency, requests)
  io.write(string.format("RESULT %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    latency:percentile(99.0), summary.errors.status + summary.errors.read
    + summary.errors.connect + summary.errors.write + summary.errors.timeout))
end
"""
_RESULT = re.compile(r"RESULT (\d+) (\d+) (\d+) (\d+)")


@frozen
class Sample:
    """One run of load."""

    rate: float
    p99: float
    """Seconds."""
    count: int = 0
    """How many requests there were."""


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


def load(
    port: int,
    seconds: float,
    senders: Sequence[Headers],
    *,
    legacy: bool = False,
    once: bool = False,
) -> Sample:
    """Call a server's echo tool for so long, and measure.

    Args:
        port: Where it listens.
        seconds: For how long; one at least.
        senders: What the headers of requests have beside those of all, in turn.
        legacy: Whether requests are of revision 2025-11-25, which has sessions.
        once: Whether each of the senders is good for one request.

    Raises:
        LoadError: It answered wrongly.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for sender in senders:
            file.write("\t".join(f"{name}\t{value}" for name, value in sender.items()) + "\n")
        file.flush()
        return _run_wrk(port, seconds, file.name, legacy=legacy, once=once)


def _run_wrk(port: int, seconds: float, senders: str, *, legacy: bool, once: bool) -> Sample:
    params = _CALL if legacy else {**_CALL, "_meta": META}
    rest = json.dumps({"method": "tools/call", "params": params}, separators=(",", ":"))
    headers = _LEGACY_HEADERS if legacy else MODERN_HEADERS
    script = _SCRIPT % {
        "senders": senders,
        "once": str(once).lower(),
        "connections": CONNECTIONS,
        "headers": ",".join(f'["{name}"]="{value}"' for name, value in headers.items()),
        "before": '{"jsonrpc":"2.0","id":',
        "after": "," + rest[1:],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [
                "wrk",
                "-t1",
                f"-c{CONNECTIONS}",
                f"-d{max(1, round(seconds))}",
                "-s",
                file.name,
                f"http://127.0.0.1:{port}/mcp",
            ],
            capture_output=True,
            text=True,
            timeout=seconds + 30,
            check=False,
        )
    found = _RESULT.search(done.stdout)
    if found is None:
        raise LoadError((done.stderr or done.stdout).strip().splitlines()[-1])
    requests, microseconds, p99, errors = map(int, found.groups())
    if errors or not requests:
        raise LoadError(f"{errors} of {requests} requests failed")
    return Sample(requests / (microseconds / 1e6), p99 / 1e6, requests)


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
