"""Who may use the app: host, origin, token and rate; and what a message has to look like."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.asgi_server_support import serving
from tests.transports.http.support import (
    ACCEPT,
    Host,
    LegacyClient,
    ModernClient,
    Response,
    each_manner,
    hosting,
    modern,
)
from trio_mcp import Context, HttpPolicy, Limits, Registry, SessionOptions, http_app, serve_http
from trio_mcp.auth import Authorization

HOSTS = [
    "localhost",
    "localhost:8000",
    "LocalHost:65535",
    "localhost:",
    "127.0.0.1",
    "127.0.0.1:80",
    "[::1]",
    "[::1]:8000",
]
OTHER_HOSTS: list[str | bytes | None] = [
    None,
    "",
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "evil.localhost",
    "localhost.",
    "127.0.0.1.evil.example",
    "127.0.0.2",
    "127.1",
    "2130706433",
    "0x7f000001",
    "::1",
    "[::1",
    "[::2]",
    "[::1].evil.example",
    "[::1]evil",
    "[::1]:x",
    "[::1%25lo]",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "evil.example@localhost",
    "localhost#evil.example",
    "localhost/evil",
    "localhost\\evil",
    "localhost evil.example",
    "localhost, evil.example",
    "localhost:80:80",
    "localhost:x",
    ":80",
    "löcalhost".encode(),
    b"localhost\x00",
]
ORIGINS = [
    "http://localhost",
    "https://localhost",
    "HTTP://LOCALHOST:3000",
    "http://127.0.0.1:5173",
    "http://[::1]:5173",
]
OTHER_ORIGINS: list[str | bytes] = [
    "",
    "null",
    "http://evil.example",
    "https://localhost.evil.example",
    "http://evil.example:80/localhost",
    "http://localhost@evil.example",
    "http://localhost:80@evil.example",
    "http://evil.example#@localhost",
    "http://localhost/",
    "http://localhost?x",
    "http://[::1].evil.example",
    "http://[::1",
    "http://",
    "http:localhost",
    "http:///localhost",
    "//localhost",
    "localhost",
    "file://localhost",
    "ftp://localhost",
    "vscode-webview://localhost",
    "javascript://localhost",
    "http://localhost, http://evil.example",
    "http://localhost http://evil.example",
    "http://localhost:x",
    "http://löcalhost".encode(),
    "*",
]


async def status_with(served: Host, /, **headers: Any) -> int:
    """The status of a request with these headers."""
    response = await ModernClient(served).begin("tools/list", None, **headers).end()
    return response.status


# -- host and origin ------------------------------------------------------------------------------


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("name", HOSTS)
async def test_this_machine_is_served_under_its_own_names(name: str) -> None:
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, host=name) == 200


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("name", OTHER_HOSTS)
async def test_no_other_name_is_served(name: str | None) -> None:
    """A page can make any name of its author's resolve to this machine."""
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, host=name) == 403
        for origin in ("http://localhost", "http://evil.example"):
            assert await status_with(host, host=name, origin=origin) == 403


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("origin", ORIGINS)
async def test_pages_of_this_machine_are_served(origin: str) -> None:
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, origin=origin) == 200


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("origin", OTHER_ORIGINS)
async def test_no_other_pages_are_served(origin: Any) -> None:
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, origin=origin) == 403


@pytest.mark.requirement("F4")
async def test_what_is_allowed_can_be_said() -> None:
    policy = HttpPolicy(
        allowed_hosts=["MCP.example.com", "[2001:db8::1]"],
        allowed_origins=["https://App.example.com", "https://b.example:8443/", "app://x"],
    )
    async with hosting(registry_of(echo), policy) as host:
        for name in ("mcp.example.com", "mcp.EXAMPLE.com:443", "[2001:DB8::1]:80"):
            assert await status_with(host, host=name) == 200
        for name in ("localhost", "127.0.0.1", "app.example.com"):
            assert await status_with(host, host=name) == 403
        ours: dict[str, Any] = {"host": "mcp.example.com"}
        for origin in (
            "https://app.example.com",
            "HTTPS://APP.EXAMPLE.COM",
            "https://b.example:8443",
            "app://x",
            "https://mcp.example.com",
        ):
            assert await status_with(host, **ours, origin=origin) == 200, origin
        for origin in (
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://b.example",
            "app://y",
            "https://localhost",
            "null",
        ):
            assert await status_with(host, **ours, origin=origin) == 403, origin


