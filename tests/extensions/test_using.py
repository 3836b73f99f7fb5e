"""An extension that both sides have: everything that it adds, by every way and in both eras."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.extensions.later import GET, LATER, NUDGE, Later, LaterClient, make
from tests.extensions.ways import BLUE, client_of, each_era, each_way, raw
from tests.support.client import LEGACY, MODERN
from tests.support.tools import each_revision
from tests.transports.http.support import client_of as http_client
from tests.transports.http.support import hosting
from trio_mcp import Client, Limits, McpError, Registry, connect
from trio_mcp.errors import CallTimeout, ToolFailed
from trio_mcp.extending import ExtensionMethod, ExtensionRequest, Method, ServerExtension
from trio_mcp.server.scopes import needed_scopes
from trio_mcp.server.server import Server
from trio_mcp.wire.jsonrpc import Request

pytestmark = pytest.mark.requirement("K1")


class Hearing(LaterClient):
    """Stays subscribed until it has heard that a job has ended."""

    @property
    def ends(self) -> list[dict[str, Any]]:
        # News says how it is when it is sent: that of an earlier change may say the same.
        return [news for news in self.told if news.get("status") == "completed"]

    async def collect(self, call: Any, params: dict[str, Any]) -> dict[str, Any]:
        """Ask how it is. The answer that it has ended may be faster than the news of its end."""
        result = await super().collect(call, params)
        while not self.ends:
            await self.changed.wait()
        return result


@each_way
async def test_everything_that_it_adds(way: str, era: Any) -> None:
    ours, theirs = Hearing(), Later()
    async with client_of(make(theirs), way, era, extensions=[ours]) as client:
        assert client.extensions == {LATER: {"most": 10}}
        assert client.capabilities["extensions"] == {LATER: {"most": 10}}
        assert client.tools["paint"].details["_meta"][LATER] == {"always": False}
        now = await client.call_tool("add", {"a": 1, "b": 2})
        assert now.text == "3"
        assert now.meta is not None
        assert now.meta[LATER] == {"now": True}
        # A call whose answer is put off, which reports, logs, and asks.
        assert await client.call_tool("paint", {"thing": "door"}, returns=str) == "door is blue"
        assert ours.ends
        assert all(news["told"] == [1, "painting", 2] for news in ours.ends)
        counted = await client.request("later/count")
        assert (counted["count"], counted["settings"]) == (1, {"patience": 3})
        assert (await client.request("later/ask"))["colour"] == "blue"
        assert ours.told[-1] == {"colour": "blue"}
        await client.notify(NUDGE, {"how": "hard"})
        await client.ping()
        assert theirs.nudges == ([] if way == "stdio" else ["hard"])
        assert ours.life == [client.revision]
    assert ours.life == [client.revision, "closed"]
    assert theirs.life == ([] if way == "stdio" else ["opened", "closed"])


@each_era
async def test_a_call_in_the_background_has_its_own_limit(era: Any, autojump_clock: object) -> None:
    async with client_of(make(), "in-process", era, extensions=[LaterClient()]) as client:
        assert await client.call_tool("slow", returns=str) == "done"


@each_era
async def test_its_failures_are_those_of_the_call(era: Any) -> None:
    async with client_of(make(), "in-process", era, extensions=[LaterClient()]) as client:
        with pytest.raises(McpError, match="no such luck"):
            await client.call_tool("fail", {"how": "protocol"})
        with pytest.raises(ToolFailed, match="internal error"):
            await client.call_tool("fail", {"how": "surprise"}, returns=str)
        with pytest.raises(McpError, match="paint"):  # before there is anything to put off
            await client.request("tools/call", {"name": "paints", "arguments": {}})


@each_era
@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_who_waits_no_more_cancels_it(how: str, era: Any, autojump_clock: object) -> None:
    theirs = Later()
    async with client_of(make(theirs), "in-process", era, extensions=[LaterClient()]) as client:
        if how == "timeout":
            with pytest.raises(CallTimeout):
                await client.call_tool("fail", {"how": "hang"}, timeout=100)
            assert trio.current_time() >= 100
        else:
            with trio.move_on_after(100) as scope:
                await client.call_tool("fail", {"how": "hang"})
            assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        [job] = theirs.jobs.values()
        assert job.state == {"status": "cancelled"}


async def test_it_takes_the_time_that_it_needs(autojump_clock: object) -> None:
    async def patient(params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(3600)
        return {"action": "accept", "content": {"value": "green"}}

    theirs, ours = Later(), LaterClient()
    async with connect(make(theirs), extensions=[ours], handlers=BLUE) as client:
        client.tools["paint"].timeout = 1
        theirs.jobs.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "fail", {"how": "hang"})
            await trio.sleep(3600)
            [job] = theirs.jobs.values()
            assert job.state == {"status": "working"}
            nursery.cancel_scope.cancel()


@each_era
async def test_the_background_ends_with_serving(era: Any) -> None:
    theirs = Later()
    async with raw(make(theirs), {"modern": MODERN, "legacy": LEGACY}[era][-1]) as client:
        assert (await client.call("fail", how="hang"))["result"]["resultType"] == "later"
        [job] = theirs.jobs.values()
        assert job.state == {"status": "working"}
    assert theirs.life == ["opened", "closed"]
    assert job.state == {"status": "working"}  # it was cancelled from outside, and left at that


async def test_it_goes_on_while_the_registry_runs() -> None:
    theirs = Later()
    registry = make(theirs)
    async with registry.running():
        async with raw(registry, MODERN[-1]) as client:
            answer = await client.call("paint", thing="door")
        async with connect(registry, extensions=[LaterClient()]) as other:
            job = await other.request("later/get", {"laterId": answer["result"]["laterId"]})
            assert job["status"] == "input_required"
            [key] = job["inputRequests"]
            given = {key: {"action": "accept", "content": {"value": "red"}}}
            params = {"laterId": answer["result"]["laterId"]}
            await other.request("later/answer", {**params, "inputResponses": given})
            await trio.testing.wait_all_tasks_blocked()
            job = await other.request("later/get", params)
            assert job["result"]["content"][0]["text"] == "door is red"
        assert theirs.life == ["opened"]
    assert theirs.life == ["opened", "closed"]


@each_revision
async def test_what_travels(revision: str) -> None:
    """The official schemas judge all of it but what is the extension's own."""
    async with raw(make(), revision) as client:
        answer = await client.request(GET.name, {"laterId": "none"})
        assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "Job not found")
        answer = await client.call("slow")
        assert answer["result"]["resultType"] == "later"
        assert "_meta" in answer["result"] or revision in LEGACY
        answer = await client.request("tools/list")
        metas = [tool.get("_meta", {}) for tool in answer["result"]["tools"]]
        shown = {"always": True} in [meta.get(LATER) for meta in metas]
        assert shown is (revision >= "2025-06-18")
        watched = await client.request("later/watch", {"laterId": "none"})
        assert watched["error"]["code"] == (-32602 if revision in LEGACY else -32601)
        modern = await client.request("later/modern")
        assert ("result" in modern) is (revision in MODERN)


