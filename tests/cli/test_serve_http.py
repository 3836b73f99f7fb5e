"""`trio-mcp serve` over HTTP: where it listens, who may use it and how much, and when it ends."""

import signal
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import trio
import trustme

from tests.cli.support import COMMAND, CommandLine
from tests.support.processes import ENVIRONMENT, EXAMPLES, TIME_LIMIT, Server, run, running
from trio_mcp import HttpOptions, McpError, connect
from trio_mcp.cli.http_options import HttpServerOptions
from trio_mcp.cli.options import as_words

CALCULATOR = str(EXAMPLES / "calculator.py")
HTTP = ("--http", "127.0.0.1:0")


def serve(*arguments: str, target: str = CALCULATOR) -> list[str]:
    return [*COMMAND, "serve", target, *arguments]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def url_of(server: Server) -> str:
    await server.said(b"/mcp\n")
    return server.stderr.partition(b" at ")[2].split()[0].decode()


async def statuses(stream: trio.abc.Stream, clients: list[str]) -> list[int]:
    """Ask for the tools in the name of one client after the other; return what was answered."""
    head = "GET /tools HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {}\r\n\r\n"
    last = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    heads = [head.format(each) for each in clients[:-1]] + [last.format(clients[-1])]
    await stream.send_all("".join(heads).encode())
    answer = b"".join([chunk async for chunk in stream])
    return [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.long
@pytest.mark.requirement("S6")
async def test_a_unix_socket(tmp_path: Path) -> None:
    place = tmp_path / "calculator.sock"
    options = ["--unix-socket", "calculator.sock", "--unix-socket-mode", "660"]
    async with running(serve(*options), cwd=tmp_path) as server:
        told = b"Serving calculator at the Unix socket calculator.sock, path /mcp"
        await server.said(told)
        assert stat.S_IMODE(place.stat().st_mode) == 0o660
        async with await trio.open_unix_socket(str(place)) as stream:
            assert await statuses(stream, ["a"]) == [200]
        async with connect(
            "http://localhost/mcp", http=HttpOptions(unix_socket=str(place))
        ) as ours:
            assert (await ours.call_tool("add", {"a": 1, "b": 2})).text == "3.0"
        words = ["call", "http://localhost/mcp", "add", "a=1", "b=2", "--unix-socket", str(place)]
        assert (await run([*COMMAND, *words])).stdout == b"3.0\n"
        busy = await run(serve("--unix-socket", str(place)))
        assert busy.returncode == 1
        assert busy.stderr.decode().endswith(f"{place}: another server listens there\n")
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    assert not place.exists()
    gone = await run([*COMMAND, *words])
    assert f"cannot reach http://localhost:80 at the Unix socket {place}: " in gone.stderr.decode()


@pytest.mark.long
@pytest.mark.requirement("S2")
async def test_requests_of_a_session_that_a_new_start_has_lost_may_be_answered() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"mcp-session-id": "lost", "mcp-protocol-version": "2025-11-25"}
    for options, status in ([], 404), (["--answer-unknown"], 200):
        async with running(serve(*HTTP, *options)) as server:
            url = await url_of(server)
            async with httpx2.AsyncClient(
                timeout=TIME_LIMIT, trust_env=False, verify=False
            ) as http:
                answer = await http.post(url, json=message, headers=headers)
                assert answer.status_code == status


@pytest.mark.long
@pytest.mark.requirement("S6")
async def test_a_service_manager_hears_when_it_serves_and_a_hangup_stops_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "manager"))
        manager.setblocking(False)
        environment = ENVIRONMENT | {"NOTIFY_SOCKET": str(tmp_path / "manager")}
        async with running(serve("--http", "0"), env=environment) as server:
            await url_of(server)
            await trio.lowlevel.wait_readable(manager)
            assert manager.recv(100) == b"READY=1"
            server.signal(signal.SIGHUP)
            assert await server.exit() == 0
        assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.long
@pytest.mark.requirement("F17")
async def test_clients_of_2024_are_served_at_a_path_of_their_own() -> None:
    async with running(serve(*HTTP, "--sse-path", "/sse")) as server:
        url = await url_of(server)
        async with connect(url.replace("/mcp", "/sse"), revision="2024-11-05") as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3.0"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0


