"""What a protected server says of itself, scopes, and what ends with its token."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import (
    ISSUER,
    METADATA,
    RESOURCE,
    After,
    Issuer,
    call,
    ec_key,
    protected,
)
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.support import ACCEPT, LegacyClient, ModernClient, Worker, each_manner
from trio_mcp import Context, Limits, Registry, extras
from trio_mcp.auth import DPoP, ResourceServer, github

KEY = ec_key()
LOGIN = Issuer(ISSUER, KEY)


def bearing(token: str) -> dict[str, str | bytes | None]:
    return {"authorization": f"Bearer {token}"}


def registry_with_scopes(**options: Any) -> Registry:
    registry = registry_of(echo, **options)

    @registry.tool(scopes=["files:write", "files:read"])
    async def write() -> str:
        return "written"

    @registry.resource("config://{name}", scopes=["config"])
    async def config(name: str) -> str:
        return name

    registry.add_completion(["a"], resource="config://{name}", argument="name")

    @registry.resource("open://all")
    async def everybody() -> str:
        return "open"

    @registry.prompt(scopes=["prompts"])
    async def review() -> str:
        return "review"

    return registry


@pytest.mark.requirement("J1")
@pytest.mark.parametrize("path", [METADATA, f"{METADATA}/mcp"])
async def test_the_metadata(path: str) -> None:
    async with protected(LOGIN, scopes=["b", "a"], documentation="https://d.example/") as host:
        response = await host.ask("GET", path, headers={"origin": "https://page.example"})
        assert response.status == 200
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.json() == {
            "resource": RESOURCE,
            "authorization_servers": [ISSUER],
            "scopes_supported": ["a", "b"],
            "bearer_methods_supported": ["header"],
            "resource_name": "test",
            "resource_documentation": "https://d.example/",
        }
        assert (await host.ask("POST", path)).status == 405
        asked = {"origin": "https://x.example", "access-control-request-method": "GET"}
        assert (await host.ask("OPTIONS", path, headers=asked)).status == 200
    async with protected(LOGIN, dpop=DPoP(required=True)) as host:
        document = (await host.ask("GET", path)).json()
        assert document["dpop_bound_access_tokens_required"] is True
        assert "ES256" in document["dpop_signing_alg_values_supported"]


@pytest.mark.requirement("J1")
async def test_the_resource_may_be_reached_by_its_name() -> None:
    async with protected(LOGIN) as host:
        for name, status in [("mcp.example.com", 200), ("evil.example.com", 403)]:
            client = ModernClient(host, {**bearing(LOGIN.token()), "host": name})
            assert (await client.begin_call("echo", text="hi").end()).status == status


@pytest.mark.requirement("J1")
@pytest.mark.parametrize("path", ["/tools", "/metrics", "/mcp"])
async def test_nothing_is_to_be_had_without_a_token(path: str) -> None:
    async with protected(LOGIN) as host:
        assert (await host.ask("GET", path)).status == 401
        assert (await host.ask("GET", path, headers=bearing(LOGIN.token(scope="")))).status == 403
        assert (await host.ask("GET", "/health")).status == 200


@pytest.mark.requirement("J1")
async def test_guessing_is_slowed() -> None:
    slow = {"rate": 0.001, "burst": 3}
    async with protected(LOGIN, policy=slow) as host:
        assert (await call(host, LOGIN.token())).status == 200
        statuses = [(await call(host, f"guess{each}")).status for each in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert (await call(host, LOGIN.token())).status == 429, "not even a right one"


# -- scopes ---------------------------------------------------------------------------------------

ASKED: list[tuple[str, dict[str, Any], str]] = [
    ("tools/call", {"name": "write"}, "files:read files:write"),
    ("resources/read", {"uri": "config://a"}, "config"),
    ("prompts/get", {"name": "review"}, "prompts"),
    (
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": ["open://all", "config://a"]}},
        "config",
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "config://{name}"},
            "argument": {"name": "name", "value": ""},
        },
        "config",
    ),
]


@pytest.mark.requirement("J1")
@pytest.mark.parametrize(("method", "params", "scopes"), ASKED, ids=[each[0] for each in ASKED])
async def test_scopes_are_named_together(method: str, params: Any, scopes: str) -> None:
    """All that is needed, the server's own among it, even if the token has none of them."""
    async with protected(LOGIN, registry=registry_with_scopes(scopes=["base"])) as host:
        for granted in ("mcp base", "", f"mcp {scopes}", "files:write mcp base"):
            client = ModernClient(host, bearing(LOGIN.token(scope=granted)))
            response = await client.begin(method, params).end()
            assert response.status == 403
            challenge = response.headers["www-authenticate"]
            needed = " ".join(sorted({"mcp", "base", *scopes.split()}))
            assert challenge.startswith('Bearer error="insufficient_scope", ')
            assert f'scope="{needed}", resource_metadata="https://' in challenge
        if method != "subscriptions/listen":
            client = ModernClient(host, bearing(LOGIN.token(scope=f"mcp base {scopes}")))
            client.judging = False
            assert (await client.begin(method, params).end()).status == 200