@pytest.mark.requirement("F4")
async def test_any_host_does_not_mean_any_page() -> None:
    async with hosting(registry_of(echo), HttpPolicy(allowed_hosts=["*"])) as host:
        assert await status_with(host, host="whatever.example") == 200
        assert await status_with(host, host=None) == 200
        headers = {"host": "whatever.example", "origin": "http://evil.example"}
        assert await status_with(host, **headers) == 403
    policy = HttpPolicy(allowed_hosts=["*"], allowed_origins=["*"])
    async with hosting(registry_of(echo), policy) as host:
        assert await status_with(host, **headers) == 200
        assert await status_with(host, **{**headers, "origin": "null"}) == 200


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/mcp"), ("DELETE", "/mcp"), ("PUT", "/mcp"), ("GET", "/tools"), ("GET", "/metrics")],
)
async def test_every_way_in_is_guarded(method: str, path: str) -> None:
    policy = HttpPolicy(tokens={"secret": "alice"})
    async with hosting(registry_of(echo), policy) as host:
        for headers, status in (
            ({"host": "evil.example", "authorization": "Bearer secret"}, 403),
            ({"origin": "http://evil.example", "authorization": "Bearer secret"}, 403),
            ({}, 401),
        ):
            response = await host.ask(method, path, headers=headers)
            assert response.status == status
            assert response.error["code"] == -32600


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_hosts": "example.com"},
        {"allowed_hosts": ["example.com:80"]},
        {"allowed_hosts": ["https://example.com"]},
        {"allowed_hosts": ["::1"]},
        {"allowed_hosts": [""]},
        {"allowed_origins": "https://example.com"},
        {"allowed_origins": ["example.com"]},
        {"allowed_origins": ["https://example.com/path"]},
        {"rate": 0},
        {"rate": -1.0},
        {"rate": float("inf")},
        {"guess_rate": 0},
        {"burst": 0},
        {"burst": float("inf")},
        {"realm": "a\r\nb"},
        {"max_concurrent": 0},
        {"keep_alive": 0},
        {"tokens": {"secret": "alice"}, "verify": print},
        *({name: True} for name in ("allowed_hosts", "allowed_origins", "trusted_proxies")),
        {"allowed_hosts": [5]},
        {"trusted_proxies": [5]},
        {"tokens": {"secret": ""}},
        {"tokens": {"secret": 5}},
    ],
)
def test_policies_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))) as refused:
        HttpPolicy(**options)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_sessions": 0},
        {"max_events": 0},
        {"session_idle": 0},
        {"retry": -1},
        {"max_event_bytes": 1000, "event_store": dict},
        {"max_sessions": 10, "stateless": True},
        {"event_store": dict, "stateless": True},
    ],
)
def test_options_of_sessions_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        SessionOptions(**options)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((HttpPolicy, name) for name in ("tokens", "verify", "auth", "realm")),
        *((SessionOptions, name) for name in ("stateless", "event_store")),
    ],
)
def test_options_of_another_type_are_refused_by_their_names(kind: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        kind(**{name: 3.5})


def test_an_option_in_the_wrong_place_is_refused_by_the_right_one() -> None:
    with pytest.raises(TypeError) as refused:
        HttpPolicy(max_sessions=10)  # type: ignore[call-arg]
    assert str(refused.value) == (
        "HttpPolicy has no option 'max_sessions': give sessions=SessionOptions(max_sessions=...)"
    )
    with pytest.raises(TypeError) as refused:
        SessionOptions(rate=1.0)  # type: ignore[call-arg]
    assert str(refused.value) == (
        "SessionOptions has no option 'rate': give policy=HttpPolicy(rate=...)"
    )


@pytest.mark.parametrize("serve", [http_app, serve_http])
async def test_options_are_not_taken_for_others(serve: Any) -> None:
    registry = Registry("test")
    with pytest.raises(TypeError, match=r"^sessions must be SessionOptions, not HttpPolicy$"):
        await serve(registry, sessions=HttpPolicy())
    with pytest.raises(TypeError, match=r"^policy must be HttpPolicy, not SessionOptions$"):
        await serve(registry, policy=SessionOptions())


@pytest.mark.parametrize("serve", [http_app, serve_http])
async def test_what_is_no_store_is_refused_before_anything_is_opened(serve: Any) -> None:
    with pytest.raises(TypeError, match="store must be a URL, a path or an open store, not bool"):
        await serve(Registry("test"), store=True)


# -- tokens ---------------------------------------------------------------------------------------

TOKENS = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"}, realm="the shop")


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "value", ["Bearer a-token", "bearer a-token", "BEARER b-token", "Bearer   a-token"]
)
async def test_a_token_lets_in(value: str) -> None:
    async with hosting(registry_of(echo), TOKENS) as host:
        assert await status_with(host, authorization=value) == 200


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer ", "Basic a-token", "a-token"])
async def test_without_a_token(value: str | None) -> None:
    async with hosting(registry_of(echo), TOKENS) as host:
        response = await ModernClient(host).begin("tools/list", authorization=value).end()
        assert response.status == 401
        assert response.headers["www-authenticate"] == 'Bearer realm="the shop"'


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "token",
    ["a-toke", "a-tokens", "A-TOKEN", "alice", "a-token, a-token", "a-token b-token", b"\xff\xfe"],
)
async def test_with_a_wrong_token(token: str | bytes) -> None:
    raw = token if isinstance(token, bytes) else token.encode()
    async with hosting(registry_of(echo), TOKENS) as host:
        response = (
            await ModernClient(host).begin("tools/list", authorization=b"Bearer " + raw).end()
        )
        assert response.status == 401
        assert 'error="invalid_token"' in response.headers["www-authenticate"]
        assert raw not in response.body
        assert b"a-token" not in response.body


