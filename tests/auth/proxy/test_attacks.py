"""What someone tries who wants to get in by another one's login. The guide names each attack."""

import html
import json
import re
import time
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import trio
import trio.testing

from tests.auth.proxy.world import CALLBACK, PROVIDER, SERVER, Browser, Provider, world
from tests.auth.server.support import by_hmac, ec_key, sign, unsigned

SECRETS = re.compile(r"provider-|mcp-server at the provider")


async def begun(here) -> str:
    """Begin a login, consent, and return where the provider is to send the browser back."""
    if not here.client.id:
        await here.client.register()
    url = here.client.authorization_url(prompt="consent").removeprefix(SERVER)
    page = await here.browser.send("GET", url)
    onward = await here.browser.consent(page)
    there: str = onward.headers["location"]
    assert there.startswith(f"{PROVIDER}/authorize?")
    return here.provider.log_in(there)


# -- the confused deputy ---------------------------------------------------------------------------


@pytest.mark.requirement("P3")
async def test_nobody_goes_on_to_the_provider_without_consent():
    async with world() as here:
        await here.client.register(client_name="Mallory's tool")
        url = here.client.authorization_url()
        page = await here.browser.send("GET", url.removeprefix(SERVER))
        text = html.unescape(page.body.decode())
        assert page.status == 200
        assert "Mallory's tool" in text
        assert "app.test" in text
        assert CALLBACK in text
        assert "has not been verified" in text
        assert here.provider.asked == []


@pytest.mark.requirement("P3")
async def test_a_browser_is_asked_once_for_each_client():
    async with world() as here:
        await here.client.log_in()
        await here.client.log_in()
        assert len(here.browser.pages) == 1
        await here.client.log_in(prompt="consent")
        assert len(here.browser.pages) == 2
        await here.client.register(client_name="Another")  # which anyone can call itself
        await here.client.log_in()
        assert len(here.browser.pages) == 3


async def test_a_browser_remembers_the_consents_for_sixteen_clients():
    async with world() as here:
        await here.client.log_in()
        first = here.client.id
        for number in range(15):
            await here.client.register(client_name=f"Client {number}")
            await here.client.log_in()
        here.client.id = first
        await here.client.log_in()
        assert len(here.browser.pages) == 16
        await here.client.register(client_name="One more")
        await here.client.log_in()
        here.client.id = first
        await here.client.log_in()
        assert len(here.browser.pages) == 18


async def test_a_consent_in_one_browser_is_none_in_another():
    async with world() as here:
        await here.client.log_in()
        elsewhere = Browser(here.host, here.provider)
        await elsewhere.visit(here.client.authorization_url())
        assert len(elsewhere.pages) == 1


async def test_what_waits_for_a_consent_is_no_login_that_has_it():
    async with world() as here:
        await here.client.register()
        page = await here.browser.send("GET", here.client.authorization_url().removeprefix(SERVER))
        found = re.search(r'name="ticket" value="([^"]+)"', page.body.decode())
        assert found is not None
        here.provider.codes["x"] = {}
        back = f"/auth/callback?code=x&state={html.unescape(found[1])}"
        assert (await here.browser.send("GET", back)).status == 400
        assert here.provider.asked == []


async def test_who_says_no_is_sent_back():
    async with world() as here:
        await here.client.register()
        here.browser.answer = "deny"
        answer = await here.client.authorize()
        assert (answer["error"], answer["state"]) == ("access_denied", here.client.state)
        assert here.provider.asked == []


# -- another one's browser -------------------------------------------------------------------------


@pytest.mark.requirement("P3")
async def test_a_login_goes_on_only_in_the_browser_that_began_it():
    async with world() as here:
        back = await begun(here)
        victim = Browser(here.host, here.provider)
        page = await victim.visit(back)
        assert page.status == 400
        assert "another browser" in page.body.decode()
        assert await here.browser.visit(back) != page  # and is not spoiled for its own


async def test_a_consent_form_of_another_browser_is_refused():
    async with world() as here:
        await here.client.register()
        url = here.client.authorization_url().removeprefix(SERVER)
        page = await here.browser.send("GET", url)
        victim = Browser(here.host, here.provider)
        await victim.send("GET", url)  # it has a cookie of its own
        refused = await victim.consent(page)
        assert refused.status == 400
        assert "location" not in refused.headers