@pytest.mark.long
async def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    for number, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(tmp_path / "chain.pem", append=bool(number))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    files = ["--tls-certificate", "chain.pem", "--tls-key", "key.pem"]
    async with running(serve(*HTTP, *files), cwd=tmp_path) as server:
        url = await url_of(server)
        assert url.startswith("https://127.0.0.1:")
        async with connect(url, http=HttpOptions(verify=trusting)) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3.0"


def test_a_certificate_and_its_key_in_one_file(cli: CommandLine, taken: int) -> None:
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path("both.pem")
    outcome = cli("serve", CALCULATOR, "--http", str(taken), "--tls-certificate", "both.pem")
    assert outcome.error.startswith("cannot listen on"), "which is what comes after it was read"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["none.pem", "key.pem"], "--tls-certificate: none.pem: No such file or directory"),
        (["chain.pem", "."], "--tls-key: .: Is a directory"),
        (["chain.pem", "other.pem"], "other.pem has the key of another certificate"),
        (["chain.pem"], "chain.pem, without --tls-key, must hold a certificate and its key as PEM"),
        (
            ["text.pem", "key.pem"],
            "text.pem and key.pem must hold a certificate and its key as PEM",
        ),
        (["chain.pem", "secret.pem"], "the key of --tls-key has a passphrase"),
    ],
)
def test_certificates_that_cannot_be(files: list[str], told: str, cli: CommandLine) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    authority = trustme.CA()
    certificate, other = (authority.issue_cert("127.0.0.1") for _ in range(2))
    certificate.cert_chain_pems[0].write_to_path("chain.pem")
    certificate.private_key_pem.write_to_path("key.pem")
    other.private_key_pem.write_to_path("other.pem")
    Path("text.pem").write_text("hello\n")
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    Path("secret.pem").write_bytes(locked)
    options = ["--tls-certificate", files[0], *(f"--tls-key={each}" for each in files[1:])]
    outcome = cli("serve", CALCULATOR, *HTTP, *options)
    assert outcome.status == 1
    assert outcome.error.startswith(told)


@pytest.mark.long
async def test_the_rate_of_a_client() -> None:
    """100 at once, and then no more for a long while; whoever else comes is served."""
    clients = ["10.0.0.1"] * 101 + ["10.0.0.2"]
    options = ["--rate", "0.001", "--trust-proxy", "127.0.0.1"]
    async with running(serve(*HTTP, *options)) as server:
        port = int((await url_of(server)).split(":")[2].split("/")[0])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            assert await statuses(stream, clients) == [200] * 100 + [429, 200]


@pytest.mark.long
async def test_the_grace_of_a_call(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys, trio\n"
        "from trio_mcp import Registry\n"
        "registry = Registry('slow')\n"
        "@registry.tool\n"
        "async def wait() -> str:\n"
        "    print('waiting', file=sys.stderr, flush=True)\n"
        "    await trio.sleep(600)\n"
        "    return 'done'\n"
    )
    command = serve(*HTTP, "--shutdown-grace", "0", target="slow.py")
    async with running(command, cwd=tmp_path) as server:
        url = await url_of(server)
        failed = trio.Event()
        async with connect(url) as client, trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(McpError, match="Request cancelled"):
                    await client.call_tool("wait")
                failed.set()

            nursery.start_soon(call)
            await server.said(b"waiting")
            server.signal(signal.SIGTERM)
            with trio.fail_after(
                4
            ):  # by default it would be 5; how long the exit takes is no matter
                await failed.wait()
            assert await server.exit() == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rate", "3"], "--rate is for HTTP; say where with --http or --unix-socket"),
        (["--token-env", "HOME"], "--token-env is for HTTP"),
        (["--path", "/rpc", "--reload"], "--path is for HTTP"),
        ([*HTTP, "--unix-socket", "x"], "--http and --unix-socket exclude each other"),
        ([*HTTP, "--unix-socket-mode", "660"], "--unix-socket-mode does nothing without --unix"),
        (["--unix-socket", "x", "--unix-socket-mode", "888"], "--unix-socket-mode takes permissio"),
        (
            ["--unix-socket", "x", "--unix-socket-mode", "-1"],
            "--unix-socket-mode takes permissions",
        ),
        (["--unix-socket", "x", "--unix-socket-mode", "7777"], "--unix-socket-mode takes permiss"),
        ([*HTTP, "--tls-key", "k.pem"], "--tls-key does nothing without --tls-certificate"),
        ([*HTTP, "--trust-proxy", "me"], "--trust-proxy: 'me' is neither an addr"),
        ([*HTTP, "--rate", "0"], 'Invalid value "0.0" for --rate'),
        ([*HTTP, "--rate", "inf"], 'Invalid value "inf" for --rate'),
        (["--shutdown-grace", "-1"], 'Invalid value "-1.0" for --shutdown-grace'),
        ([*HTTP, "--shutdown-grace", "nan"], 'Invalid value "nan" for --shutdown-grace'),
        ([*HTTP, "--allow-host", "http://x"], "--allow-host cannot have 'http://x'"),
        ([*HTTP, "--allow-origin", "x"], "--allow-origin cannot have 'x'"),
        ([*HTTP, "--path", "mcp"], "'mcp' cannot be the path of the MCP endpoint"),
        ([*HTTP, "--sse-path", "/mcp"], "'/mcp' cannot be the path for HTTP+SSE"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(options: list[str], told: str, cli: CommandLine) -> None:
    outcome = cli("serve", CALCULATOR, *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(told)


def test_workers_of_a_program_that_cannot_be_run_again(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["-c"])
    outcome = cli("serve", CALCULATOR, *HTTP, "--workers", "2")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith("workers run this program again, and python -c cannot be")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (
            "there.txt",
            "there.txt: there is a file that is not a socket; remove it, or take another",
        ),
        ("none/x.sock", "none/x.sock: there is no such directory"),
        ("x" * 200, f"{'x' * 200}: AF_UNIX path too long"),
    ],
)
def test_sockets_that_cannot_be(place: str, told: str, cli: CommandLine) -> None:
    Path("there.txt").write_text("mine")
    outcome = cli("serve", CALCULATOR, "--unix-socket", place)
    assert outcome.status == 1
    assert outcome.error.startswith(f"cannot listen on {told}")
    assert Path("there.txt").read_text() == "mine"