@pytest.mark.requirement("J3")
async def test_scopes_in_sessions_and_batches() -> None:
    async with protected(LOGIN, registry=registry_with_scopes()) as host:
        client = LegacyClient(host, "2025-03-26", bearing(LOGIN.token()))
        await client.initialize()
        assert (await client.begin_call("write").end()).status == 403
        one, two = (client.request_of("tools/call", {"name": each}) for each in ("echo", "write"))
        assert (await client.post([one, two])).status == 403
        client.headers = bearing(LOGIN.token(scope="mcp files:write files:read"))
        assert (await client.call("write"))["result"]["content"][0]["text"] == "written"


@pytest.mark.requirement("J3")
async def test_broad_scopes_imply_narrow_ones() -> None:
    implied = {
        "admin": ["files:write"],
        "files:write": ["files:read", "mcp"],
        "files:read": ["admin"],
    }
    async with protected(LOGIN, registry=registry_with_scopes(), implied_scopes=implied) as host:
        assert (await call(host, LOGIN.token(scope="admin"), "write")).status == 200
        assert (await call(host, LOGIN.token(scope="mcp"), "write")).status == 403


@pytest.mark.requirement("J3")
async def test_lists_are_cut_to_the_caller() -> None:
    async with protected(LOGIN, registry=registry_with_scopes(filter_lists=True)) as host:
        for scope, tools, prompts in [
            ("mcp", ["echo"], []),
            ("mcp files:read files:write", ["echo", "write"], []),
            ("mcp prompts", ["echo"], ["review"]),
        ]:
            client = ModernClient(host, bearing(LOGIN.token(scope=scope)))
            for method, key, names in [
                ("tools/list", "tools", tools),
                ("prompts/list", "prompts", prompts),
            ]:
                result = (await client.request(method))["result"]
                assert [each["name"] for each in result[key]] == names
                assert result["cacheScope"] == "private"
            page = await host.ask("GET", "/tools", headers=client.headers)
            assert [each["name"] for each in page.json()["tools"]] == tools
        client = ModernClient(host, bearing(LOGIN.token()))
        response = await client.begin_call("writ").end()
        assert b"didYouMean" not in response.body
    async with protected(LOGIN, registry=registry_with_scopes()) as host:
        client = ModernClient(host, bearing(LOGIN.token()))
        names = [each["name"] for each in (await client.request("tools/list"))["result"]["tools"]]
        assert names == ["echo", "write"]


@pytest.mark.requirement("J3")
@pytest.mark.parametrize("scopes", ["a", ["a b"], [1], [""]], ids=str)
def test_what_is_no_scope(scopes: Any) -> None:
    with pytest.raises(Exception, match="scope"):
        Registry("x", scopes=scopes)
    with pytest.raises(Exception, match="scope"):
        Registry("x").add_tool(echo, scopes=scopes)


