"""What is good once, or known for a while, at all instances that share a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.auth.server.support import After, Issuer, call, ec_key, proof, resource_server
from tests.registry.elsewhere import Elsewhere
from tests.store.contents import lose_all, values_of
from tests.store.redis_server import redis_server
from tests.support.tools import echo, registry_of
from tests.transports.http.fleet import Fleet, Unsteady, fleet
from tests.transports.http.support import Host, ModernClient, hosting
from trio_mcp import Context, HttpPolicy, Registry
from trio_mcp.auth import DPoP, Introspection
from trio_mcp.extending import ExtensionRequest, ServerExtension
from trio_mcp.middleware import McpCall, McpRequest
from trio_mcp.registry import states
from trio_mcp.registry.sealing import Sealer
from trio_mcp.store.changes import Put
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store
from trio_mcp.transports.http.sharing import shared as sharing

pytestmark = pytest.mark.requirement("M2")

ELICITS: dict[str, Any] = {"elicitation": {}}


# -- sealed states ---------------------------------------------------------------------------------


async def ask(context: Context, about: str = "") -> str:
    """Ask something."""
    return (await context.elicit("why?", str)).value


def asking(**options: Any) -> Registry:
    registry = Registry("asking", **options)
    registry.tool(ask)
    registry.tool(echo)
    return registry


def logging_one() -> Registry:
    registry = asking()
    registry.log_handler()
    return registry


async def pass_through(given: McpRequest, call_next: Callable[[Any], Any]) -> Any:
    return await call_next(given)


def sync_asking() -> Registry:
    """The middleware asks, and the tool itself has no context."""

    async def asks(given: McpCall, call_next: Callable[[Any], Any]) -> Any:
        await given.context.elicit("why?", str)
        return await call_next(given)

    registry = Registry("asking", middleware=[asks])

    @registry.tool(name="ask")
    def plain(about: str = "") -> str:
        return "done"

    return registry


class Around(ServerExtension):
    """Runs around calls, and does nothing."""

    identifier = "com.example/around"
    wraps = ("tools/call",)

    async def around(self, request: ExtensionRequest, proceed: Any) -> Any:
        return await proceed()


def mounted() -> Registry:
    registry = Registry("near")
    registry.mount(asking(), None)
    return registry


def remote() -> Registry:
    registry = Registry("near")
    registry.mount(Elsewhere(), None)
    return registry


WAYS: dict[str, Callable[[], Registry]] = {
    "a context": asking,
    "its log": logging_one,
    "middleware": partial(asking, middleware=[pass_through]),
    "middleware of calls": sync_asking,
    "an extension": partial(asking, extensions=[Around()]),
    "a part": mounted,
}


def client_at(host: Host, **headers: str) -> ModernClient:
    return ModernClient(host, headers, capabilities=ELICITS)


async def first_round(
    host: Host, tool: str = "ask", headers: dict[str, str] | None = None, **arguments: Any
) -> dict[str, Any]:
    """Call a tool that asks; returns the parameters of the second round."""
    answer = await client_at(host, **(headers or {})).call(tool, **arguments)
    asked = answer["result"]
    given = {"action": "accept", "content": {"value": "because"}}
    return {
        "name": tool,
        "arguments": arguments,
        "requestState": asked["requestState"],
        "inputResponses": dict.fromkeys(asked["inputRequests"], given),
    }


async def second_round(host: Host, params: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = await client_at(host).begin("tools/call", params).answer()
    return answer


@pytest.mark.parametrize("way", WAYS)
async def test_a_state_is_good_once_at_all_instances(way: str) -> None:
    async with fleet(WAYS[way]) as those:
        params = await first_round(those.hosts[0])
        answers: list[dict[str, Any]] = []

        async def send(host: Host) -> None:
            answers.append(await second_round(host, params))

        async with trio.open_nursery() as nursery:
            for host in those.hosts:
                nursery.start_soon(send, host)
        assert sorted("result" in each for each in answers) == [False, False, True]
        [message] = {each["error"]["message"] for each in answers if "error" in each}
        assert message.startswith("The request state is not acceptable")


async def test_a_state_for_a_server_elsewhere_is_passed_on_once() -> None:
    async with fleet(remote) as those:
        params = await first_round(those.hosts[0], "ask")
        answers = [await second_round(host, params) for host in those.hosts]
        assert ["result" in each for each in answers] == [True, False, False]


async def test_a_state_with_another_request_stays_good_for_its_own() -> None:
    async with fleet(asking) as those:
        params = await first_round(those.hosts[0], about="this")
        other = {**params, "arguments": {"about": "that"}}
        assert "error" in await second_round(those.hosts[1], other)
        assert "result" in await second_round(those.hosts[2], params)


async def test_a_state_outlives_a_store_that_is_away() -> None:
    store = Unsteady()
    async with fleet(asking, store=store) as those:
        params = await first_round(those.hosts[0])
        store.away = True
        answer = await second_round(those.hosts[1], params)
        assert "send it again" in answer["error"]["message"]
        assert "result" in await client_at(those.hosts[1]).call("echo", text="hi")
        store.away = False
        assert "result" in await second_round(those.hosts[1], params)
        assert "error" in await second_round(those.hosts[2], params)


async def test_a_state_of_an_instance_with_other_keys_is_said_to_be_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fleet(lambda: asking(state_keys=[Sealer.generate_key()])) as those:
        params = await first_round(those.hosts[0])
        assert "error" in await second_round(those.hosts[1], params)
        assert "unknown key: " in caplog.text
        assert "the same state_keys, or a store" in caplog.text
        assert "result" in await second_round(those.hosts[0], params)


async def test_keys_outlive_the_instance_that_made_them() -> None:
    store = MemoryStore()
    async with fleet(asking, size=1, store=store) as those:
        params = await first_round(those.hosts[0])
    async with fleet(asking, store=store) as those:
        assert "result" in await second_round(those.hosts[0], params)


async def test_a_store_that_loses_everything_gets_the_keys_back(autojump_clock: Any) -> None:
    store = MemoryStore()
    async with fleet(asking, store=store) as those:
        params = await first_round(those.hosts[0])
        lose_all(store)
        async with fleet(asking, size=1, store=store) as newcomer:  # it makes a key of its own
            other = await first_round(newcomer.hosts[0])
            await trio.sleep(20)  # within which an instance sees what the store has lost
            assert "result" in await second_round(newcomer.hosts[0], params)
            assert "result" in await second_round(those.hosts[1], other)


async def test_servers_of_other_names_have_other_keys() -> None:
    store = MemoryStore()

    def others() -> Registry:
        registry = Registry("others")
        registry.tool(ask)
        return registry

    async with fleet(asking, store=store) as those, fleet(others, store=store) as strangers:
        params = await first_round(those.hosts[0])
        assert "error" in await second_round(strangers.hosts[0], params)


@pytest.mark.parametrize("shared", [False, True])
async def test_one_owner_has_a_share_of_the_states_that_are_remembered(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (states, sharing):
        monkeypatch.setattr(module, "STATES_OF_ONE", 2)
    policy = HttpPolicy(trusted_proxies=["127.0.0.1"])
    async with AsyncExitStack() as stack:
        if shared:
            hosts = (await stack.enter_async_context(fleet(asking, policy, size=2))).hosts
        else:
            hosts = [await stack.enter_async_context(hosting(asking(), policy=policy))]
        for address in ("192.0.2.7", "192.0.2.8"):
            served = []
            for number in range(3):
                host = hosts[number % len(hosts)]
                headers = {"x-forwarded-for": address}
                params = await first_round(host, headers=headers)
                client = client_at(host, **headers)
                answer = await client.begin("tools/call", params).answer()
                served.append("result" in answer)
            assert served == [True, True, False]


# -- proofs ----------------------------------------------------------------------------------------

KEY = ec_key()
ISSUER = Issuer()
TOKEN = ISSUER.token(cnf={"jkt": KEY.thumbprint()}, exp=After(86400))


def echoing() -> Registry:
    return registry_of(echo)


def protected_by(issuer: Issuer, **changes: Any) -> HttpPolicy:
    return HttpPolicy(auth=resource_server(issuer, **changes), guess_rate=None)


async def prove(host: Host, proof: str) -> int:
    return (await call(host, TOKEN, scheme="DPoP", dpop=proof)).status


async def good_once(those: Fleet) -> None:
    proofs = [proof(KEY, TOKEN) for _ in those.hosts]
    for number, each in enumerate(proofs):
        host, *others = those.hosts[number:] + those.hosts[:number]
        assert await prove(host, each) == 200
        for other in (host, *others):
            assert await prove(other, each) == 401


async def test_a_proof_is_good_once_at_all_instances() -> None:
    async with fleet(echoing, protected_by(ISSUER, dpop=DPoP())) as those:
        await good_once(those)


async def test_a_nonce_is_good_at_all_instances() -> None:
    async with fleet(echoing, protected_by(ISSUER, dpop=DPoP(nonces=True))) as those:
        first = await call(those.hosts[0], TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN))
        nonce = first.headers["dpop-nonce"]
        found = [await prove(host, proof(KEY, TOKEN, nonce=nonce)) for host in those.hosts]
        assert found == 3 * [200]


async def test_one_key_has_a_tenth_of_all_proofs_at_all_instances() -> None:
    async with fleet(echoing, protected_by(ISSUER, dpop=DPoP(max_proofs=50))) as those:
        found = [await prove(those.hosts[number % 3], proof(KEY, TOKEN)) for number in range(7)]
        assert found == 5 * [200] + 2 * [401]
        key = ec_key()
        token = ISSUER.token(cnf={"jkt": key.thumbprint()})
        response = await call(those.hosts[0], token, scheme="DPoP", dpop=proof(key, token))
        assert response.status == 200


async def test_nobody_is_let_in_by_a_proof_while_the_store_is_away() -> None:
    store = Unsteady()
    async with fleet(echoing, protected_by(ISSUER, dpop=DPoP()), store=store) as those:
        store.away = True
        response = await call(those.hosts[0], TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN))
        assert response.status == 503
        assert response.headers["retry-after"] == "1"
        store.away = False
        assert await prove(those.hosts[0], proof(KEY, TOKEN)) == 200


@pytest.mark.needs("redis-server")
async def test_what_is_good_once_in_redis(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with open_store(server.url) as store:
            async with fleet(echoing, protected_by(ISSUER, dpop=DPoP()), store=store) as those:
                await good_once(those)
            async with fleet(asking, store=store) as those:
                params = await first_round(those.hosts[0])
                answers = [await second_round(host, params) for host in those.hosts]
                assert ["result" in each for each in answers] == [True, False, False]


# -- introspection ---------------------------------------------------------------------------------

HOW = Introspection(endpoint=f"{ISSUER.url}/introspect", client_id="we", client_secret="secret")


def opaque(**tokens: dict[str, Any]) -> Issuer:
    issuer = Issuer()
    issuer.introspected = {
        name: issuer.claims(active=True, **changes) for name, changes in tokens.items()
    }
    return issuer


async def test_one_instance_asks_about_a_token(autojump_clock: Any) -> None:
    issuer = opaque(good={"sub": "Alice Liddell"})
    async with fleet(echoing, protected_by(issuer, verifier=HOW)) as those:
        for host in those.hosts:
            assert (await call(host, "good")).status == 200
            await trio.sleep(10)
        assert len(issuer.asked) == 1
        kept = values_of(those.store)
        [value] = [value for key, value in kept.items() if key.startswith("token-")]
        assert b"Alice" not in value
        assert "good" not in "".join(kept)
        issuer.introspected["good"] = {"active": False}
        await trio.sleep(29)
        assert [(await call(host, "good")).status for host in those.hosts] == 3 * [200]
        await trio.sleep(2)  # wherever it was read, it is as old as the first answer
        assert [(await call(host, "good")).status for host in those.hosts] == 3 * [401]


async def test_guesses_leave_nothing_in_the_store() -> None:
    issuer = opaque()
    async with fleet(echoing, protected_by(issuer, verifier=HOW)) as those:
        before = set(values_of(those.store))
        for number in range(20):
            assert (await call(those.hosts[0], f"guess-{number}")).status == 401
        assert set(values_of(those.store)) == before


async def test_what_is_in_the_store_is_no_answer_for_another_token() -> None:
    issuer = opaque(mine={}, root={"sub": "root"})
    async with fleet(echoing, protected_by(issuer, verifier=HOW)) as those:
        await call(those.hosts[0], "mine")
        await call(those.hosts[0], "root")
        kept = values_of(those.store)
        mine, root = (key for key in kept if key.startswith("token-"))
        await those.store.commit(Put(mine, kept[root], ttl=30))
        await those.store.commit(Put(root, kept[mine], ttl=30))
        assert (await call(those.hosts[1], "mine")).status == 200
        assert len(issuer.asked) == 3


async def test_issuers_are_asked_while_the_store_is_away() -> None:
    issuer, store = opaque(good={}), Unsteady()
    async with fleet(echoing, protected_by(issuer, verifier=HOW), store=store) as those:
        store.away = True
        for host in those.hosts:
            assert (await call(host, "good")).status == 200
        assert len(issuer.asked) == 3
