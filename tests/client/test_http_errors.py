"""What goes wrong over HTTP, in words, with types, within bounds, and without secrets."""

import gzip
import json
import logging
import socket
import ssl
from urllib.parse import unquote_plus

import httpx2
import pytest
import trio
import trustme

from tests.client.http_support import Incoming, Script, in_memory, serving
from trio_mcp import HttpOptions, Limits, connect
from trio_mcp.errors import (
    CannotReach,
    ClientError,
    ConnectionLost,
    HttpError,
    ProtocolError,
    RateLimited,
    RequestTooLarge,
    ResponseTooLarge,
    Unauthorized,
)
from trio_mcp.wire.errors import McpError

TOKEN = "s3cret-t0ken"
SECRET_OPTIONS = HttpOptions(
    headers={"Authorization": f"Bearer {TOKEN}", "X-Api-Key": TOKEN}, reconnect_delay=0.01
)


async def failure_of(url: str, http: HttpOptions | None = None, **options: object) -> ClientError:
    """The error that connecting ends with."""
    with pytest.raises(ClientError) as failure:
        async with connect(url, http=http, **options):
            raise AssertionError("connected")
    return failure.value


# -- nobody there ------------------------------------------------------------------------------


@pytest.mark.requirement("F13")
async def test_where_nobody_listens_the_error_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = await failure_of(f"http://user:{TOKEN}@127.0.0.1:{port}/mcp?key={TOKEN}")
    assert isinstance(error, CannotReach)
    assert str(error) == f"cannot reach http://127.0.0.1:{port}: Connection refused"


@pytest.mark.requirement("F13")
async def test_a_host_that_nobody_knows_is_said_to_be_so(monkeypatch) -> None:
    async def unknown(*args: object, **options: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unknown)
    error = await failure_of("http://nowhere.invalid/mcp")
    assert isinstance(error, CannotReach)
    assert str(error) == "cannot reach http://nowhere.invalid:80: Name or service not known"


@pytest.mark.requirement("F13")
async def test_a_certificate_that_is_not_trusted_is_said_to_be_so() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(server)
    async with serving(Script(), tls=server) as url:
        error = await failure_of(url, HttpOptions(verify=ssl.create_default_context()))
    assert isinstance(error, CannotReach)
    assert "its certificate is not trusted" in str(error)


@pytest.mark.requirement("F13")
async def test_plain_http_where_tls_is_wanted_is_said_to_be_so() -> None:
    async with serving(Script()) as url:
        error = await failure_of(url.replace("http:", "https:"), HttpOptions(verify=False))
    assert isinstance(error, CannotReach)
    assert "TLS" in str(error)