def test_a_port_that_is_taken(cli: CommandLine, taken: int) -> None:
    outcome = cli("serve", CALCULATOR, "--http", str(taken))
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(f"cannot listen on 127.0.0.1:{taken}: ")


def test_options_survive_a_new_start() -> None:
    """`--reload` passes them on to each of its servers."""
    where = HttpServerOptions(
        http="0.0.0.0:80",
        path="/-x",
        allow_host=("a", "b"),
        rate=2.5,
        trust_proxy=("unix",),
    )
    assert as_words(where) == [
        "--http=0.0.0.0:80",
        "--path=/-x",
        "--allow-host=a",
        "--allow-host=b",
        "--rate=2.5",
        "--trust-proxy=unix",
    ]
    assert as_words(HttpServerOptions()) == []


@pytest.mark.parametrize(
    ("host", "options", "told"),
    [
        ("0.0.0.0", [], True),
        ("0.0.0.0", ["--allow-host", "mcp.example.com"], False),
        ("127.0.0.1", [], False),
        ("localhost", [], False),
    ],
    ids=str,
)
def test_who_listens_to_others_is_told_how_they_get_in(
    host: str,
    options: list[str],
    told: bool,
    cli: CommandLine,
    taken: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cli("serve", CALCULATOR, "--http", f"{host}:{taken}", *options)
    assert ("--allow-host names what others call it" in caplog.text) == told


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    ("store", "status", "words"),
    [
        ("mysql://me:secret@localhost", 2, "redis://host:6379/0"),
        ("sqlite:////nowhere/shared.db", 1, "--store: the store /nowhere/shared.db cannot be used"),
    ],
)
def test_a_store_that_cannot_be_used(cli: CommandLine, store: str, status: int, words: str) -> None:
    outcome = cli("serve", CALCULATOR, *HTTP, "--store", store)
    assert outcome.status == status
    assert words in outcome.err
    assert "secret" not in outcome.err


@pytest.mark.long
@pytest.mark.requirement("R2")
async def test_metrics_of_the_file_are_shown_too(tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(
        "from prometheus_client import Counter\n"
        "from trio_mcp import Registry\n"
        "Counter('lamps_sold', 'Lamps.').inc(3)\n"
        "registry = Registry('shop')\n"
    )
    async with running(serve(*HTTP, "--prometheus", target=str(program))) as server:
        url = (await url_of(server)).replace("/mcp", "/metrics")
        async with httpx2.AsyncClient(timeout=TIME_LIMIT) as http:
            shown = (await http.get(url)).text
    assert "\nlamps_sold_total 3.0\n" in shown
    assert "\nmcp_sessions 0.0\n" in shown