@pytest.mark.requirement("F4")
async def test_a_verifier_says_whose_a_token_is() -> None:
    asked: list[str] = []

    async def verify(token: str) -> str | None:
        asked.append(token)
        await trio.lowlevel.checkpoint()
        return {"good": "alice"}.get(token)

    policy = HttpPolicy(verify=verify)
    async with hosting(registry_of(echo), policy) as host:
        assert await status_with(host, authorization="Bearer good") == 200
        assert await status_with(host, authorization="Bearer bad") == 401
        assert await status_with(host) == 401
        assert asked == ["good", "bad"], "it is asked about tokens only"


@pytest.mark.requirement("J3")
async def test_what_a_token_has_opened_ends_with_it_whoever_says_so(autojump_clock: Any) -> None:
    async def verify(token: str) -> Authorization:
        return Authorization(subject="alice", expires_at=time.time() + float(token))

    async with hosting(registry_of(echo), HttpPolicy(verify=verify)) as host:
        assert await status_with(host, authorization="Bearer -1") == 401
        client = LegacyClient(host, headers={"authorization": "Bearer 1000"})
        await client.initialize()
        stream = client.get()
        await stream.started()
        before = trio.current_time()
        await stream.end()
        assert 990 < trio.current_time() - before <= 1000


@pytest.mark.requirement("F4")
async def test_a_verifier_that_fails_lets_nobody_in() -> None:
    async def verify(token: str) -> str | None:
        raise RuntimeError("the secret database is down")

    async with hosting(registry_of(echo), HttpPolicy(verify=verify)) as host:
        host.failures = []
        response = await ModernClient(host).begin("tools/list", authorization="Bearer x").end()
        assert response.status == 500
        assert b"secret" not in response.body