@pytest.mark.requirement("F13")
async def test_who_does_not_even_connect_is_given_up(autojump_clock) -> None:
    async def sleepy(*args: object, **options: object) -> object:
        await trio.sleep_forever()
        raise AssertionError

    async with in_memory(Script(), connect_timeout=3) as (url, http, network):
        network.script = Script()
        network.connect_tcp = sleepy
        error = await failure_of(url, http, connect_timeout=5)
    assert "5 s" in str(error) or "in time" in str(error)


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.requirement("F13")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("status", "headers", "kind", "words"),
    [
        (401, {"www_authenticate": 'Bearer realm="mcp"'}, Unauthorized, 'Bearer realm="mcp"'),
        (403, {}, Unauthorized, "403 Forbidden"),
        (407, {}, Unauthorized, "407"),
        (413, {}, RequestTooLarge, "413"),
        (429, {"retry_after": "17"}, RateLimited, "try again in 17 s"),
        (429, {"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, RateLimited, "after Wed, 21 Oct"),
        (429, {}, RateLimited, "429"),
        (500, {}, HttpError, "500 Internal Server Error"),
        (503, {}, HttpError, "503 Service Unavailable"),
        (599, {}, HttpError, "599"),
        (418, {}, HttpError, "418"),
    ],
)
async def test_a_status_becomes_an_error_with_words(era, status, headers, kind, words) -> None:
    script = Script(era)
    refuse = script.on["tools/call"] = lambda incoming: incoming.respond(status, **headers)
    async with serving(script) as url:
        async with connect(url) as client:
            with pytest.raises(HttpError) as failure:
                await client.call_tool("echo")
        if status != 418:  # of which a legacy server might think that it is an answer
            script.on["server/discover"] = refuse
            assert type(await failure_of(url)) is kind
    error = failure.value
    assert type(error) is kind
    assert error.status == status
    assert words in str(error)
    if isinstance(error, Unauthorized):
        assert error.www_authenticate == headers.get("www_authenticate")
    if isinstance(error, RateLimited):
        assert error.retry_after == (17.0 if "17" in headers.values() else None)
    assert len(script.asked("tools/call")) == 1


@pytest.mark.requirement("F13")
async def test_what_the_server_says_of_it_is_passed_on() -> None:
    script = Script()
    script.on["tools/call"] = lambda i: i.json({"error": "Too many\r\n requests"}, 429)
    script.on["prompts/get"] = lambda i: i.respond(500, b"<html>" + b"x" * 10**6)
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(RateLimited, match="Too many   requests"):
            await client.call_tool("echo")
        with pytest.raises(HttpError, match=r"500 Internal Server Error$"):
            await client.get_prompt("p")


@pytest.mark.requirement("F13")
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b'JSON RPC not handled: "no/such" unsupported\n', "text/plain; charset=utf-8", 'JSON RPC not handled: "no/such" unsupported'),
        (b"caf\xe9\n" + b"x" * 1000, "text/plain", "caf\ufffd xxx"),
        (b'{"detail": "Not Found"}', "application/json", "Not Found"),
        (b'"no"', "application/json", "no"),
        (b"<p>nginx</p>", "text/html", None),
        (b"", "text/plain", None),
    ],
)  # fmt: skip
async def test_a_refusal_says_what_the_server_says_and_of_which_path(body, kind, words) -> None:
    script = Script()
    script.on["tools/call"] = lambda i: i.respond(400, body, content_type=kind)
    async with serving(script, path="/a/mcp") as url, connect(url) as client:
        with pytest.raises(HttpError) as failure:
            await client.call_tool("echo")
    said = str(failure.value)
    assert "/a/mcp answered 400 Bad Request" in said
    assert said.endswith("Bad Request") if words is None else f"Bad Request: {words}" in said
    assert len(said) < 300


@pytest.mark.requirement("F13")
@pytest.mark.parametrize(
    ("status", "location", "words"),
    [
        (302, "/elsewhere?key=1", r"redirects \(302\) to /elsewhere, which is not followed"),
        (307, "http://evil.test:81/mcp?key=1", r"\(307\) to http://evil.test:81, where it is not"),
        (308, "https://127.0.0.1/mcp", r"\(308\) to https://127.0.0.1:443, where it is not"),
        (301, "//evil.test/mcp", r"\(301\) to http://evil.test:80, where it is not"),
        (307, "ftp://127.0.0.1/", r"\(307\) to no URL"),
        (307, "http://127.0.0.1:0/mcp", r"\(307\) to no URL"),
        (307, "/a\x7fb", r"\(307\) to no URL"),
        (308, f"/{'a' * 65536}", r"\(308\) to no URL"),
        (307, "/mcp", "endlessly"),
        (304, "", "which is not followed"),
    ],
)
async def test_redirects_elsewhere_are_errors(status, location, words) -> None:
    script = Script()
    script.on["/mcp"] = lambda incoming: incoming.respond(status, location=location)
    async with serving(script) as url:
        with pytest.raises(HttpError, match=words):
            async with connect(url, http=SECRET_OPTIONS):
                raise AssertionError("connected")


