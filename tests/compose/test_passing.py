"""What passes through a proxy is as it came, member by member, but for what the guide says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing
from attrs import frozen

from tests.compose.rough import LEGACY, MODERN, Message, RoughClient, RoughServer, rough_client
from trio_mcp import Registry, Remote, serve_http
from trio_mcp.compose import gateway, open_proxy

pytestmark = pytest.mark.requirement("L4")
LIMIT = 60
GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "passing-through.md"

both_eras = pytest.mark.parametrize("down", ["modern", "legacy"])
all_eras = pytest.mark.parametrize("up", ["modern", "legacy"])

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META: Final = {"com.example/of-the-server": {"deep": [1, {"none": None}]}}
ICONS: Final = [{"src": "https://example.com/i.png", "sizes": ["48x48"], "x-unknown": 1}]


# -- the table ------------------------------------------------------------------------------------


@frozen
class Difference:
    """Something that is not as it came."""

    what: str
    member: str
    outcome: str


@frozen
class Row:
    """What may differ, as the guide has it."""

    what: str
    member: str
    servers: str
    callers: str
    outcome: str

    def covers(self, difference: Difference) -> bool:
        """Whether it speaks of a difference."""
        side, _, methods = self.what.partition(" of ")
        part, _, method = difference.what.partition(" of ")
        return (
            side == part
            and (self.member, self.outcome) == (difference.member, difference.outcome)
            and any(
                re.fullmatch(KINDS.get(kind, re.escape(kind.strip("`"))), method)
                for kind in methods.split(", or ")
            )
        )


KINDS: Final = {
    "any request": ".*",
    "any list": ".*/list",
    "any call": r"tools/call|resources/read|prompts/get|completion/complete",
}


def rows(up: str, down: str) -> list[Row]:
    """Read what the guide says of these two eras."""
    text = GUIDE.read_text().partition("## Every field")[2]
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[1].startswith("`"):
            servers, _, callers = cells[2].partition(", ")
            outcome = re.split(r"\W", cells[3])[0]
            found.append(Row(cells[0], cells[1].strip("`"), servers, callers, outcome))
    assert found
    return [row for row in found if up in row.servers and down in row.callers]


def differences(what: str, came: Any, passed: Any, member: str = "") -> Iterator[Difference]:
    """Compare two JSON values."""
    if isinstance(came, dict) and isinstance(passed, dict):
        for name in {**came, **passed}:
            inner = f"{member}.{name}".lstrip(".")
            if name not in passed:
                yield Difference(what, inner, "lost")
            elif name not in came:
                yield Difference(what, inner, "added")
            else:
                yield from differences(what, came[name], passed[name], inner)
    elif isinstance(came, list) and isinstance(passed, list) and len(came) == len(passed):
        for one, other in zip(came, passed, strict=True):
            yield from differences(what, one, other, member)
    elif came != passed or type(came) is not type(passed):
        yield Difference(what, member, "changed")


def judge(found: list[Difference], up: str, down: str, *sides: str) -> None:
    """Compare differences with the rows of the guide that speak of such messages."""
    known = rows(up, down)
    unknown = [each for each in found if not any(row.covers(each) for row in known)]
    assert unknown == []
    told = [row for row in known if row.what.startswith(sides)]
    assert [row for row in told if not any(row.covers(each) for each in found)] == []


# -- what the server says -------------------------------------------------------------------------


def described(**members: Any) -> Message:
    """Describe something, with members that are unknown here."""
    return {
        **members,
        "title": "T",
        "description": "D",
        "icons": ICONS,
        "_meta": META,
        "x-unknown": {"list": [1, None]},
    }


LISTED: Final = {
    "tools/list": (
        "tools",
        described(
            name="look",
            inputSchema={"type": "object", "properties": {"a": {"type": "integer", "x-k": 1}}},
            outputSchema={"type": "object", "x-k": True},
            annotations={"readOnlyHint": True, "title": "A", "x-unknown": "hint"},
        ),
    ),
    "resources/list": (
        "resources",
        described(
            uri="u://r",
            name="r",
            mimeType="text/plain",
            size=3,
            annotations={"audience": ["user"], "priority": 0.5, "x-unknown": 1},
        ),
    ),
    "resources/templates/list": (
        "resourceTemplates",
        described(
            uriTemplate="v://{x}", name="v", mimeType="a/b", annotations={"x-unknown": {"a": []}}
        ),
    ),
    "prompts/list": (
        "prompts",
        described(name="p", arguments=[{"name": "a", "required": True, "x-unknown": [1]}]),
    ),
}

CALLED: Final[dict[str, tuple[Message, Message]]] = {
    "tools/call": (
        {"name": "look", "arguments": {"a": 1}},
        {
            "content": [{"type": "text", "text": "x", "annotations": {"x": 1}, "x-unknown": 1}],
            "structuredContent": {"a": [1, None]},
            "isError": False,
        },
    ),
    "resources/read": (
        {"uri": "u://r"},
        {"contents": [{"uri": "u://r", "text": "t", "mimeType": "a/b", "_meta": META, "x": 1}]},
    ),
    "prompts/get": (
        {"name": "p", "arguments": {"a": "1"}},
        {
            "description": "d",
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi", "x": 1}}],
        },
    ),
    "completion/complete": (
        {
            "ref": {"type": "ref/prompt", "name": "p", "x-unknown": 1},
            "argument": {"name": "a", "value": "v", "x-unknown": 1},
            "context": {"arguments": {"b": "c"}},
        },
        {"completion": {"values": ["a"], "total": 1, "hasMore": False, "x-unknown": 1}},
    ),
}
CACHED: Final = (*LISTED, "resources/read", "server/discover")
CAPABILITIES: Final[Message] = {
    "tools": {"x-unknown": 1},
    "resources": {"subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


def answers(era: str) -> dict[str, Any]:
    """Answer each request, with members that are unknown here."""
    found: dict[str, Any] = {name: {key: [item]} for name, (key, item) in LISTED.items()}
    found |= {name: dict(result) for name, (_, result) in CALLED.items()}
    about = {"capabilities": CAPABILITIES, "instructions": "Be kind."}
    info = {
        "name": "behind",
        "version": "1.2",
        "title": "B",
        "icons": [{"src": "https://example.com/b.png"}],
    }
    if era == "modern":
        found["server/discover"] = {**about, "supportedVersions": [MODERN]}
        found["subscriptions/listen"] = acknowledge
    else:
        found["initialize"] = {**about, "protocolVersion": LEGACY, "serverInfo": info}
        found["resources/subscribe"] = found["logging/setLevel"] = dict
    for method, result in found.items():
        if isinstance(result, dict):
            result |= {"_meta": dict(META), "x-unknown": {"list": [1, None]}}
            if era == "modern":
                result["resultType"] = "complete"
                if method in CACHED:
                    result |= {"ttlMs": 60_000, "cacheScope": "private"}
    if era == "modern":
        found["server/discover"]["_meta"][SERVER_INFO] = {**info, "x-unknown": 1}
    else:
        found["resources/subscribe"] = found["logging/setLevel"] = nothing
    return found


async def nothing(wire: Any, request: Message) -> Message:
    return {}


async def acknowledge(wire: Any, request: Message) -> Message:
    """Agree to a subscription, and keep it open."""
    meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
    params = {"_meta": meta, "notifications": request["params"]["notifications"]}
    await wire.send(method="notifications/subscriptions/acknowledged", params=params)
    await trio.sleep_forever()
    raise AssertionError


@asynccontextmanager
async def between(
    up: str,
    down: str,
    monkeypatch: pytest.MonkeyPatch,
    capabilities: Message | None = None,
    **changed: Any,
) -> AsyncIterator[tuple[RoughServer, RoughClient]]:
    """A server that speaks JSON, a proxy, and a client that speaks JSON."""
    server = RoughServer(up, {**answers(up), **changed})

    def to_server(target: str, **options: Any) -> Remote:
        remote = Remote(target, **options)
        extensions = remote.connector.keywords["extensions"]  # type: ignore[attr-defined]
        remote.connector = partial(server.open, list_tools=False, extensions=extensions)
        return remote

    monkeypatch.setattr(gateway, "Remote", to_server)
    mocked = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    with trio.fail_after(1e6 if mocked else LIMIT):
        async with trio.open_nursery() as server.nursery:
            async with (
                open_proxy("http://127.0.0.1:1/mcp") as registry,
                rough_client(registry, down, capabilities) as client,
            ):
                yield server, client
            server.nursery.cancel_scope.cancel()


# -- requests and results -------------------------------------------------------------------------


@all_eras
@both_eras
async def test_requests_and_results_are_as_the_guide_says(
    up: str, down: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    said = answers(up)
    found: list[Difference] = []
    own = {"com.example/of-the-caller": 5}
    async with between(up, down, monkeypatch) as (server, client):
        if up == down == "modern":
            await trio.sleep(1)  # so that time has passed
            result = (await client.ask("server/discover", {}))["result"]
            found += differences("result of server/discover", said["server/discover"], result)
        elif up == down == "legacy":
            found += differences(
                "result of initialize", said["initialize"], client.got[0]["result"]
            )
        for method in LISTED:
            result = (await client.ask(method, {}, own))["result"]
            found += differences(f"result of {method}", said[method], result)
            sent = [message for message in server.heard if message.get("method") == method]
            params = sent[-1].get("params", {})
            found += differences(f"params of {method}", {"_meta": own}, {"_meta": {}, **params})
        for method, (params, _) in CALLED.items():
            params = {**params, "x-unknown": {"list": [1, None]}}
            result = (await client.ask(method, params, own))["result"]
            found += differences(f"result of {method}", said[method], result)
            sent = [message for message in server.heard if message.get("method") == method]
            asked = {**params, "_meta": own}
            found += differences(f"params of {method}", asked, sent[-1]["params"])
    judge(found, up, down, "result of any", "params of any")


@all_eras
@both_eras
async def test_a_proxy_declares_what_its_server_does(
    up: str, down: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with between(up, down, monkeypatch) as (_, client):
        if down == "modern":
            result = (await client.ask("server/discover", {}))["result"]
        else:
            result = client.got[0]["result"]
            refused = await client.ask("logging/setLevel", {"level": "info"})
            assert refused["error"]["message"] == "logging/setLevel handler not registered"
        assert result["capabilities"] == CAPABILITIES
        assert result["instructions"] == "Be kind."


@all_eras
async def test_what_a_server_cannot_tell_of_is_not_promised(
    up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with between(up, "modern", monkeypatch) as (_, client):
        wanted = {f"{kind}ListChanged": True for kind in ("tools", "resources", "prompts")}
        wanted["resourceSubscriptions"] = ["u://r"]  # type: ignore[assignment]
        await client.begin("subscriptions/listen", {"notifications": wanted})
        method = "notifications/subscriptions/acknowledged"
        told = await client.until(lambda message: message.get("method") == method)
        agreed = {"promptsListChanged": True, "resourceSubscriptions": ["u://r"]}
        assert told["params"]["notifications"] == agreed


@all_eras
@both_eras
async def test_errors_are_as_they_came(up: str, down: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = {"code": -32055, "message": "not today", "data": {"why": ["closed", None]}}
    refusing: dict[str, Any] = dict.fromkeys(CALLED, error)
    async with between(up, down, monkeypatch, **refusing) as (_, client):
        for method, (params, _) in CALLED.items():
            assert (await client.ask(method, params))["error"] == error


# -- notifications --------------------------------------------------------------------------------


@all_eras
@both_eras
async def test_what_is_said_during_a_call_is_as_the_guide_says(
    up: str, down: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Message] = []

    async def talk(wire: Any, request: Message) -> Message:
        token = request["params"]["_meta"]["progressToken"]
        progress = {"progress": 0.5, "total": 2, "message": "half"}
        log = {"level": "warning", "data": {"deep": [1, None]}, "logger": "l"}
        for method, params in (("progress", progress), ("message", log)):
            params["x-unknown"] = 1
            own = {"progressToken": token} if method == "progress" else {}
            said.append({"method": f"notifications/{method}", "params": params})
            await wire.send(method=f"notifications/{method}", params={**params, **own})
        result: Message = answers(up)["tools/call"]
        return result

    found: list[Difference] = []
    capabilities = {**CAPABILITIES, "logging": {}}
    handshake = "server/discover" if up == "modern" else "initialize"
    about = {**answers(up)[handshake], "capabilities": capabilities}
    changed: dict[str, Any] = {"tools/call": talk, handshake: about}
    async with between(up, down, monkeypatch, **changed) as (_, client):
        if down == "legacy":
            await client.ask("logging/setLevel", {"level": "info"})
        meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"}
        await client.ask("tools/call", CALLED["tools/call"][0], meta)
        for came in said:
            passed = await client.until(lambda message, came=came: _is_like(message, came))
            params = {**passed["params"]}
            if "progress" in passed["method"]:
                assert params.pop("progressToken") == "t"
            found += differences(f"params of {came['method']}", came["params"], params)
    judge(found, up, down, "params of `notifications")


def _is_like(message: Message, other: Message) -> bool:
    return bool(message.get("method") == other["method"])


@all_eras
@both_eras
@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
async def test_the_reason_of_a_cancellation_goes_along(
    up: str, down: str, meta: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(wire: Any, request: Message) -> Message:
        await trio.sleep_forever()
        raise AssertionError

    changed: dict[str, Any] = {"tools/call": hang}
    async with between(up, down, monkeypatch, **changed) as (server, client):
        id = await client.begin("tools/call", CALLED["tools/call"][0], meta)
        call = await server.until(lambda message: message.get("method") == "tools/call")
        why = {"requestId": id, "reason": "The user has had enough."}
        await client.wire.send(method="notifications/cancelled", params=why)
        told = await server.until(lambda heard: heard.get("method") == "notifications/cancelled")
        assert told["params"] == {**why, "requestId": call["id"]}


async def test_the_reason_of_a_question_that_is_withdrawn_goes_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(wire: Any, request: Message) -> Message:
        question = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
        await wire.send(id=7, method="elicitation/create", params=question)
        await asked.wait()
        params = {"requestId": 7, "reason": "I know it now."}
        await wire.send(method="notifications/cancelled", params=params)
        result: Message = answers("legacy")["tools/call"]
        return result

    asked = trio.Event()
    changed: dict[str, Any] = {"tools/call": ask}
    can = {"elicitation": {}}
    async with between("legacy", "legacy", monkeypatch, can, **changed) as (_, client):
        id = await client.begin("tools/call", CALLED["tools/call"][0])
        question = await client.until(lambda heard: heard.get("method") == "elicitation/create")
        asked.set()
        told = await client.until(lambda heard: heard.get("method") == "notifications/cancelled")
        assert told["params"] == {"requestId": question["id"], "reason": "I know it now."}
        await client.until(lambda heard: heard.get("id") == id and "result" in heard)


async def test_the_reason_of_a_cancellation_goes_along_over_http() -> None:
    reasons: list[Any] = []
    ended, started = trio.Event(), trio.Event()
    server, front = Registry("behind"), Registry("front")

    @server.tool
    async def hang() -> None:
        """Wait for ever."""
        started.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            reasons.append(cancelled.reason)
            raise
        finally:
            ended.set()

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(partial(serve_http, server, port=0))
            remote = Remote(handle.url, era="legacy")
            front.mount(remote)
            async with remote.running(), rough_client(front, "legacy") as client:
                await remote.ready()
                id = await client.begin("tools/call", {"name": "hang", "arguments": {}})
                await started.wait()
                why = {"requestId": id, "reason": "enough"}
                await client.wire.send(method="notifications/cancelled", params=why)
                await ended.wait()
            nursery.cancel_scope.cancel()
    assert reasons == ["enough"]


# -- questions ------------------------------------------------------------------------------------

QUESTIONS: Final[dict[str, Message]] = {
    "elicitation/create": {
        "mode": "url",
        "message": "Please pay.",
        "url": "https://example.com/pay",
        "x-unknown": {"list": [1]},
    },
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hm", "x-unknown": 1}}],
        "maxTokens": 5,
        "temperature": 0.5,
        "x-unknown": 1,
    },
    "roots/list": {"x-unknown": 1},
}
ANSWERS: Final[dict[str, Message]] = {
    "elicitation/create": {"action": "accept", "x-unknown": [1, None]},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Aha", "x-unknown": 1},
        "model": "m",
        "x-unknown": 1,
    },
    "roots/list": {"roots": [{"uri": "file:///a", "name": "a", "x-unknown": 1}], "x-unknown": 1},
}


@all_eras
@both_eras
async def test_questions_and_answers_are_as_the_guide_says(
    up: str, down: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Difference] = []
    heard: dict[str, Message] = {}
    capabilities: Message = {"elicitation": {"url": {}}, "sampling": {}, "roots": {}}

    async def ask(wire: Any, request: Message) -> Message:
        done: Message = answers(up)["tools/call"]
        if up == "modern":
            given = request["params"].get("inputResponses")
            if given is not None:
                heard.update(given)
                return done
            asked = {name: {"method": name, "params": QUESTIONS[name]} for name in QUESTIONS}
            return {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
        for id, method in enumerate(QUESTIONS):
            await wire.send(id=f"q{id}", method=method, params=QUESTIONS[method])
            reply = await server.until(lambda message, id=id: message.get("id") == f"q{id}")
            heard[method] = reply["result"]
        return done

    async def answer(question: Message) -> Message:
        method = question["method"]
        params = question.get("params", {})
        found.extend(differences(f"params of {method}", QUESTIONS[method], params))
        return ANSWERS[method]

    changed: dict[str, Any] = {"tools/call": ask}
    async with between(up, down, monkeypatch, capabilities, **changed) as (server, client):
        client.answer = answer
        params = CALLED["tools/call"][0]
        result = (await client.ask("tools/call", params))["result"]
        while result.get("resultType") == "input_required":
            asked = result["inputRequests"]
            given = {name: await answer(question) for name, question in asked.items()}
            again = {**params, "inputResponses": given, "requestState": result["requestState"]}
            result = (await client.ask("tools/call", again))["result"]
    assert heard == ANSWERS
    judge(found, up, down, "params of `elicitation")


# -- what is out of date --------------------------------------------------------------------------


@both_eras
async def test_a_list_is_asked_for_again_when_its_time_is_over(
    down: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    lists = answers("modern")
    changed = {name: dict(lists[name]) for name in LISTED}
    async with between("modern", down, monkeypatch, **changed) as (server, client):
        await trio.testing.wait_all_tasks_blocked()
        for name, (key, item) in LISTED.items():
            server.answers[name] = {**lists[name], key: [{**item, "title": "new"}]}
        tells = "prompts/list"  # of which the server says that it tells of its changes

        async def titles() -> dict[str, str]:
            found = {}
            for name, (key, _) in LISTED.items():
                found[name] = (await client.ask(name, {}))["result"][key][0]["title"]
            await trio.testing.wait_all_tasks_blocked()
            return found

        await trio.sleep(59)
        assert set((await titles()).values()) == {"T"}
        await trio.sleep(2)
        await titles()
        assert await titles() == {name: "T" if name == tells else "new" for name in LISTED}
        asked = len(server.heard)
        await titles()
        assert len(server.heard) == asked