@pytest.mark.requirement("F4")
async def test_a_verifier_for_asyncio_is_told_where_it_runs() -> None:
    async def verify(token: str) -> str | None:
        await asyncio.sleep(0)
        return "alice"

    async with hosting(registry_of(echo), HttpPolicy(verify=verify)) as host:
        host.failures = failures = []
        assert await status_with(host, authorization="Bearer x") == 500
    [failure] = failures
    assert "by @trio_mcp.aio.on_asyncio" in "".join(traceback.format_exception(failure))


@pytest.mark.requirement("F3")
@each_manner
async def test_a_client_that_leaves_before_it_is_refused(manner: str) -> None:
    asked = trio.Event()
    go_on = trio.Event()

    async def verify(token: str) -> str | None:
        asked.set()
        await go_on.wait()
        return None

    policy = HttpPolicy(verify=verify)
    async with hosting(registry_of(echo), policy, manner=manner) as host:
        response = ModernClient(host).begin("tools/list", authorization="Bearer x")
        await asked.wait()
        response.disconnect()
        go_on.set()
        await response.end()
        assert response.status == 0


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
async def test_a_handler_learns_whose_the_token_is(kind: Any) -> None:
    async def who(context: Context) -> str:
        return repr(context.principal)

    async with hosting(registry_of(who), TOKENS) as host:
        for token, owner in (("a-token", "alice"), ("b-token", "bob")):
            client = kind(host, headers={"authorization": f"Bearer {token}"})
            if kind is LegacyClient:
                await client.initialize()
            assert text_of(await client.call("who")) == repr(owner)
    async with modern(registry_of(who)) as client:
        assert text_of(await client.call("who")) == "None"


def test_tokens_are_not_shown() -> None:
    assert "a-token" not in repr(TOKENS)


# -- rate -----------------------------------------------------------------------------------------


def from_address(host: Host, address: str, port: int = 5000) -> ModernClient:
    client = ModernClient(host)
    client.address = (address, port)
    return client


async def rated(client: ModernClient) -> Response:
    return await client.begin("tools/list").end()


@pytest.mark.requirement("F2")
async def test_a_client_that_asks_too_often(autojump_clock: Any) -> None:
    policy = HttpPolicy(rate=0.5, burst=3)
    async with hosting(registry_of(echo), policy) as host:
        client = from_address(host, "10.0.0.1")
        assert [(await rated(client)).status for _ in range(5)] == [200, 200, 200, 429, 429]
        refused = await rated(from_address(host, "10.0.0.1", 6000))
        assert refused.status == 429, "its other connections count as well"
        assert refused.headers["retry-after"] == "2"
        assert refused.error["code"] == -32600
        assert (await rated(from_address(host, "10.0.0.2"))).status == 200
        await trio.sleep(1)
        assert (await rated(client)).headers["retry-after"] == "1"
        await trio.sleep(1)
        assert (await rated(client)).status == 200
        await trio.sleep(1000)
        assert [(await rated(client)).status for _ in range(4)] == [200, 200, 200, 429]


@pytest.mark.requirement("F2")
async def test_requests_of_every_kind_count() -> None:
    async with hosting(registry_of(echo), HttpPolicy(rate=0.001, burst=4)) as host:
        client = LegacyClient(host)
        await client.initialize()
        assert await client.delete() < 300
        assert (await host.ask("GET", "/tools")).status == 200
        assert (await host.ask("GET", "/tools")).status == 429
        assert (await client.get().end()).status == 429
        assert (await host.ask("GET", "/health")).status == 200


@pytest.mark.requirement("F2")
async def test_with_tokens_it_is_their_owners_rate() -> None:
    policy = HttpPolicy(tokens={"a": "alice", "a2": "alice", "b": "bob"}, rate=0.001, burst=2)
    async with hosting(registry_of(echo), policy) as host:
        statuses = []
        for number, token in enumerate(("a", "a2", "a", "b", "b", "b")):
            client = from_address(host, f"10.0.0.{number}")
            client.headers["authorization"] = f"Bearer {token}"
            statuses.append((await rated(client)).status)
        assert statuses == [200, 200, 429, 200, 200, 429]