@pytest.mark.requirement("P3")
async def test_the_cookie_is_for_this_host_alone_and_for_no_script():
    async with world() as here:
        await begun(here)
        assert here.browser.set_cookies
        for cookie in here.browser.set_cookies:
            name, *flags = (part.strip() for part in cookie.split(";"))
            assert name.startswith("__Host-")
            assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(flags)
            assert not any(flag.startswith("Domain") for flag in flags)


async def test_a_made_up_cookie_is_worth_nothing():
    async with world() as here:
        back = await begun(here)
        name = next(iter(here.browser.cookies))
        here.browser.cookies[name] = "x" * 100
        assert (await here.browser.visit(back)).status == 400


@pytest.mark.requirement("P3")
async def test_pages_run_no_script_and_are_in_no_frame():
    async with world() as here:
        await here.client.register(client_name="<script>alert(1)</script>\u202e")
        url = here.client.authorization_url(state='"><script>').removeprefix(SERVER)
        for path in (url, "/authorize?client_id=<script>", "/auth/callback?state=<script>"):
            page = await here.browser.send("GET", path)
            assert "<script" not in page.body.decode()
            assert "\u202e" not in page.body.decode()
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "script-src" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["referrer-policy"] == "no-referrer"
            assert page.headers["cache-control"] == "no-store"


# -- redirects -------------------------------------------------------------------------------------


