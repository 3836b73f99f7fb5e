"""What logins cost: `python -m benchmarks.logins`.

People log in by our OAuth proxy, call a tool, and a thousand clients renew their tokens at once.
The provider is in the server's process and answers at once; its token is good for a minute, so that
each renewal of a client's is one at the provider as well. A call is compared with one to a server
that nothing protects, by the least processor time that each takes for as many calls, in turn.
"""

import html
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import trio
from attrs import define, field

from benchmarks.peers import Peer, python_server
from benchmarks.records import recording, show
from benchmarks.wrk import META, headers_of, serving

CLIENTS = 1000
ROUNDS = 9
CALLS = 2000
"""Of each server, in a round."""
_CALLBACK = "https://app.example.com/callback"
_VERIFIER = "v" * 43
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@define
class Server:
    """A server, over one connection that is kept."""

    port: int
    pid: int
    token: str = ""
    _connection: HTTPConnection = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=30)

    def send(
        self, method: str, path: str, body: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[HTTPResponse, bytes]:
        """Send a request."""
        self._connection.request(method, path, body or None, dict(headers or {}))
        response = self._connection.getresponse()
        return response, response.read()

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool; return its result."""
        params = {"name": tool, "arguments": arguments, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {**headers_of("tools/call", tool), "Authorization": f"Bearer {self.token}"}
        _, body = self.send("POST", "/mcp", json.dumps(message), headers)
        return json.loads(body)["result"]

    def counted(self) -> dict[str, int]:
        """Count the operations of its store, and the requests to its provider."""
        found: dict[str, int] = self.call("counted")["structuredContent"]
        return found

    def register(self) -> str:
        """Register a client; return its id."""
        about = {"redirect_uris": [_CALLBACK], "token_endpoint_auth_method": "none"}
        _, body = self.send("POST", "/register", json.dumps(about))
        return str(json.loads(body)["client_id"])

    def log_in(self, client: str) -> dict[str, Any]:
        """Log a person in, who says yes; return the tokens."""
        digest = sha256(_VERIFIER.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": _CALLBACK,
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        page, text = self.send("GET", f"/authorize?{urlencode(asked)}")
        ticket = re.search(r'name="ticket" value="([^"]+)"', text.decode())
        assert ticket is not None
        cookie = {"Cookie": page.headers["Set-Cookie"].partition(";")[0]}
        form = urlencode({"ticket": html.unescape(ticket[1]), "answer": "allow"})
        onward, _ = self.send("POST", "/consent", form, {**_FORM, **cookie})
        state = parse_qs(urlsplit(onward.headers["Location"]).query)["state"][0]
        back = urlencode({"code": "someone", "state": state})
        sent_back, _ = self.send("GET", f"/auth/callback?{back}", headers=cookie)
        code = parse_qs(urlsplit(sent_back.headers["Location"]).query)["code"][0]
        grant = {"grant_type": "authorization_code", "code": code, "code_verifier": _VERIFIER}
        _, body = self.send("POST", "/token", urlencode({**grant, "client_id": client}), _FORM)
        tokens: dict[str, Any] = json.loads(body)
        return tokens


def processor_time(server: Server) -> float:
    """Make calls; return the seconds of processor time that the server has taken for them."""
    before = _on_processor(server.pid)
    for _ in range(CALLS):
        server.call("echo", text="hello")
    return _on_processor(server.pid) - before


def _on_processor(pid: int) -> float:
    # What `stat` has is in hundredths of a second.
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


async def renew_all(port: int, client: str, tokens: list[str]) -> list[float]:
    """Send all refresh tokens at once, over a connection each; return how long each took."""
    seconds: list[float] = []
    start = trio.Event()
    ready = trio.Semaphore(0)

    async def renew(token: str) -> None:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client}
        body = urlencode(form).encode()
        head = (
            f"POST /token HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            f"Content-Type: {_FORM['Content-Type']}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            ready.release()
            await start.wait()
            began = monotonic()
            await stream.send_all(head.encode() + body)
            answer = b"".join([piece async for piece in stream])
            assert answer.startswith(b"HTTP/1.1 200"), answer
            seconds.append(monotonic() - began)

    async with trio.open_nursery() as nursery:
        for token in tokens:
            nursery.start_soon(renew, token)
        for _ in tokens:
            await ready.acquire()
        start.set()
    return sorted(seconds)


def measure() -> list[list[str]]:
    """Measure all of it; return the rows of the table."""
    commands = python_server("http_logins.py"), python_server("http_trio_mcp.py")
    with serving(Peer("logins", commands[0])) as ours, serving(Peer("open", commands[1])) as other:
        server, unprotected = Server(*ours), Server(*other)
        client = server.register()
        server.token = server.log_in(client)["access_token"]
        rounds = [(processor_time(unprotected), processor_time(server)) for _ in range(ROUNDS)]
        plain, verified = (min(times) for times in zip(*rounds, strict=True))
        before, began = server.counted(), monotonic()
        tokens = [server.log_in(client)["refresh_token"] for _ in range(CLIENTS)]
        took, after = monotonic() - began, server.counted()
        seconds = trio.run(renew_all, server.port, client, tokens)
        renewed = server.counted()
    operations = (after["store"] - before["store"]) / CLIENTS
    renewals = {name: (renewed[name] - after[name]) / CLIENTS for name in ("store", "provider")}
    return [
        [
            "processor time of a call without a token, to that of one with",
            f"{plain / verified:.2f}",
        ],
        ["operations of the store for a login", f"{operations:.1f}"],
        ["milliseconds for a login, without the provider and the person", f"{took:.1f}"],
        [f"seconds until {CLIENTS:,} renewals at once are answered", f"{seconds[-1]:.1f}"],
        ["the median of them, in seconds", f"{median(seconds):.1f}"],
        ["operations of the store for a renewal", f"{renewals['store']:.1f}"],
        ["requests to the provider for a renewal", f"{renewals['provider']:.1f}"],
    ]


def main() -> None:
    options = recording("logins", __doc__)
    show(["What", "Figure"], measure(), options.record)


if __name__ == "__main__":
    main()