@pytest.mark.requirement("F13")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda i: i.respond(200, b"<html>", content_type="text/html"), "of type text/html"),
        (lambda i: i.respond(202), "status 202 and no body"),
        (lambda i: i.respond(204), "status 204 and no body"),
        (lambda i: i.respond(200, b"{", content_type="application/json"), "Parse error"),
        (lambda i: i.respond(200, b"[]", content_type="application/json"), "empty batch"),
        (lambda i: i.json([{}] * 1001), "a batch holds at most 1000 messages"),
        (lambda i: i.respond(200, b"", content_type="application/json"), "the server's answer"),
        (lambda i: i.json({"jsonrpc": "2.0", "id": "other", "result": {}}), "the server's answer"),
        (lambda i: i.json({"jsonrpc": "2.0", "id": i.message["id"]}), "method"),
        (lambda i: i.json(i.answer({}), content_encoding="gzip"), "compressed"),
        (
            lambda i: i.respond(
                200, gzip.compress(b"{}"), content_type="application/json", content_encoding="gzip"
            ),
            "compressed",
        ),
    ],
)
async def test_what_is_no_answer_is_an_error(answer, words) -> None:
    script = Script(on={"tools/call": answer})
    async with serving(script) as url, connect(url) as client:
        with pytest.raises((ProtocolError, Exception), match=words) as failure:
            await client.call_tool("echo")
        assert isinstance(failure.value, ClientError) or "cannot be read" in str(failure.value)
        assert list(client.tools) == ["echo"]
        script.on.clear()
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@pytest.mark.requirement("F13")
async def test_an_error_that_names_no_request_is_the_answer_if_there_is_no_other() -> None:
    error = {"code": -32700, "message": "cannot read that"}
    script = Script()
    script.on["tools/call"] = lambda i: i.json({"jsonrpc": "2.0", "id": None, "error": error})
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(McpError, match="cannot read that"):
            await client.call_tool("echo")


@pytest.mark.requirement("F13")
async def test_a_proxy_that_refuses_is_said_to_do_so() -> None:
    script = Script(on={"CONNECT": lambda incoming: incoming.respond(407)})
    async with serving(script) as url:
        options = HttpOptions(proxy=url.removesuffix("/mcp"), verify=False)
        error = await failure_of("https://server.test/mcp", options)
    assert isinstance(error, CannotReach)
    assert "the proxy refuses: 407" in str(error)


@pytest.mark.requirement("F13")
async def test_a_connection_that_breaks_is_an_error() -> None:
    async def half(incoming: Incoming) -> None:
        await incoming.begin(200, {"content-type": "application/json", "content-length": "100"})
        await incoming.write(b"{")
        await incoming.drop()

    script = Script()
    async with serving(script) as url, connect(url) as client:
        for how in (Incoming.drop, half):
            script.on["tools/call"] = how
            with pytest.raises(ConnectionLost, match=r"tools/call: the connection to .* broke"):
                await client.call_tool("echo")


@pytest.mark.parametrize(
    ("era", "method"), [("legacy", "initialize"), ("modern", "server/discover")]
)
async def test_a_handshake_whose_connection_breaks_is_repeated_once(era, method) -> None:
    """A server may close an idle connection at the moment when the client uses it."""
    script = Script(era=era)

    async def drop_first(incoming: Incoming) -> None:
        if len(script.asked(method)) == 1:
            await incoming.drop()
        else:
            del script.on[method]
            await script.handle(incoming)

    script.on[method] = drop_first
    async with serving(script) as url, connect(url, era=era) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
    assert len(script.asked(method)) == 2
    script = Script(era=era, on={method: Incoming.drop})
    async with serving(script) as url:
        with pytest.raises(ConnectionLost):
            async with connect(url, era=era):
                pass
    assert len(script.asked(method)) == 2


# -- bounds ------------------------------------------------------------------------------------


