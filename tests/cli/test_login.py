"""Getting in at servers that want to know who one is: `login`, `logout`, `whoami`, and by itself."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest

from tests.auth.server.support import ec_key
from tests.cli.protected import BROWSER, Authority, authority, behind, browser
from tests.cli.support import CommandLine, served
from tests.cli.test_cli_docs import PAGE
from trio_mcp import HttpPolicy, Registry
from trio_mcp.cli.login import auth as login_auth
from trio_mcp.cli.screen import Screen

pytestmark = pytest.mark.requirement("J8")


def registry() -> Registry:
    """A shop with one tool for all, and one for its owner."""
    registry = Registry("shop", scopes=["shop"])

    @registry.tool
    async def price(book: str) -> str:
        """What a book costs."""
        return f"{book}: 3"

    @registry.tool(scopes=["owner"])
    async def close() -> str:
        """Close the shop."""
        return "closed"

    return registry


@pytest.fixture
def issuer() -> Iterator[Authority]:
    with authority() as found:
        yield found


@pytest.fixture
def shop(issuer: Authority) -> Iterator[str]:
    """The URL of a shop, for those who have a token of the issuer's."""
    with served(registry(), behind(issuer)) as url:
        yield url


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> CommandLine:
    """A command line, with a browser beside it."""
    monkeypatch.setenv("BROWSER", browser(tmp_path))
    return cli