@pytest.mark.requirement("F2", "F4")
async def test_guessing_tokens_is_limited(autojump_clock: Any) -> None:
    asked: list[str] = []

    async def verify(token: str) -> str | None:
        asked.append(token)
        await trio.sleep(1)
        return "alice" if token == "right" else None

    policy = HttpPolicy(verify=verify, rate=0.01, burst=5)
    async with hosting(registry_of(echo), policy) as host:

        async def status_of(token: str, address: str = "2001:db8::1") -> int:
            client = from_address(host, address)
            client.headers["authorization"] = f"Bearer {token}"
            return (await rated(client)).status

        async def guess(number: int) -> None:
            statuses.append(await status_of(f"wrong{number}", f"2001:db8::{number}"))

        statuses: list[int] = []
        async with trio.open_nursery() as nursery:  # also where they come all at once
            for number in range(1, 100):
                nursery.start_soon(guess, number)
        assert sorted(statuses) == [401] * 5 + [429] * 94
        assert len(asked) == 5
        assert await status_of("right") == 429, "it is one of the guesses for all that we know"
        assert len(asked) == 5
        assert await status_of("right", "2001:db8:0:1::1") == 200
        await trio.sleep(100)
        assert [await status_of("right") for _ in range(5)] == [200] * 5, "these cost alice's rate"
        assert await status_of("right") == 429
        assert await status_of("right", "192.0.2.1") == 429


@pytest.mark.requirement("F4")
async def test_the_log_says_what_was_wrong_and_no_token(caplog: pytest.LogCaptureFixture) -> None:
    policy = HttpPolicy(tokens={"right-secret": "alice"}, guess_rate=0.001, burst=1)
    with caplog.at_level("INFO"):
        async with hosting(registry_of(echo), policy) as host:
            wrong = {"authorization": "Bearer wrong-secret"}
            for headers in ({}, wrong, wrong, {"host": "evil.example"}):
                await status_with(host, **headers)
    said = [each.getMessage() for each in caplog.records if "not let in" in each.getMessage()]
    assert [each.partition(": ")[2] for each in said] == [
        "A bearer token is needed.",
        "The bearer token is not valid.",
        "Too many requests; wait a little.",
        "This server is not meant to be reached by that Host name.",
    ]
    assert "secret" not in caplog.text


@pytest.mark.requirement("S3")
async def test_the_log_says_once_what_would_let_a_host_or_an_origin_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosting(registry_of(echo)) as host:
        for _ in range(3):
            await status_with(host, host="MCP.example.com:8000")
            await status_with(host, origin="https://app.example.com")
        await status_with(host, host="mcp.example.com:9000")
        assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
            "A request is refused, as its Host is 'mcp.example.com'. If this server may be called "
            "that, add it to HttpPolicy(allowed_hosts=...); for trio-mcp serve, it is "
            "--allow-host mcp.example.com",
            "A request is refused, as its Origin is 'https://app.example.com'. If pages from there "
            "may use this server, add it to HttpPolicy(allowed_origins=...); for trio-mcp serve, "
            "it is --allow-origin https://app.example.com",
        ]
        for number in range(100):  # anybody can make them up
            await status_with(host, host=f"{number}.example.com")
        await status_with(host, origin="https://" + "x" * 1000)
        assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 20