# -- owners and ends ------------------------------------------------------------------------------


@pytest.mark.requirement("J3")
async def test_a_session_is_its_owners() -> None:
    other = Issuer("https://other.example.com", ec_key())
    async with protected(LOGIN, other, lenient_tokens=True) as host:
        client = LegacyClient(host, headers=bearing(LOGIN.token()))
        await client.initialize()
        strangers = [
            LOGIN.token(sub="bob"),
            LOGIN.token(client_id="other"),
            LOGIN.token(sub="alice", client_id=None),
            other.token(),
        ]
        for token in strangers:
            client.headers = bearing(token)
            assert (await client.begin_call("echo", text="hi").end()).status == 404
            assert await client.delete() == 404
        client.headers = bearing(LOGIN.token(jti="refreshed"))
        assert (await client.begin_call("echo", text="hi").end()).status == 200


@pytest.mark.requirement("J3")
@each_manner
async def test_a_subscription_ends_with_its_token(manner: str, autojump_clock: Any) -> None:
    async with protected(LOGIN, leeway=0) as host:
        host.manner = manner
        client = ModernClient(host, bearing(LOGIN.token()))
        wanted = {"notifications": {"toolsListChanged": True}}
        stream = client.begin("subscriptions/listen", wanted)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        started = trio.current_time()
        assert "result" in await stream.message()
        assert await stream.message() is None
        assert 590 < trio.current_time() - started <= 600


@pytest.mark.requirement("J3")
@pytest.mark.parametrize("era", ["modern", "session"])
async def test_what_is_shown_for_what_a_client_declares_needs_its_scopes(era: str) -> None:
    registry = registry_of(visible=lambda shown, caller: "sampling" in caller.capabilities)
    registry.add_tool(echo, scopes=["write"])
    async with protected(LOGIN, registry=registry) as host:
        for scope, is_let_in in (("mcp", False), ("mcp write", True)):
            client: Any = ModernClient if era == "modern" else LegacyClient
            client = client(
                host, headers=bearing(LOGIN.token(scope=scope)), capabilities={"sampling": {}}
            )
            if era == "session":  # only where its session is are its capabilities known
                await client.initialize()
            response = await client.begin_call("echo", text="x").end()
            assert (b'"text":"x"' in response.body) is is_let_in
            if era == "modern":
                assert response.status == (200 if is_let_in else 403)


@pytest.mark.requirement("J3")
@pytest.mark.parametrize("era", ["modern", "legacy", "batch", "session"])
@each_manner
async def test_a_call_ends_with_its_token(manner: str, era: str, autojump_clock: Any) -> None:
    worker = Worker()
    limits = Limits(tool_timeout=3600)
    async with protected(LOGIN, registry=worker.registry, leeway=0, limits=limits) as host:
        host.manner = manner
        client: Any = ModernClient if era == "modern" else LegacyClient
        client = client(host, headers=bearing(LOGIN.token()))
        if era == "session":  # which ends with its calls, and so without their answers
            await client.initialize()
            await client.begin_call("work").end()
            answers = [{"error": {"code": -32603}}]
        elif era == "batch":
            call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "work"}}
            headers = {"content-type": "application/json", "accept": ACCEPT, **client.headers}
            body = json.dumps([{**call, "id": 1}, {**call, "id": 2}]).encode()
            answers = (await host.ask("POST", headers=headers, body=body)).json()
        else:
            answers = [await (await client.begin_call("work").end()).answer()]
        assert 590 < trio.current_time() <= 600
        assert [answer["error"]["code"] for answer in answers] == [-32603] * len(answers)
        assert worker.cancelled == len(answers)