@pytest.mark.requirement("F14")
@pytest.mark.parametrize("how", ["declared", "chunked", "event", "comment"])
async def test_answers_are_bounded(how) -> None:
    script = Script()
    text = "x" * 100_000

    async def call(incoming: Incoming) -> None:
        body = json.dumps(incoming.answer({"content": [{"type": "text", "text": text}]})).encode()
        if how == "declared":
            await incoming.respond(200, body, content_type="application/json")
        elif how == "chunked":
            await incoming.start(content_type="application/json")
            await incoming.write(body)
            await incoming.until_gone()
        else:
            await incoming.start()
            await incoming.write((b"data: " if how == "event" else b":") + body)
            await incoming.until_gone()

    script.on["tools/call"] = call
    limits = Limits(max_message_bytes=50_000)
    async with serving(script) as url, connect(url, limits=limits) as client:
        with pytest.raises(ResponseTooLarge, match="more than 50000 bytes"):
            await client.call_tool("echo")
        script.on.clear()
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@pytest.mark.parametrize("most", [10_000, 100_000])
async def test_the_pages_of_a_list_are_bounded_together(most: int) -> None:
    script = Script()

    async def page(incoming: Incoming) -> None:
        number = len(script.asked("resources/list"))
        resource = {"uri": f"a://{number}", "name": "n" * 3000}
        more = {"nextCursor": str(number)} if number < 20 else {}
        page = {"resultType": "complete", "resources": [resource], **more}
        await incoming.json(incoming.answer(page))

    script.on["resources/list"] = page
    limits = Limits(max_message_bytes=most)
    async with serving(script) as url, connect(url, limits=limits) as client:
        if most > 60_000:
            assert len(await client.list_resources()) == 20
        else:
            with pytest.raises(ResponseTooLarge, match="all pages together have more than 10000"):
                await client.list_resources()
            assert len(script.asked("resources/list")) == 4


@pytest.mark.requirement("F14")
async def test_a_long_stream_of_short_events_is_none_too_many() -> None:
    script = Script()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        note = {"jsonrpc": "2.0", "method": "notifications/message"}
        for number in range(200):
            params = {"level": "info", "data": f"{number:1000}"}
            await incoming.event({**note, "params": params})
        await incoming.event(incoming.answer({"resultType": "complete", "content": []}))
        await incoming.end()

    script.on["tools/call"] = call
    heard: list[object] = []
    limits = Limits(max_message_bytes=5000)
    async with serving(script) as url:
        async with connect(url, limits=limits, on_log=lambda *each: heard.append(each)) as client:
            assert (await client.call_tool("echo")).success
    assert len(heard) == 200


@pytest.mark.requirement("F14")
async def test_connections_are_bounded_and_further_requests_wait() -> None:
    script, all_run = Script(), trio.Event()
    running = most = 0

    async def call(incoming: Incoming) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            all_run.set()
        await all_run.wait()
        for _ in range(20):  # if there were a fourth connection, it would be seen
            await trio.lowlevel.checkpoint()
        running -= 1
        await script.modern(incoming)

    script.on["tools/call"] = call
    async with serving(script) as url:
        async with connect(url, http=HttpOptions(max_connections=3)) as client:
            async with trio.open_nursery() as nursery:
                for _ in range(12):
                    nursery.start_soon(client.call_tool, "echo")
            assert script.connections <= 3
    assert most == 3
    assert len(script.asked("tools/call")) == 12