def kept(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".local" / "share" / "trio-mcp" / "tokens.json"


def test_a_login_is_kept_for_all_commands(
    person: CommandLine, shop: str, issuer: Authority, tmp_path: Path
) -> None:
    refused = person("tools", shop)
    assert (refused.status, refused.out) == (1, "")
    origin = shop.removesuffix("/mcp")
    assert refused.error.startswith(f"{origin} wants you to log in: trio-mcp login {shop} (")
    assert issuer.registrations == []

    done = person("login", shop)
    assert (done.status, done.out) == (0, f"Logged in to {shop} by {issuer.url}.\n")
    assert done.err.startswith(
        f"{origin} wants you to log in. Your browser opens this page; if it does not, open it yourself:\n"
    )
    (page,) = re.findall(r"^    (http\S+)$", done.err, re.MULTILINE)
    assert page.startswith(f"{issuer.url}/authorize?response_type=code&")
    assert kept(tmp_path).stat().st_mode & 0o777 == 0o600

    for _ in range(2):
        outcome = person("call", shop, "price", "book=Emma", "--json")
        assert (outcome.status, outcome.err) == (0, "")
        assert outcome.json["content"][0]["text"] == "Emma: 3"
    assert len(issuer.pages) == 1
    assert len(issuer.tokens) == 3  # a code, and a token of each kind
    for secret in issuer.tokens[1:]:
        assert secret not in done.out + done.err


def test_a_command_on_a_terminal_gets_in_by_itself(
    person: CommandLine, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screen, "can_ask", True)
    outcome = person("tools", shop, "--json")
    assert [each["name"] for each in outcome.json["tools"]] == ["price", "close"]
    assert "Waiting until you have done so (Ctrl-C gives up).\nYou are logged in.\n" in outcome.err
    stepped_up = person("call", shop, "close")
    assert (stepped_up.status, stepped_up.out) == (0, "closed\n")
    assert stepped_up.err.endswith("You are logged in.\n")
    assert person("call", shop, "close").err == ""


def test_where_scopes_lack_the_command_that_asks_for_them_is_named(
    person: CommandLine, shop: str
) -> None:
    assert person("login", shop).status == 0
    refused = person("call", shop, "close")
    (command,) = re.findall(r"log in: trio-mcp (login .*) \(", refused.error)
    assert command == f"login {shop} --scope owner --scope shop"
    assert person(*command.split()).status == 0
    assert person("call", shop, "close").out == "closed\n"


def test_a_scope_cannot_end_the_command_that_names_it() -> None:
    challenge = 'Bearer error="insufficient_scope", scope="a$(id) b;c a$(id)"'
    response = httpx2.Response(403, headers={"WWW-Authenticate": challenge})
    assert login_auth.lacking(response) == " --scope 'a$(id)' --scope 'b;c'"


@pytest.mark.usefixtures("shop")
def test_what_is_kept_is_shown_without_a_token_and_forgotten(
    person: CommandLine, shop: str, issuer: Authority, tmp_path: Path
) -> None:
    assert person("whoami").err == "No logins are kept.\n"
    for words in (["whoami", shop], ["logout", shop]):
        outcome = person(*words)
        assert (outcome.status, outcome.error) == (
            1,
            f"there is no login for {shop} (`trio-mcp whoami` shows all logins)",
        )
    assert person("login", shop, "--scope", "owner").status == 0
    told = person("whoami", "--json").json
    (documented,) = re.findall(r"`whoami` writes\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert [*told["logins"][0]] == [*json.loads(documented)["logins"][0]]
    (login,) = told["logins"]
    ends = datetime.fromisoformat(login.pop("expiresAt"))
    assert 500 < ends.timestamp() - time.time() <= 600
    assert login == {
        "resource": shop,
        "issuer": issuer.url,
        "clientId": "client-1",
        "scopes": ["shop", "owner"],
        "good": True,
        "renews": True,
    }
    shown = person("whoami", shop)
    head, line = shown.out.splitlines()
    assert head.split("  ")[0] == "Server"
    assert line.split("  ")[:3] == [shop, issuer.url, "client-1"]
    assert line.endswith(", then renewed")
    assert not any(each in shown.out + shown.err for each in issuer.tokens)

    assert person("logout", shop.removesuffix("/mcp")).out.endswith(" is forgotten.\n")
    assert person("tools", shop).status == 1
    assert person("whoami", "--json").json == {"logins": []}
    assert person("login", shop).status == 0
    assert person("logout", "--all").out == (
        f"The login of {shop} by {issuer.url} is forgotten.\n"
        f"No logins are left in {kept(tmp_path)}.\n"
    )
    assert not kept(tmp_path).exists()
    assert person("logout", "--all").status == 0


@pytest.mark.parametrize("refresh", [True, False], ids=["refreshed", "plain"])
def test_a_login_is_ended_where_it_is_from(
    refresh: bool, person: CommandLine, shop: str, issuer: Authority
) -> None:
    issuer.refresh = refresh
    assert person("login", shop).status == 0
    first = person("logout", shop)
    assert first.err == "It cannot be ended there: its token stays good for its time.\n"
    issuer.more = {"revocation_endpoint": f"{issuer.url}/revoke"}
    assert person("login", shop).status == 0
    ended = person("logout", shop)
    assert (ended.status, ended.err) == (0, "It has been ended there as well.\n")
    assert issuer.revoked == issuer.tokens[-1:]
    issuer.more = {"revocation_endpoint": f"{issuer.url}/none"}
    assert person("login", shop).status == 0
    failed = person("logout", shop)
    assert failed.err == f"It was not ended there: {issuer.url} refused with status 404\n"
    assert (failed.status, person("whoami", "--json").json) == (0, {"logins": []})


def test_a_login_is_renewed_without_asking_and_told_when_it_has_ended(
    person: CommandLine, shop: str, issuer: Authority
) -> None:
    issuer.lifetime = 10  # which is so short that it is renewed before each use
    assert person("login", shop).status == 0
    for _ in range(2):
        assert person("call", shop, "price", "book=Emma").out == "Emma: 3\n"
    first, *others = (each["grant_type"] for each in issuer.forms)
    assert (first, set(others)) == ("authorization_code", {"refresh_token"})
    assert len(issuer.pages) == 1
    assert person("whoami").out.rstrip().endswith("renewed when it is used")
    issuer.ended = True
    ended = person("call", shop, "price", "book=Emma")
    assert ended.status == 1
    assert f"wants you to log in: trio-mcp login {shop}" in ended.error
    assert person("login", shop).status == 0
    assert len(issuer.registrations) == 1, "who we are there stays"


def test_logging_in_again_asks_again_and_keeps_the_old_login_until_then(
    person: CommandLine, shop: str, issuer: Authority, tmp_path: Path
) -> None:
    assert person("login", shop, "--scope", "owner").status == 0
    before = kept(tmp_path).read_text()
    issuer.redirect = {"error": "access_denied", "error_description": "not\x1b[31m you"}
    denied = person("login", shop)
    assert denied.status == 1
    last = denied.err.splitlines()[-1]
    assert last == f"trio-mcp: {issuer.url} did not let us in: access_denied (not [31m you)"
    assert kept(tmp_path).read_text() == before
    issuer.redirect = {}
    assert person("login", shop).status == 0
    assert [each["scope"] for each in issuer.pages] == ["shop owner", "shop", "shop"]
    assert person("login", shop, "--scope", "owner").status == 0
    assert person("login", shop, "--scope", "more").status == 0
    assert issuer.pages[-1]["scope"] == "shop owner more"
    assert {each["client_id"] for each in issuer.pages} == {"client-1"}


NOBODY = "import sys\n"
TWICE = f"{BROWSER}\nprint(urlopen(sys.argv[1]))\n"


def test_nobody_comes_back(cli: CommandLine, shop: str, issuer: Authority, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROWSER", browser(tmp_path, NOBODY))
        outcome = cli("login", shop, "--timeout", "0.1")
    assert outcome.status == 1
    assert outcome.err.splitlines()[-1] == "trio-mcp: no login within 0.1 s"
    assert not kept(tmp_path).exists()
    assert issuer.forms == []


def test_a_redirect_that_comes_twice(
    cli: CommandLine,
    shop: str,
    issuer: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROWSER", browser(tmp_path, TWICE))
    assert cli("login", shop).status == 0
    assert issuer.forms[0]["grant_type"] == "authorization_code"
    assert "authorization_code" not in [each["grant_type"] for each in issuer.forms[1:]]
    assert cli("tools", shop).status == 0


def free_port() -> int:
    """A port that no other test is given by chance: those that the system gives are higher."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


def test_a_client_that_was_registered_by_hand(
    person: CommandLine, shop: str, issuer: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2hunter2")
    monkeypatch.setattr(Screen, "can_ask", True)
    issuer.lifetime, issuer.refresh = 60, False
    client = ["--client-id", "mine", "--client-secret-env", "SECRET", "--issuer", issuer.url]
    port = free_port()
    outcome = person("login", shop, *client, "--redirect", f"localhost:{port}")
    assert outcome.status == 0
    assert issuer.pages[0]["client_id"] == "mine"
    assert issuer.pages[0]["redirect_uri"] == f"http://localhost:{port}/callback"
    assert issuer.registrations == []
    assert person("tools", shop).status == 0
    assert person("login", shop).status == 0
    assert {each["client_id"] for each in issuer.pages} == {"mine"}
    issuer.issuer.keys[:] = [ec_key()]  # all tokens are worth nothing any more
    with served(registry(), behind(issuer)) as other:
        kept_for = person("tools", other)
    assert "Your browser opens" in kept_for.err, "that client is for another server"
    assert "hunter2" not in outcome.out + outcome.err


def test_credentials_of_ones_own_are_used_and_nothing_else(
    person: CommandLine, shop: str, issuer: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert person("login", shop).status == 0
    monkeypatch.setenv("MY_TOKEN", "made-up-by-me")
    monkeypatch.setattr(Screen, "can_ask", True)
    before = len(issuer.forms)
    for option in (["--token-env", "MY_TOKEN"], ["--header", "authorization: Bearer made-up"]):
        outcome = person("tools", shop, *option)
        assert outcome.status == 1
        assert "answered 401" in outcome.err
        assert "made-up" not in outcome.err
    outcome = person("tools", shop.replace("://", "://me:made-up@"))
    assert "answered 401" in outcome.err
    assert len(issuer.forms) == before


@pytest.mark.parametrize("command", ["tools", "doctor", "bench"])
def test_a_program_gets_in_by_its_own_credentials(
    command: str, cli: CommandLine, shop: str, issuer: Authority, tmp_path: Path
) -> None:
    issuer.clients = {"nightly": "hunter2hunter2"}
    words = [command, shop]
    if command == "bench":
        words += ["price", "book=Emma", "--seconds", "0.3", "--in-flight", "1"]
    client = ["--client-id", "nightly", "--client-secret-env", "SECRET", "--issuer", issuer.url]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", "hunter2hunter2")
        outcome = cli(*words, *client)
        assert (outcome.status, outcome.err) == (0, "")
        patch.setenv("SECRET", "hunter3hunter3")
        refused = cli(*words, *client)
    assert refused.error == f"{issuer.url} refused with status 400: invalid_client"
    assert "hunter" not in outcome.out + refused.err
    assert {each["grant_type"] for each in issuer.forms} == {"client_credentials"}
    assert not kept(tmp_path).exists()


def test_a_program_gets_in_by_its_key(
    cli: CommandLine, shop: str, issuer: Authority, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_bytes(ec_key().as_pem(private=True))
    client = ["--client-id", "nightly", "--client-key"]
    refused = cli("tools", shop, *client, "key.pem")  # for this issuer knows no keys
    assert refused.error == f"{issuer.url} refused with status 400: invalid_client"
    assert issuer.forms[0]["client_assertion"].count(".") == 2
    told = "--client-key key.pem: this is not a private key in PEM without a password"
    for size in (100, 2**40):  # of which the second is no more than a hole in the file system
        (tmp_path / "key.pem").write_text("hello")
        os.truncate(tmp_path / "key.pem", size)
        bad = cli("tools", shop, *client, "key.pem")
        assert (bad.status, bad.error) == (2, told)
    missing = cli("tools", shop, *client, "none.pem")
    assert (missing.status, missing.error) == (1, "none.pem: No such file or directory")


URL = "https://mcp.example.com/mcp"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["login", "mcp.example.com"], "'mcp.example.com' is not a URL of a server, such as https"),
        (["login", "https://x:y/"], "'https://x:y/' is not a URL"),
        (["login", URL, "--redirect", "here"], "--redirect takes HOST:PORT or PORT, such as 127."),
        (["login", URL, "--redirect", "10.0.0.1:80"], "--redirect takes 127.0.0.1:PORT or localh"),
        (["login", URL, "--client-secret-env", "HOME"], "--client-secret-env does nothing witho"),
        (
            ["login", URL, "--client-id", "a", "--client-secret-env", "HOME"],
            "--client-secret-env needs --issuer, so that no other server gets the secret",
        ),
        (["login", URL, "--header", "Authorization: x"], "headers: auth sends Authorization"),
        (["logout"], "say what to log out of: the URL of a server, or --all"),
        (["logout", URL, "--all"], "say what to log out of: the URL of a server, or --all"),
        (["whoami", "me"], "'me' is not a URL of a server"),
        (["tools", URL, "--issuer", URL], "--issuer does nothing without --client-id"),
        (["tools", URL, "--client-key", "x"], "--client-key does nothing without --client-id"),
        (["tools", URL, "--client-id", "a"], "--client-id needs --client-secret-env or --client-"),
        (
            ["tools", URL, "--client-id", "a", "--client-secret-env", "HOME"],
            "--client-secret-env needs --issuer, so that no other server gets the secret",
        ),
        (
            ["tools", URL, "--client-id", "a", "--token-env", "HOME"],
            "--client-id excludes --token-env and --header Authorization",
        ),
        (["tools", "json", "--client-id", "a"], "--client-id is for a URL; a command takes --env"),
        (["tools", URL, "--env", "A=b"], "--env is for a command; a URL takes --header"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(words: list[str], told: str, cli: CommandLine) -> None:
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(told)


@pytest.mark.parametrize("broken", ["not JSON", '{"logins": 3}', "late", None], ids=str)
def test_logins_that_cannot_be_read_are_in_nobodys_way(
    broken: str | None, person: CommandLine, shop: str, tmp_path: Path
) -> None:
    assert person("login", shop).status == 0
    if broken is None:
        kept(tmp_path).chmod(0o644)
    elif broken == "late":
        late = re.sub(r'"expires_at": [0-9.]+', '"expires_at": 1e300', kept(tmp_path).read_text())
        kept(tmp_path).write_text(late)
    else:
        kept(tmp_path).write_text(broken)
    with served(Registry("open")) as url:
        assert person("tools", url).status == 0, "who needs no login does not mind"
    for words in (["tools", shop], ["whoami"], ["login", shop], ["logout", shop]):
        outcome = person(*words)
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.error.startswith(
            f"others may read {kept(tmp_path)}"
            if broken is None
            else f"the logins in {kept(tmp_path)} cannot be read"
        )
    assert person("logout", "--all").status == 0
    assert person("login", shop).status == 0


def test_where_logins_are_kept(
    person: CommandLine, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIO_MCP_LOGINS", str(tmp_path / "other" / "mine.json"))
    assert person("login", shop).status == 0
    assert person("tools", shop).status == 0
    assert (tmp_path / "other" / "mine.json").exists()
    assert not kept(tmp_path).exists()
    entries: dict[tuple[str, str], str] = {}
    module: Any = ModuleType("keyring")
    module.errors = ModuleType("keyring.errors")
    module.errors.KeyringError = type("KeyringError", (Exception,), {})
    module.get_password = lambda *key: entries.get(key)
    module.set_password = lambda *entry: entries.update({entry[:2]: entry[2]})
    module.__spec__ = ModuleSpec("keyring", None)
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", module.errors)
    monkeypatch.setenv("TRIO_MCP_LOGINS", "keyring")
    assert person("whoami").err == "No logins are kept.\n"
    assert person("login", shop).status == 0
    assert person("tools", shop).status == 0
    assert person("logout", "--all").out.endswith("No logins are left in the keyring.\n")
    assert person("tools", shop).status == 1


def test_without_the_packages_one_is_told_what_to_install(
    cli: CommandLine, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    told = "pip install 'trio-mcp[cli,auth]'"
    assert told in cli("tools", shop).error
    assert told in cli("login", shop).error


def test_a_server_that_lets_everybody_in(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(Registry("open")) as url:
        monkeypatch.setenv("MCP_SERVER_URL", url)
        outcome = cli("login")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err == f"{url.removesuffix('/mcp')} lets you in without a login.\n"


def test_a_server_that_does_not_say_where_to_log_in(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screen, "can_ask", True)
    with served(Registry("secret"), lambda _: HttpPolicy(tokens={"x" * 20: "me"})) as url:
        for words in (["tools", url], ["login", url]):
            outcome = cli(*words)
            assert outcome.status == 1
            assert outcome.error.endswith(" (--token-env VARIABLE passes a token)")