@pytest.mark.requirement("P3")
@pytest.mark.parametrize(
    ("registered", "asked", "is_good"),
    [
        (CALLBACK, CALLBACK, True),
        (CALLBACK, CALLBACK + "/", False),
        (CALLBACK, CALLBACK + "?x=1", False),
        (CALLBACK, "https://app.test/callbac%6b", False),
        (CALLBACK, "https://APP.test/callback", False),
        (CALLBACK, "https://app.test:443/callback", False),
        (CALLBACK, "https://evil.test/callback", False),
        (CALLBACK, "https://app.test@evil.test/callback", False),
        (CALLBACK, "https://app.test/callback#x", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:4711/cb", True),
        ("http://127.0.0.1:80/cb", "http://127.0.0.1:4711/cb", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:4711/other", False),
        ("http://127.0.0.1:1/cb", "http://localhost:1/cb", False),
        ("http://localhost:1/cb", "http://localhost.evil.test:1/cb", False),
        ("http://[::1]:1/cb", "http://[::1]:2/cb", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:2@evil.test/cb", False),
        ("cursor://app/cb", "cursor://app/cb", True),
        ("cursor://app:1/cb", "cursor://app:2/cb", False),
    ],
)
async def test_redirect_uris_are_compared_exactly(registered, asked, is_good):
    async with world() as here:
        assert (await here.client.register(redirect_uris=[registered]))["status"] == 201
        url = here.client.authorization_url(redirect_uri=asked, response_type="token")
        answer = await here.browser.send("GET", url.removeprefix(SERVER))
        assert answer.status == (303 if is_good else 400)
        assert answer.headers.get("location", asked).startswith(asked)
        assert ("location" in answer.headers) is is_good


@pytest.mark.requirement("P3")
@pytest.mark.parametrize(
    "uri",
    [
        "http://app.test/callback",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://app.test/#fragment",
        "https://user@app.test/",
        "https:///path",
        "//app.test/",
        "callback",
        "https://app.test/ x",
        "https://app.test/\r\nset-cookie: x=1",
        "https://app.test/" + "x" * 3000,
        "https://äpp.test/",
        "http://127.0.0.1.evil.test/",
        "http://[::1/",
        "http://127.0.0.1:99999/",
        "",
        7,
        None,
    ],
)
async def test_a_redirect_uri_that_leads_nowhere_good_is_not_registered(uri):
    async with world() as here:
        answer = await here.client.register(redirect_uris=[uri])
        assert (answer["status"], answer["error"]) == (400, "invalid_redirect_uri")


async def test_the_author_may_name_the_hosts_of_redirects():
    async with world(redirect_hosts=["app.test"]) as here:
        assert (await here.client.register())["status"] == 201
        local = await here.client.register(redirect_uris=["http://localhost:1/cb"])
        assert local["status"] == 201
        for uri in ("https://other.test/cb", "cursor://app/cb"):
            assert (await here.client.register(redirect_uris=[uri]))["status"] == 400


async def test_what_goes_wrong_with_an_unknown_client_is_no_redirect():
    async with world() as here:
        for changes in ({"client_id": "made-up"}, {"client_id": None}, {"client_id": "x" * 9000}):
            url = here.client.authorization_url(**changes)
            answer = await here.browser.send("GET", url.removeprefix(SERVER))
            assert answer.status == 400
            assert "location" not in answer.headers


# -- codes -----------------------------------------------------------------------------------------


@pytest.mark.requirement("P3")
async def test_a_code_that_comes_twice_ends_the_login():
    async with world() as here:
        await here.client.register()
        code = (await here.client.authorize())["code"]
        here.client.tokens = (await here.client.redeem(code)).json()
        assert (await here.client.redeem(code)).json()["error"] == "invalid_grant"
        assert await here.client.call("who") == 401
        assert (await here.client.refresh()).json()["error"] == "invalid_grant"


@pytest.mark.requirement("P3")
@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": "x" * 43},
        {"code_verifier": None},
        {"redirect_uri": "https://evil.test/"},
        {"code": "made.0.up"},
        {"code": None},
    ],
)
async def test_a_code_is_for_who_asked_for_it(changes):
    async with world() as here:
        await here.client.register()
        code = (await here.client.authorize())["code"]
        refused = await here.client.redeem(**{"code": code, **changes})
        assert (refused.status, refused.json()["error"]) == (400, "invalid_grant")


async def test_another_client_cannot_use_a_code():
    async with world() as here:
        await here.client.register()
        code = (await here.client.authorize())["code"]
        thief = here.new_client()
        await thief.register()
        thief.verifier = here.client.verifier
        assert (await thief.redeem(code)).json()["error"] == "invalid_grant"


async def test_another_client_cannot_use_a_refresh_token():
    async with world() as here:
        tokens = await here.client.log_in()
        thief = here.new_client()
        await thief.register()
        refused = await thief.refresh(tokens["refresh_token"])
        assert refused.json()["error"] == "invalid_grant"
        assert (await here.client.refresh()).status == 200


async def test_a_confidential_client_needs_its_secret():
    async with world() as here:
        await here.client.register(token_endpoint_auth_method="client_secret_basic")
        await here.client.log_in()
        assert (await here.client.refresh()).status == 200
        here.client.secret = "another"
        refused = await here.client.refresh()
        assert (refused.status, refused.json()["error"]) == (401, "invalid_client")
        assert "basic" in refused.headers["www-authenticate"].lower()


async def test_pkce_is_needed_and_it_is_s256():
    async with world() as here:
        await here.client.register()
        for changes in (
            {"code_challenge": None},
            {"code_challenge_method": "plain"},
            {"code_challenge_method": None},
            {"code_challenge": "short"},
        ):
            assert (await here.client.authorize(**changes))["error"] == "invalid_request"


async def test_tokens_are_for_this_server_alone():
    async with world() as here:
        await here.client.register()
        answer = await here.client.authorize(resource="https://other.test/mcp")
        assert answer["error"] == "invalid_target"
        code = (await here.client.authorize())["code"]
        refused = await here.client.redeem(code, resource="https://other.test/mcp")
        assert refused.json()["error"] == "invalid_target"


# -- forged tokens ---------------------------------------------------------------------------------


@pytest.mark.requirement("P2", "P3")
async def test_forged_tokens_are_refused():
    async with world() as here:
        tokens = await here.client.log_in()
        head, body, _ = tokens["access_token"].split(".")
        claims = {
            "iss": SERVER,
            "aud": f"{SERVER}/mcp",
            "sub": "alice-1",
            "client_id": here.client.id,
            "scope": "",
            "iat": int(time.time()),
            "exp": int(time.time()) + 600,
        }
        keys = (await here.browser.send("GET", "/.well-known/jwks.json")).json()["keys"]
        kid = keys[0]["kid"]
        forged = [
            f"{head}.{body}.",
            f"{head}.{body}.{'A' * 86}",
            unsigned({"alg": "none", "typ": "at+jwt"}, claims),
            sign(claims, ec_key(kid), alg="ES256", kid=kid, typ="at+jwt"),
            by_hmac({"alg": "HS256", "kid": kid}, claims, json.dumps(keys[0]).encode()),
            tokens["refresh_token"],
            here.provider.id_token(None),
            "provider-0",
        ]
        for token in forged:
            assert await here.client.call("who", token) == 401


# -- a provider that lies, or is down --------------------------------------------------------------


def _claims(**changes):
    def lie(provider: Provider) -> None:
        provider.claims |= changes

    return lie


def _metadata(**changes):
    def lie(provider: Provider) -> None:
        provider.metadata |= changes

    return lie


def _answer(path, answer):
    def lie(provider: Provider) -> None:
        provider.answers[f"{PROVIDER}{path}"] = answer

    return lie


def _json(value, status=200):
    return lambda _: httpx2.Response(status, json=value)


LIES = {
    "an ID token of another issuer": _claims(iss="https://evil.test"),
    "an ID token for another client": _claims(aud="another"),
    "an ID token for several, and made for another": _claims(aud=["mcp-server", "x"], azp="x"),
    "an ID token that has expired": _claims(exp=int(time.time()) - 3600),
    "an ID token that never expires": _claims(exp=None),
    "an ID token of tomorrow": _claims(iat=int(time.time()) + 86_400),
    "an ID token of another login": _claims(nonce="another"),
    "an ID token of no one": _claims(sub=""),
    "a key that it does not publish": lambda provider: _answer("/jwks", _json({"keys": []}))(
        provider
    ),
    "tokens without an ID token": _answer("/token", _json({"access_token": "a"})),
    "no tokens": _answer("/token", _json({})),
    "a token of a megabyte": _answer("/token", _json({"access_token": "a" * 1_000_000})),
    "tokens of another kind": _answer("/token", _json({"access_token": 7, "id_token": []})),
    "an error page": _answer("/token", lambda _: httpx2.Response(500, html="<h1>provider-1</h1>")),
    "an error": _answer("/token", _json({"error": "invalid_client"}, 401)),
    "an error that is a success": _answer("/token", _json({"error": "bad_verification_code"})),
    "no answer": _answer("/token", lambda _: OSError("no network")),
    "an unsigned ID token": _answer(
        "/token", _json({"access_token": "a", "id_token": unsigned({"alg": "none"}, {"sub": "x"})})
    ),
}


@pytest.mark.requirement("P3")
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_login_that_cannot_be_believed_ends_on_a_clear_page(lie, caplog):
    async with world() as here:
        back = await begun(here)
        lie(here.provider)
        page = await here.browser.visit(back)
        assert page.status == 502
        assert "did not log you in" in page.body.decode()
        assert not SECRETS.search(page.body.decode() + caplog.text)


@pytest.mark.parametrize("option", ["allow", "grant_scopes"])
async def test_a_function_of_the_author_s_that_fails_is_a_clear_page(option, caplog):
    def fail(identity):
        raise KeyError("the secret of the author")

    async with world(**{option: fail}) as here:
        page = await here.browser.visit(await begun(here))
        assert page.status == 500
        assert "secret of the author" not in page.body.decode()
    assert "allow or grant_scopes" in caplog.text


@pytest.mark.parametrize(
    "lie",
    [
        _metadata(issuer="https://evil.test"),
        _metadata(token_endpoint="http://login.test/token"),
        _metadata(authorization_endpoint=None),
        _answer("/.well-known/openid-configuration", lambda _: httpx2.Response(500)),
        _answer("/.well-known/openid-configuration", lambda _: httpx2.Response(200, text="{")),
    ],
)
async def test_a_provider_whose_metadata_cannot_be_used_is_a_clear_page(lie):
    async with world() as here:
        lie(here.provider)
        await here.client.register()
        page = await here.browser.visit(here.client.authorization_url())
        assert page.status == 502
        assert "did not log you in" in page.body.decode()


async def test_a_redirect_of_another_provider_is_refused():
    provider = Provider(metadata={"authorization_response_iss_parameter_supported": True})
    async with world(provider) as here:
        back = await begun(here)
        assert (await here.browser.visit(back + "&iss=https://evil.test")).status == 502
        good = await begun(here)
        end = await here.browser.visit(f"{good}&iss={PROVIDER}")
        assert end.startswith(CALLBACK)


async def test_a_person_who_is_refused_by_the_provider_is_sent_back():
    async with world() as here:
        back = await begun(here)
        state = dict(parse_qsl(urlsplit(back).query))["state"]
        end = await here.browser.visit(f"{SERVER}/auth/callback?error=access_denied&state={state}")
        assert end.startswith(f"{CALLBACK}?error=access_denied")


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.requirement("P3")
async def test_a_parameter_that_comes_twice_is_refused():
    async with world() as here:
        await here.client.register()
        url = here.client.authorization_url().removeprefix(SERVER)
        for name, value in parse_qsl(urlsplit(url).query):
            answer = await here.browser.send("GET", f"{url}&{name}={value}")
            assert answer.status == 400
            assert "location" not in answer.headers


@pytest.mark.parametrize("name", ["state", "scope", "client_id", "redirect_uri", "x"])
async def test_a_long_parameter_is_refused(name):
    async with world() as here:
        await here.client.register()
        url = here.client.authorization_url(**{name: "x" * 20_000}).removeprefix(SERVER)
        assert (await here.browser.send("GET", url)).status == 400


@pytest.mark.parametrize("path", ["/token", "/revoke", "/register", "/consent"])
async def test_a_body_that_is_no_form_is_refused(path):
    async with world() as here:
        for kind, body in (
            ("application/json", b"{"),
            ("application/json", b"[]"),
            ("text/plain", b"x"),
            ("application/x-www-form-urlencoded", b"a=1&a=2"),
            ("application/x-www-form-urlencoded", b"&".join(b"%d=1" % n for n in range(200))),
            ("application/x-www-form-urlencoded", b"\xff=\xff"),
            ("application/x-www-form-urlencoded", b""),
        ):
            headers = {"host": "mcp.test", "content-type": kind}
            answer = await here.host.send("POST", path, headers, body).end()
            assert 400 <= answer.status < 500
        long = await here.host.send("POST", path, {"host": "mcp.test"}, b"x" * 100_000).end()
        assert long.status == 413


async def test_other_methods_are_refused():
    async with world() as here:
        for path in ("/token", "/authorize", "/consent", "/auth/callback", "/register"):
            answer = await here.browser.send("DELETE", path)
            assert answer.status == 405
            assert answer.headers["allow"]


async def test_registrations_are_bounded():
    async with world() as here:
        many = [f"https://app.test/{number}" for number in range(11)]
        assert (await here.client.register(redirect_uris=many))["status"] == 400
        long = [f"https://app.test/{number}/{'x' * 1000}" for number in range(9)]
        assert (await here.client.register(redirect_uris=long))["status"] == 400
        named = await here.client.register(client_name="x" * 10_000)
        assert len(named["client_name"]) == 100
        assert (await here.client.register(redirect_uris=[]))["status"] == 400
        method = await here.client.register(token_endpoint_auth_method="private_key_jwt")
        assert method["error"] == "invalid_client_metadata"


def asked_for_tokens(here) -> int:
    return sum(url.endswith("/token") for url in here.provider.asked)


async def test_a_made_up_code_is_asked_for_once_with_each_login():
    async with world() as here:
        back = urlsplit(await begun(here))
        state = dict(parse_qsl(back.query))["state"]
        for number in range(5):
            page = await here.browser.send(
                "GET", f"{back.path}?code=made-up-{number}&state={state}"
            )
            assert page.status >= 400
        assert "was tried before" in html.unescape(page.body.decode())
        assert asked_for_tokens(here) == 1


async def test_an_address_comes_back_from_the_provider_so_often(monkeypatch):
    monkeypatch.setattr("trio_mcp.auth.proxy.browser.MAX_RETURNS", 3)
    async with world() as here:
        for _ in range(4):
            back = urlsplit(await begun(here))
            state = dict(parse_qsl(back.query))["state"]
            page = await here.browser.send("GET", f"{back.path}?code=made-up&state={state}")
        assert page.status == 400
        assert "wait for some minutes" in html.unescape(page.body.decode())
        assert asked_for_tokens(here) == 3


@pytest.mark.requirement("P3")
async def test_slow_clients_of_one_address_keep_out_no_others():
    async def endless(_: httpx2.Request) -> httpx2.Response:
        await trio.sleep_forever()
        raise AssertionError

    def document(request: httpx2.Request) -> httpx2.Response:
        about = {"client_id": str(request.url), "redirect_uris": [CALLBACK]}
        return httpx2.Response(200, json=about)

    async def shown_to(address: str, id: str) -> int:
        url = here.client.authorization_url(client_id=id).removeprefix(SERVER)
        headers = {"host": "mcp.test"}
        response = await here.host.send("GET", url, headers, client=(address, 1)).end()
        status: int = response.status
        return status

    urls = [f"https://slow.test/{number}" for number in range(100)]
    async with world() as here, trio.open_nursery() as nursery:
        here.provider.answers |= dict.fromkeys(urls, endless)
        here.provider.answers["https://good.test/client"] = document
        for url in urls:
            nursery.start_soon(shown_to, "192.0.2.1", url)
        await trio.testing.wait_all_tasks_blocked()
        assert await shown_to("192.0.2.1", urls[-1]) == 400
        assert await shown_to("192.0.2.2", "https://good.test/client") == 200
        assert len(here.provider.asked) < 20
        nursery.cancel_scope.cancel()


async def test_another_host_is_refused():
    async with world() as here:
        answer = await here.host.send("GET", "/authorize", {"host": "evil.test"}).end()
        assert answer.status == 403