@pytest.mark.requirement("J3")
async def test_calls_with_other_tokens_go_on(autojump_clock: Any) -> None:
    worker = Worker()
    limits = Limits(tool_timeout=3600)
    async with protected(LOGIN, registry=worker.registry, leeway=0, limits=limits) as host:
        long = ModernClient(host, bearing(LOGIN.token(exp=After(1200)))).begin_call("work")
        brief = ModernClient(host, bearing(LOGIN.token(exp=After(300)))).begin_call("work")
        await brief.end()
        assert 290 < trio.current_time() <= 300
        assert worker.cancelled == 1
        await long.end()
        assert 1190 < trio.current_time() <= 1200


@pytest.mark.requirement("J3")
async def test_a_session_ends_with_the_last_of_its_tokens(autojump_clock: Any) -> None:
    async with protected(LOGIN, leeway=0) as host:
        client = LegacyClient(host, headers=bearing(LOGIN.token()))
        await client.initialize()
        stream = client.get()
        await stream.started()
        await trio.sleep(300)
        client.headers = bearing(LOGIN.token(jti="refreshed", exp=LOGIN.claims()["exp"] + 600))
        assert (await client.begin_call("echo", text="hi").end()).status == 200
        while await stream.event() is not None:
            pass
        assert 590 < trio.current_time() <= 600, "the stream has the first token"
        assert (await client.begin_call("echo", text="hi").end()).status == 200
        later = client.get()
        while await later.event() is not None:
            pass
        assert 1490 < trio.current_time() <= 1500
        client.headers = bearing(LOGIN.token(jti="too late"))
        assert (await client.begin_call("echo", text="hi").end()).status == 404


@pytest.mark.requirement("J3")
async def test_an_old_stream_of_events_ends_with_the_last_of_its_tokens(
    autojump_clock: Any,
) -> None:
    async with protected(LOGIN, leeway=0, sse_path="/sse") as host:
        headers = {"accept": "text/event-stream", **bearing(LOGIN.token())}
        stream = host.send("GET", "/sse", headers=headers)
        first = await stream.event()
        assert first is not None
        where = first.data or ""

        async def post(token: str, method: str = "ping") -> int:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "echo"}}
            given = {"content-type": "application/json", "accept": ACCEPT, **bearing(token)}
            return (
                await host.ask("POST", where, headers=given, body=json.dumps(body).encode())
            ).status

        assert await post(LOGIN.token(sub="bob")) == 404
        assert await post(LOGIN.token(scope="")) == 403
        await trio.sleep(300)
        later = LOGIN.claims()["exp"] + 600
        assert await post(LOGIN.token(jti="refreshed", exp=later)) == 202
        while await stream.event() is not None:
            pass
        await stream.end()
        assert 1490 < trio.current_time() <= 1500


@pytest.mark.requirement("J3")
async def test_a_handler_sees_the_token_that_its_request_came_with() -> None:
    async def scopes(context: Context) -> str:
        assert context.authorization is not None
        return " ".join(sorted(context.authorization.scopes))

    async with protected(LOGIN, registry=registry_of(scopes)) as host:
        client = LegacyClient(host, headers=bearing(LOGIN.token()))
        await client.initialize()
        async with trio.open_nursery() as nursery:

            async def one(more: str) -> None:
                client.headers = bearing(LOGIN.token(scope=f"mcp {more}"))
                answer = await client.call("scopes")
                assert text_of(answer) == f"mcp {more}"

            for more in ("x", "y", "z"):
                nursery.start_soon(one, more)
                await wait_all_tasks_blocked()


@pytest.mark.requirement("L2")
def test_a_missing_extra_is_told_before_anything_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda package: None)
    url = "https://mcp.example.com/mcp"
    for described in (
        partial(github, client_id="a", client_secret="s" * 40, resource=url),
        partial(ResourceServer, resource=url, issuers=["https://login.example.com"]),
    ):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'trio-mcp\[auth\]'"):
            described()

    async def verify(token: str) -> None:
        raise AssertionError

    assert ResourceServer(resource=url, issuers=["https://a.example"], verifier=verify).verifier