@pytest.mark.requirement("F14")
@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X": "a\r\nEvil: yes"}},
        {"headers": {"a b": "c"}},
        {"headers": {"X": "caf\u00e9"}},
        {"max_connections": 0},
        {"client_factory": httpx2.AsyncClient, "proxy": "http://127.0.0.1:1"},
        {"client_factory": httpx2.AsyncClient, "verify": False},
        {"client_factory": httpx2.AsyncClient, "unix_socket": "x"},
        {"proxy": "http://127.0.0.1:1", "unix_socket": "x"},
        {"unix_socket": ""},
        {"connect_timeout": 0},
        {"reconnect_delay": 0},
        {"reconnect_attempts": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(options) -> None:
    with pytest.raises(ValueError, match=r"header|must be|is for the client|is on this machine"):
        HttpOptions(**options)


@pytest.mark.parametrize(
    "name",
    ["headers", "proxy", "verify", "trust_env", "auth", "client_factory", "listen", "unix_socket"],
)
def test_options_of_another_type_are_refused_by_their_names(name) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        HttpOptions(**{name: 3.5})


@pytest.mark.parametrize(
    "proxy",
    ["http://proxy", "HTTPS://u:p w@proxy:3128/", "socks5://u:%2F@[::1]:1080", "socks5h://pröxy:1"],
)
def test_proxies(proxy) -> None:
    assert HttpOptions(proxy=proxy).proxy == proxy
    httpx2.Proxy(proxy)  # takes it as well


@pytest.mark.requirement("F13")
@pytest.mark.parametrize(
    "proxy",
    [
        "",
        "user:s3cr3t@proxy:3128",
        "user:s3cr3t@[::1",
        "//user:s3cr3t@proxy:3128",
        " http://user:s3cr3t@proxy:3128",
        "ftp://user:s3cr3t@proxy:3128",
        "http://user:s3cr3t@",
        "http://user:s3cr3t@:3128",
        "http://user:s3cr3t/x@proxy:3128",
        "http://user:s3cr3t?x@proxy:3128",
        "http://user:s3cr3t@proxy:s3cr3t",
        "http://user:s3cr3t@proxy:99999",
        "http://user:s3cr3t@[::1",
        "http://user:s3cr3t@proxy:3128\n",
        "http://user:s3cr3t\udcff@proxy:3128",
    ],
)
def test_what_is_no_proxy_is_refused_and_not_repeated(proxy) -> None:
    with pytest.raises(ValueError, match=r"^proxy must be a URL") as failure:
        HttpOptions(proxy=proxy)
    assert "s3cr3t" not in str(failure.value)
    assert failure.value.__context__ is None


# -- secrets -----------------------------------------------------------------------------------


@pytest.mark.requirement("F13")
async def test_headers_and_credentials_in_the_url_reach_the_server() -> None:
    script = Script("legacy")
    async with serving(script, path=f"/mcp?key={TOKEN}") as url:
        async with connect(url, http=SECRET_OPTIONS):
            await script.wait_asked("GET")
        assert {each.headers["authorization"] for each in script.requests} == {f"Bearer {TOKEN}"}
        assert {each.headers["x-api-key"] for each in script.requests} == {TOKEN}
        assert {each.target for each in script.requests} == {f"/mcp?key={TOKEN}"}
        script.requests.clear()
        async with connect(url.replace("http://", "http://ann%40home:pass@")):
            await script.wait_asked("GET")
        basic = {each.headers["authorization"] for each in script.requests}
        assert basic == {"Basic YW5uQGhvbWU6cGFzcw=="}


@pytest.mark.requirement("F13")
async def test_no_message_and_no_log_gives_a_secret_away(caplog) -> None:
    """Not even if the server repeats it, nor httpx2 logs what it does."""
    caplog.set_level(logging.INFO)
    script = Script()
    seen: list[str] = [repr(SECRET_OPTIONS)]
    echoed = f"bad token {TOKEN}, Bearer {TOKEN}"
    key = "s3cr3t/%41" * 3  # nowhere but in the URL
    plain = f"nothing at /{TOKEN}{TOKEN}/mcp?key={key} or {unquote_plus(key)}".encode()
    async with serving(script, path=f"/{TOKEN}{TOKEN}/mcp?key={key}") as url:
        url = url.replace("http://", f"http://user:{TOKEN}@")
        async with connect(url, http=SECRET_OPTIONS) as client:
            for answer in (
                lambda i: i.json({"error": echoed}, 401, www_authenticate=echoed),
                lambda i: i.json({"error": echoed}, 429, retry_after=TOKEN),
                lambda i: i.json({"error": {"code": -1, "message": echoed}}, 500),
                lambda i: i.respond(302, location=f"http://x.test/?key={TOKEN}"),
                lambda i: i.respond(200, content_type="text/html"),
                lambda i: i.respond(404, plain, content_type="text/plain"),
                Incoming.drop,
            ):
                script.on["tools/call"] = answer
                with pytest.raises((ClientError, McpError)) as failure:
                    await client.call_tool("echo")
                seen += [str(failure.value), repr(failure.value)]
    seen += [str(await failure_of(url, SECRET_OPTIONS)), caplog.text]
    assert [each for each in seen if TOKEN in each or "s3cr3t" in each] == []