# -- subscriptions --------------------------------------------------------------------------------


async def listen(client: Any, **wanted: Any) -> Any:
    """Open a subscription; return what was agreed to, or the error."""
    await client.send(client.request_of("subscriptions/listen", {"notifications": wanted}))
    message = await client.receive()
    return message["params"]["notifications"] if "params" in message else message["error"]


async def test_a_subscription_is_told_how_things_are() -> None:
    async with raw(make(), MODERN[-1]) as client:
        answer = await client.call("paint", thing="door")
        id = answer["result"]["laterId"]
        agreed = await listen(client, laterIds=[id, "another's", id], toolsListChanged=True)
        assert agreed == {"laterIds": [id], "toolsListChanged": True}
        [key] = (await client.request(GET.name, {"laterId": id}))["result"]["inputRequests"]
        given = {key: {"action": "accept", "content": {"value": "red"}}}
        await client.request("later/answer", {"laterId": id, "inputResponses": given})
        told = [*client.told]
        while not told or told[-1]["params"]["status"] != "completed":
            told.append(await client.receive())
        assert {message["method"] for message in told} == {"notifications/later"}
        assert told[-1]["params"]["result"]["content"][0]["text"] == "door is red"
        metas = [message["params"]["_meta"] for message in told]
        assert all("io.modelcontextprotocol/subscriptionId" in meta for meta in metas)


