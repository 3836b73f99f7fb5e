"""What is another's: the answer is the same as for what does not exist."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import ISSUER, After, Issuer, call, ec_key, protected
from tests.support.tools import registry_of, text_of
from tests.transports.http.support import LegacyClient, ModernClient, Worker
from trio_mcp import Context, Registry

LOGIN = Issuer(ISSUER, ec_key())
OTHER = Issuer("https://other.example.com", ec_key())


def token(issuer: Issuer = LOGIN, **claims: Any) -> str:
    """A token that does not expire before the last of all tests."""
    return issuer.token(exp=After(86400), **claims)


ALICE = token()
STRANGERS = {
    "another person": token(sub="bob"),
    "the same person by another program": token(client_id="other"),
    "the program itself": token(sub=None),
    "the person without a program": token(client_id=None),
    "the same name at another issuer": token(OTHER),
    "a name that looks like it": token(sub="alice\0"),
    "a name in other letters": token(sub="Alice"),
    "a name made of the parts": token(sub='alice", "app', client_id=None),
    "the program in the place of the person": token(sub="app", client_id="alice"),
}
by_each_stranger = pytest.mark.parametrize("who", STRANGERS)


def bearing(token: str) -> dict[str, str | bytes | None]:
    return {"authorization": f"Bearer {token}"}


def seen(response: Any) -> tuple[Any, ...]:
    """What can be told from a response."""
    told = {name: value for name, value in response.headers.items() if name != "date"}
    return response.status, response.body, told


@by_each_stranger
async def test_a_session(who: str) -> None:
    async with protected(LOGIN, OTHER, lenient_tokens=True) as host:
        alice = LegacyClient(host, headers=bearing(ALICE))
        await alice.initialize()
        stranger = LegacyClient(host, headers=bearing(STRANGERS[who]))
        answers = []
        for session in (alice.session, "unknown"):
            stranger.session = session
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}
            headers = {**stranger.session_headers(), **stranger.headers}
            answers.append(
                [
                    seen(await stranger.post(message)),
                    seen(await stranger.post([message])),
                    seen(await stranger.post(note)),
                    seen(await stranger.get().end()),
                    seen(await stranger.get("0/1").end()),
                    seen(await host.ask("DELETE", headers=headers)),
                ]
            )
        assert answers[0] == answers[1]
        assert {each[0] for each in answers[0]} == {404}
        assert (await alice.call("echo", text="hi"))["result"], "and it goes on"


@by_each_stranger
async def test_a_request_that_runs(who: str) -> None:
    worker = Worker()
    async with protected(LOGIN, OTHER, registry=worker.registry, lenient_tokens=True) as host:
        alice = ModernClient(host, bearing(ALICE))
        stranger = ModernClient(host, bearing(STRANGERS[who]))
        running = alice.begin_call("work")
        await worker.until(1)
        for id in (1, 999):
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
            response = await stranger.post({**note, "params": {"requestId": id}})
            assert (response.status, response.body) == (202, b"")
        await wait_all_tasks_blocked()
        assert worker.running == 1
        worker.go_on.set()
        assert text_of(await (await running.end()).answer()) == "done"


def asking() -> Registry:
    async def ask(context: Context) -> str:
        answer = await context.elicit("Who?", str)
        return f"{context.principal} said {answer.value}"

    return registry_of(ask)


@by_each_stranger
async def test_a_sealed_state(who: str) -> None:
    async with protected(LOGIN, OTHER, registry=asking(), lenient_tokens=True) as host:

        async def answered(token: str, state: str) -> Any:
            client = ModernClient(host, bearing(token), capabilities={"elicitation": {}})
            client.judging = False
            key = next(iter(result["inputRequests"]))
            params = {
                "name": "ask",
                "arguments": {},
                "inputResponses": {key: {"action": "accept", "content": {"value": "x"}}},
                "requestState": state,
            }
            return await client.begin("tools/call", params).end()

        alice = ModernClient(host, bearing(ALICE), capabilities={"elicitation": {}})
        result = (await alice.request("tools/call", {"name": "ask"}))["result"]
        state = result["requestState"]
        theirs = await answered(STRANGERS[who], state)
        made_up = await answered(STRANGERS[who], state[:-4] + "AAAA")
        assert theirs.status == made_up.status
        assert theirs.json()["error"] == made_up.json()["error"]
        assert "said x" in text_of(await (await answered(ALICE, state)).answer())


async def test_a_subscription_tells_its_own_only() -> None:
    registry = asking()

    @registry.resource("secret://{name}", scopes=["secrets"])
    async def secret(name: str) -> str:
        return name

    wanted = {"notifications": {"resourceSubscriptions": ["secret://a"]}}
    async with protected(LOGIN, registry=registry) as host:
        less = ModernClient(host, bearing(ALICE))
        assert (await less.begin("subscriptions/listen", wanted).end()).status == 403
        more = ModernClient(host, bearing(LOGIN.token(scope="mcp secrets")))
        stream = more.begin("subscriptions/listen", wanted)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        registry.notify_resource_updated("secret://a")
        assert (await stream.message())["method"] == "notifications/resources/updated"
        stream.disconnect()


async def test_what_a_refused_token_would_have_ended_goes_on(autojump_clock: Any) -> None:
    """Whoever sends a session's id with a token that is not good neither uses nor ends it."""
    async with protected(LOGIN) as host:
        alice = LegacyClient(host, headers=bearing(ALICE))
        await alice.initialize()
        alice.headers = bearing(ALICE[:-4] + "AAAA")
        assert (await alice.begin_call("echo", text="hi").end()).status == 401
        assert await alice.delete() == 401
        alice.headers = {}
        assert await alice.delete() == 401
        alice.headers = bearing(LOGIN.token(scope=""))
        assert await alice.delete() == 403
        alice.headers = bearing(ALICE)
        assert (await alice.call("echo", text="hi"))["result"]
        assert (await call(host, ALICE)).status == 200
        await trio.sleep(0)