@pytest.mark.requirement("F2", "F4")
async def test_guessing_is_limited_where_nothing_else_is(autojump_clock: Any) -> None:
    async def verify(token: str) -> str | None:
        await trio.sleep(1)
        return "alice" if token == "right" else None

    policy = HttpPolicy(verify=verify, guess_rate=1, burst=5)
    async with hosting(registry_of(echo), policy) as host:

        async def send(token: str, statuses: list[int], address: str = "10.0.0.1") -> None:
            client = from_address(host, address)
            if token:
                client.headers["authorization"] = f"Bearer {token}"
            statuses.append((await rated(client)).status)

        async def statuses_of(*tokens: str, address: str = "10.0.0.1") -> list[int]:
            statuses: list[int] = []
            async with trio.open_nursery() as nursery:
                for each in tokens:
                    nursery.start_soon(send, each, statuses, address)
            return sorted(statuses)

        assert await statuses_of(*["right"] * 50) == [200] * 50, "these are not guesses"
        assert await statuses_of(*["wrong"] * 50) == [401] * 50
        assert await statuses_of("right", "wrong") == [429, 429]
        assert await statuses_of("", "") == [401, 401]
        assert await statuses_of("right", "wrong", address="10.0.0.2") == [200, 401]
        await trio.sleep(4)
        assert await statuses_of("right") == [429], "what came at once is owed"
        await trio.sleep(2)
        assert await statuses_of("right") == [200]

    policy = HttpPolicy(verify=verify, guess_rate=None, burst=5)
    async with hosting(registry_of(echo), policy) as host:
        assert await statuses_of(*["wrong"] * 50) == [401] * 50
        assert await statuses_of("right") == [200]


@pytest.mark.requirement("F2")
async def test_many_addresses_do_not_bring_a_principal_s_rate_back() -> None:
    policy = HttpPolicy(tokens={"a": "alice"}, rate=0.001, burst=1, max_clients=3)
    async with hosting(registry_of(echo), policy) as host:
        statuses = []
        for number, token in enumerate(("a", "x", "x", "x", "x", "a")):
            client = from_address(host, f"10.0.0.{number}")
            client.headers["authorization"] = f"Bearer {token}"
            statuses.append((await rated(client)).status)
        assert statuses == [200, 401, 401, 401, 401, 429]


@pytest.mark.requirement("F2")
async def test_clients_that_are_remembered_are_bounded() -> None:
    """The last ones seen; one that comes back after many others begins anew."""
    policy = HttpPolicy(rate=0.001, burst=1, max_clients=3)
    async with hosting(registry_of(echo), policy) as host:
        seen = [1, 2, 3, 1, 4, 2, 1, 4, 3]
        statuses = [(await rated(from_address(host, f"10.0.0.{n}"))).status for n in seen]
        # Four came when 2 was the one not seen for longest, then 2 when it was 3; and so on.
        assert statuses == [200, 200, 200, 429, 200, 200, 429, 429, 200]


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("rate", [0.001, 1e-310])
async def test_clients_without_an_address_share_one_rate(rate: float) -> None:
    """As on a Unix socket."""
    async with hosting(registry_of(echo), HttpPolicy(rate=rate, burst=1)) as host:
        client = ModernClient(host)
        client.address = None
        assert [(await rated(client)).status for _ in range(2)] == [200, 429]


# -- what a message has to look like --------------------------------------------------------------

JSON_TYPES = ["application/json", "Application/JSON", "application/json; charset=utf-8"]
OTHER_TYPES: list[str | None] = [
    None,
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=application/json",
    "application/jsonp",
    "application/json-rpc",
    "text/plain; application/json",
    "text/plain, application/json",
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("kind", JSON_TYPES)
async def test_messages_are_json(kind: str) -> None:
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, **{"content-type": kind}) == 200


@pytest.mark.requirement("F1", "F4")
@pytest.mark.parametrize("kind", OTHER_TYPES)
async def test_nothing_else_is_taken_for_json(kind: str | None) -> None:
    """Not least since pages may send other types anywhere without asking."""
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, **{"content-type": kind}) == 415


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (ACCEPT, 200),
        ("text/event-stream,application/json", 200),
        ("application/json;q=0.9, TEXT/EVENT-STREAM ; q=0.5", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("text/html, */*;q=0.1", 200),
        (None, 200),
        ("", 406),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("application/jsonx, text/event-streams", 406),
    ],
)
async def test_clients_accept_both_kinds_of_answers(accept: str | None, status: int) -> None:
    async with hosting(registry_of(echo)) as host:
        assert await status_with(host, accept=accept) == status


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "post", "BREW"])
async def test_other_methods(method: str) -> None:
    async with hosting(registry_of(echo)) as host:
        response = await host.ask(method, headers={"accept": "*/*"})
        assert response.status == 405
        assert response.headers["allow"] == "GET, POST, DELETE"