async def test_one_that_is_on_or_off() -> None:
    theirs = Later()
    async with raw(make(theirs), MODERN[-1]) as client:
        assert await listen(client, laterEmptied=False) == {}
        assert await listen(client, laterEmptied=True) == {"laterEmptied": True}
        [serving] = [theirs.serving]
        serving.changed("laterEmptied")
        assert (await client.receive())["params"]["asked"] is not None
        await client.call("slow")  # now there is one, and so nothing to tell
        serving.changed("laterEmptied")
        serving.changed("unknown")
        assert "result" in await client.request("later/count")
        assert client.told == []


async def test_a_change_in_a_thread() -> None:
    theirs = Later()
    async with raw(make(theirs), MODERN[-1]) as client:
        assert await listen(client, laterEmptied=True) == {"laterEmptied": True}
        await trio.to_thread.run_sync(theirs.serving.changed, "laterEmptied")
        assert (await client.receive())["method"] == "notifications/later/emptied"


async def test_a_legacy_session_is_told_until_it_says_no() -> None:
    theirs = Later()
    async with raw(make(theirs), LEGACY[-1]) as client:
        id = (await client.call("fail", how="hang"))["result"]["laterId"]
        await client.request("later/watch", {"laterId": id})
        theirs.jobs[id].move(status="odd")
        message = await client.receive()
        assert (message["method"], message["params"]["status"]) == ("notifications/later", "odd")
        await client.request("later/watch", {"laterId": id, "off": True})
        theirs.jobs[id].move(status="even")
        assert "result" in await client.request("ping")
        assert client.told == []


async def test_there_is_a_most_to_what_a_session_is_told() -> None:
    async with raw(make(), LEGACY[-1], limits=Limits(max_subscriptions=2)) as client:
        ids = [(await client.call("slow"))["result"]["laterId"] for _ in range(3)]
        answers = [await client.request("later/watch", {"laterId": id}) for id in [*ids, ids[0]]]
        assert ["result" in answer for answer in answers] == [True, True, False, True]
        assert "which is the limit" in answers[2]["error"]["message"]


# -- HTTP -----------------------------------------------------------------------------------------


async def test_a_header_names_what_a_method_is_about() -> None:
    async with hosting(make()) as host:
        client: Any = await http_client(
            host, MODERN[-1], capabilities={"extensions": {LATER: {}}}, headers={"mcp-name": "none"}
        )
        response = await client.post(client.request_of(GET.name, {"laterId": "none"}))
        assert (await response.answer())["error"]["message"] == "Job not found"
        response = await client.post(client.request_of(GET.name, {"laterId": "other"}))
        assert (response.status, (await response.answer())["error"]["code"]) == (400, -32020)


async def test_a_method_of_one_era_needs_its_meta() -> None:
    async with raw(make(), LEGACY[-1]) as client:
        answer = await client.request("later/modern")
        assert answer["error"]["code"] == -32602
        assert "_meta" in answer["error"]["message"]


async def test_scopes_of_a_method_count() -> None:

    class Guarded(ServerExtension):
        identifier = "com.example/guarded"

        def methods(self) -> list[ExtensionMethod]:
            row = Method(name="guarded/get")
            return [ExtensionMethod(row=row, handler=self.get, scopes=["read"])]

        async def get(self, request: ExtensionRequest) -> dict[str, Any]:
            return {}

    registry = Registry("guarded", extensions=[Guarded()])
    request = Request(1, "guarded/get", {})
    assert needed_scopes(request, Server(registry, Limits()), pytest.fail) == {"read"}


async def test_what_a_block_raises_keeps_its_name() -> None:
    with pytest.raises(ZeroDivisionError):
        async with connect(make(), extensions=[LaterClient()]):
            raise ZeroDivisionError


def used(client: Client) -> None:
    """mypy reads this: extensions are typed."""
    client.subscribe(extensions={"laterIds": ["a"], "laterEmptied": True})
    client.subscribe(extensions=["laterIds"])  # type: ignore[arg-type]