@pytest.mark.requirement("F2")
async def test_a_body_that_is_too_long() -> None:
    """Said beforehand, or found out while it comes: it is not read to its end."""
    limits = Limits(max_message_bytes=1000)
    async with modern(registry_of(echo), limits=limits) as client:
        request = client.request_of("tools/list")
        headers = client.headers_for(request)
        for length in ("1001", "9" * 18, "9" * 5000):
            response = client.post_bytes(None, {**headers, "content-length": length})
            assert (await response.end()).status == 413
        response = client.post_bytes(b"x" * 1001, headers)
        assert (await response.end()).status == 413
        response = client.post_bytes(None, headers)
        for _ in range(3):
            await wait_all_tasks_blocked()
            assert not response.ended.is_set()
            response.upload(b" " * 333, more=True)
        await wait_all_tasks_blocked()
        response.upload(b"  ", more=True)
        assert (await response.end()).status == 413
        assert "1000 bytes" in response.error["message"]


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(("size", "status"), [(1000, 400), (1001, 413)])
async def test_a_body_that_a_server_takes_may_be_too_long_for_the_app(
    size: int, status: int
) -> None:
    app = http_app(registry_of(echo), limits=Limits(max_message_bytes=1000))
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    )
    async with app.running(), serving(app) as server:
        assert (await server.ask(head.encode() + b" " * size)).status == status


@pytest.mark.requirement("F2")
async def test_a_body_that_is_just_short_enough() -> None:
    limits = Limits(max_message_bytes=1000)
    async with modern(registry_of(echo), limits=limits) as client:
        request = client.request_of("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        headers = client.headers_for(request)
        body = json.dumps(request).encode().ljust(1000)
        response = await client.post_bytes(body, {**headers, "content-length": "1000"}).end()
        assert text_of(await response.answer()) == "x"
        response = client.post_bytes(None, headers)
        for place in range(0, 1000, 10):
            response.upload(body[place : place + 10], more=place < 990)
        assert text_of(await response.answer()) == "x"


@pytest.mark.requirement("F2", "F4")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"authorization": "Bearer wrong"}, 401),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "text/html"}, 406),
        ({"content-length": "99999999999"}, 413),
    ],
)
async def test_refusals_wait_for_no_body(headers: dict[str, str], status: int) -> None:
    policy = HttpPolicy(tokens={"right": "alice"})
    async with modern(registry_of(echo), policy) as client:
        own = client.headers_for(client.request_of("tools/list"))
        own["authorization"] = "Bearer right"
        response = client.post_bytes(None, {**own, **headers})
        assert (await response.end()).status == status


@pytest.mark.requirement("F4")
async def test_what_comes_first() -> None:
    """Whoever may not be here is told so before anything else, and costs no one else's rate."""
    policy = HttpPolicy(tokens={"right": "alice"}, rate=0.001, burst=2)
    async with hosting(registry_of(echo), policy) as host:
        everything = {
            "host": "evil.example",
            "origin": "http://evil.example",
            "authorization": "Bearer wrong",
            "content-type": "text/plain",
            "accept": "text/html",
            "mcp-protocol-version": "1",
        }
        statuses = []
        for name, good in (
            ("host", "localhost"),
            ("origin", "http://localhost"),
            ("authorization", "Bearer right"),
        ):
            statuses.append(await status_with(host, **everything))
            everything[name] = good
        statuses += [await status_with(host, **everything) for _ in range(3)]
        assert statuses == [403, 403, 401, 415, 415, 429]
