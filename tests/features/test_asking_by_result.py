"""Questions to the client: in modern revisions they are results, and the handler runs again."""

from __future__ import annotations

import base64
import json
import logging
import random
import string
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from tests.features import workroom_client
from tests.features.ways import client_of
from tests.features.workroom_client import is_question, rounds
from tests.support import official
from tests.support.client import MODERN, RawClient, modern_meta, serving
from tests.support.tools import INTERNAL, echo, error_of, failure_of, registry_of, text_of
from trio_mcp import Context, Handlers, Limits, McpError, Registry, connect, handle_message
from trio_mcp.registry import catalogue_of, sealing
from trio_mcp.registry.sealing import Sealer
from trio_mcp.transports.memory import Embedded
from trio_mcp.wire.payloads import ToolDescription

pytestmark = pytest.mark.requirement("H8")

[NOW] = MODERN
ALL = workroom_client.EVERYTHING
ELICIT = "elicitation/create"
TOOLS = [ToolDescription("weather", {"type": "object"})]
LOGS = "trio_mcp.calls"


def modern(registry: Registry, limits: Limits | None = None, **options: Any) -> Any:
    """Serve a registry to a modern client that can be asked anything."""
    return serving(registry, limits, **{"revision": NOW, "capabilities": ALL, **options})


def said(params: Any) -> Any:
    """An answer that depends on the question alone."""
    return {"action": "accept", "content": {"value": f"re {params['message']}"}}


async def text(context: Context, message: str, key: str | None = None) -> str:
    """Ask for a text."""
    answer = await context.elicit(message, str, key=key)
    return answer.value


async def start(client: RawClient, name: str = "ask", **more: Any) -> Any:
    """Call a tool, with whatever else belongs into the params."""
    return await client.request("tools/call", {"name": name, **more})


def questions_of(answer: Any) -> dict[str, str]:
    """The messages of the forms in a result, by key."""
    assert is_question(answer), answer
    return {
        key: each["params"]["message"] for key, each in answer["result"]["inputRequests"].items()
    }


def answered(answer: Any, **instead: Any) -> dict[str, Any]:
    """What a client adds to its request: answers to all questions."""
    given = {
        key: instead.get(message, {"action": "accept", "content": {"value": f"re {message}"}})
        for key, message in questions_of(answer).items()
    }
    return {"inputResponses": given, "requestState": answer["result"]["requestState"]}


async def again(client: RawClient, answer: Any, name: str = "ask", **more: Any) -> Any:
    """Send a call again, with all questions answered."""
    return await start(client, name, **{**answered(answer), **more})


# -- unwinding and running again ------------------------------------------------------------------


async def test_the_handler_is_unwound_and_runs_again():
    events: list[str] = []

    async def ask(context: Context) -> str:
        events.append("begin")
        try:
            value = await text(context, "Who?")
        except trio.Cancelled:
            events.append("cancelled")
            raise
        finally:
            events.append("end")
        return value

    async with modern(registry_of(ask)) as (client, _):
        first = await start(client)
        assert events == ["begin", "cancelled", "end"]
        assert text_of(await again(client, first)) == "re Who?"
        assert events == ["begin", "cancelled", "end", "begin", "end"]


async def test_what_the_client_gets():
    async def ask(context: Context) -> str:
        return await text(context, "Who?")

    async with modern(registry_of(ask)) as (client, _):
        result = (await start(client))["result"]
        assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}
        assert result["resultType"] == "input_required"
        [question] = result["inputRequests"].values()
        assert question == {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "Who?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"value": {"type": "string"}},
                    "required": ["value"],
                },
            },
        }
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "test"
        assert isinstance(result["requestState"], str)


async def test_prompts_and_resources_ask_in_the_same_way_and_give_no_caching_hints():
    registry = Registry("test", cache_ttl=60)

    @registry.prompt
    async def letter(to: str, context: Context) -> str:
        return await text(context, f"Who is {to}?")

    @registry.resource("config://app", cache_ttl=60, cache_scope="public")
    async def config(context: Context) -> str:
        return await text(context, "Which?")

    @registry.resource("users://{id}", cache_ttl=60)
    async def user(id: int, context: Context) -> str:
        return await text(context, f"User {id}?")

    async with modern(registry) as (client, _):
        for method, params, expected in [
            ("prompts/get", {"name": "letter", "arguments": {"to": "Ida"}}, "re Who is Ida?"),
            ("resources/read", {"uri": "config://app"}, "re Which?"),
            ("resources/read", {"uri": "users://7"}, "re User 7?"),
        ]:
            first = await client.request(method, params)
            assert not {"ttlMs", "cacheScope", "messages", "contents"} & first["result"].keys()
            final = await client.request(method, {**params, **answered(first)})
            assert final["result"]["resultType"] == "complete"
            assert expected in json.dumps(final["result"])
            assert ("ttlMs" in final["result"]) is (method == "resources/read")


async def test_nothing_else_may_ask(caplog):
    """Completion has no such results; and nobody is left waiting."""
    registry = Registry("test")
    registry.add_prompt(lambda to: to, name="letter", description="")

    @registry.completion(prompt="letter", argument="to")
    async def names(value: str, context: Context) -> list[str]:
        return [(await context.roots())[0].uri]

    async with modern(registry) as (client, _):
        ref = {"type": "ref/prompt", "name": "letter"}
        params = {"ref": ref, "argument": {"name": "to", "value": ""}}
        code, message = error_of(await client.request("completion/complete", params))
        assert code == -32603
        assert "completion/complete" in message


@pytest.mark.parametrize("count", [1, 2, 20])
async def test_one_question_after_the_other_takes_one_round_each(count):
    runs = 0

    async def ask(context: Context) -> str:
        nonlocal runs
        runs += 1
        return ", ".join([await text(context, f"q{number}") for number in range(count)])

    async with modern(registry_of(ask)) as (client, _):
        client.answers[ELICIT] = said
        answers = await rounds(client, "tools/call", {"name": "ask"})
        asked = [list(questions_of(each).values()) for each in answers[:-1]]
        assert asked == [[f"q{number}"] for number in range(count)]
        assert text_of(answers[-1]) == ", ".join(f"re q{number}" for number in range(count))
        assert runs == count + 1


async def test_questions_that_are_asked_side_by_side_travel_together():
    async def ask(context: Context) -> str:
        found = {}

        async def one(number: int) -> None:
            found[number] = await text(context, f"q{number}")

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(one, number)
        return str(sorted(found.items()))

    async with modern(registry_of(ask)) as (client, _):
        client.answers[ELICIT] = said
        first, final = await rounds(client, "tools/call", {"name": "ask"})
        assert sorted(questions_of(first).values()) == sorted(f"q{number}" for number in range(10))
        assert text_of(final) == str([(number, f"re q{number}") for number in range(10)])


async def test_nested_nurseries_travel_together_as_well():
    async def ask(context: Context) -> str:
        found = []

        async def tree(name: str, depth: int) -> None:
            async with trio.open_nursery() as nursery:
                if depth:
                    nursery.start_soon(tree, f"{name}l", depth - 1)
                    nursery.start_soon(tree, f"{name}r", depth - 1)
                found.append(await text(context, name))

        await tree("t", 3)
        return " ".join(sorted(found))

    async with modern(registry_of(ask)) as (client, _):
        client.answers[ELICIT] = said
        first, final = await rounds(client, "tools/call", {"name": "ask"})
        assert len(questions_of(first)) == 15
        assert len(text_of(final).split("re ")) == 16


async def test_questions_of_all_kinds_travel_together():
    async def ask(context: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.roots)
            nursery.start_soon(text, context, "Who?")
            nursery.start_soon(lambda: context.sample("Hi", max_tokens=1))
            nursery.start_soon(lambda: context.elicit_url("Go", "https://x.test"))
        return "done"

    async with modern(registry_of(ask)) as (client, _):
        client.answers = {**workroom_client.answers(), ELICIT: said}
        first, final = await rounds(client, "tools/call", {"name": "ask"})
        methods = sorted(each["method"] for each in first["result"]["inputRequests"].values())
        assert methods == [ELICIT, ELICIT, "roots/list", "sampling/createMessage"]
        assert text_of(final) == "done"


# -- names of questions ---------------------------------------------------------------------------


async def test_a_question_has_the_same_name_in_every_run_and_process():
    async def ask(mark: str, context: Context) -> str:
        return await text(context, f"Who is {mark}?")

    names = []
    for mark in ("a", "a", "b"):
        async with modern(registry_of(ask)) as (client, _):
            names += questions_of(await start(client, arguments={"mark": mark}))
    assert names[0] == names[1] != names[2]


async def test_the_same_question_asked_twice_gets_two_answers():
    async def ask(context: Context) -> str:
        return f"{await text(context, 'Again?')}, {await text(context, 'Again?')}"

    async with modern(registry_of(ask)) as (client, _):
        first = await start(client)
        given = {"action": "accept", "content": {"value": "one"}}
        second = await start(client, **answered(first, **{"Again?": given}))
        assert list(questions_of(second)) != list(questions_of(first))
        assert list(questions_of(second).values()) == ["Again?"]
        given = {"action": "accept", "content": {"value": "two"}}
        final = await start(client, **answered(second, **{"Again?": given}))
        assert text_of(final) == "one, two"


async def test_the_same_question_asked_side_by_side_gets_two_answers():
    async def ask(context: Context) -> str:
        found = []

        async def one() -> None:
            found.append(await text(context, "Again?"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        return ", ".join(sorted(found))

    async with modern(registry_of(ask)) as (client, _):
        first = await start(client)
        one, two = questions_of(first)
        responses = {
            one: {"action": "accept", "content": {"value": "one"}},
            two: {"action": "accept", "content": {"value": "two"}},
        }
        state = first["result"]["requestState"]
        final = await start(client, inputResponses=responses, requestState=state)
        assert text_of(final) == "one, two"


async def test_an_author_may_name_questions():
    """Then the question may be another one in each run."""
    runs = 0

    async def ask(context: Context) -> str:
        nonlocal runs
        runs += 1
        one = await text(context, f"Attempt {runs}: who?", key="who")
        return f"{one}, {await text(context, f'Attempt {runs}: where?', key='where')}"

    async with modern(registry_of(ask)) as (client, _):
        client.answers[ELICIT] = said
        first, second, final = await rounds(client, "tools/call", {"name": "ask"})
        assert questions_of(first) == {"who": "Attempt 1: who?"}
        assert questions_of(second) == {"where": "Attempt 2: where?"}
        assert text_of(final) == "re Attempt 1: who?, re Attempt 2: where?"


@pytest.mark.parametrize(
    "keys", [["x", "x", "x-2"], ["x-2", "x", "x"], ["x", "x", "x", "x-2", "x-3"]]
)
async def test_names_that_look_alike_are_kept_apart(keys):
    async def ask(context: Context) -> str:
        return ", ".join(
            [await text(context, f"q{number}", key) for number, key in enumerate(keys)]
        )

    async with modern(registry_of(ask)) as (client, _):
        client.answers[ELICIT] = said
        answers = await rounds(client, "tools/call", {"name": "ask"})
        asked = [key for each in answers[:-1] for key in questions_of(each)]
        assert len(set(asked)) == len(keys)
        assert text_of(answers[-1]) == ", ".join(f"re q{number}" for number in range(len(keys)))


# -- what the client may answer -------------------------------------------------------------------


async def three(context: Context) -> str:
    """Ask two things side by side, and then a third."""
    found = {}

    async def one(name: str) -> None:
        found[name] = await text(context, name, key=name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "a")
        nursery.start_soon(one, "b")
    found["c"] = await text(context, "c", key="c")
    return json.dumps(found, sort_keys=True)


def value(text: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": text}}


DONE = '{"a": "re a", "b": "re b", "c": "re c"}'


@pytest.mark.parametrize("backwards", [False, True])
async def test_answers_may_come_in_any_order(backwards):
    async with modern(registry_of(three)) as (client, _):
        more = answered(await start(client, "three"))
        if backwards:
            more["inputResponses"] = dict(reversed(more["inputResponses"].items()))
        second = await start(client, "three", **more)
        assert questions_of(second) == {"c": "c"}
        assert text_of(await again(client, second, "three")) == DONE


async def test_a_later_round_need_not_repeat_earlier_answers_and_cannot_change_them():
    async with modern(registry_of(three)) as (client, _):
        second = await again(client, await start(client, "three"), "three")
        more = answered(second)
        assert more["inputResponses"].keys() == {"c"}
        more["inputResponses"] |= {"a": value("changed"), "b": {"action": "decline"}}
        assert text_of(await start(client, "three", **more)) == DONE


async def test_what_is_not_answered_is_asked_again():
    async with modern(registry_of(three)) as (client, _):
        first = await start(client, "three")
        state = first["result"]["requestState"]
        second = await start(
            client, "three", requestState=state, inputResponses={"b": value("re b")}
        )
        assert questions_of(second) == {"a": "a"}
        state = second["result"]["requestState"]
        third = await start(client, "three", requestState=state, inputResponses={})
        assert questions_of(third) == {"a": "a"}
        state = third["result"]["requestState"]
        fourth = await start(client, "three", requestState=state)
        assert questions_of(fourth) == {"a": "a"}
        fifth = await again(client, fourth, "three")
        assert questions_of(fifth) == {"c": "c"}
        assert text_of(await again(client, fifth, "three")) == DONE


async def test_an_answer_is_kept_until_it_is_needed():
    """Even if the next run, for reasons of its own, asks something else first."""
    runs = 0

    async def ask(context: Context) -> str:
        nonlocal runs
        runs += 1
        names = ["late"] if runs == 1 else ["early", "late"]
        return ", ".join([await text(context, name) for name in names])

    async with modern(registry_of(ask)) as (client, _):
        client.answers[ELICIT] = said
        first, second, final = await rounds(client, "tools/call", {"name": "ask"})
        assert list(questions_of(first).values()) == ["late"]
        assert list(questions_of(second).values()) == ["early"]
        assert text_of(final) == "re early, re late"


async def test_answers_to_nothing_are_ignored():
    async with modern(registry_of(three)) as (client, _):
        nonsense = {"x": 3, "": None, "a-2": value("no"), "y" * 1000: {"action": "decline"}}
        first = await start(client, "three", inputResponses=nonsense)
        assert questions_of(first) == {"a": "a", "b": "b"}
        more = answered(first)
        more["inputResponses"] |= nonsense
        second = await start(client, "three", **more)
        assert questions_of(second) == {"c": "c"}
        more = answered(second)
        more["inputResponses"] |= nonsense
        assert text_of(await start(client, "three", **more)) == DONE


async def test_answers_without_a_state_count_for_what_is_asked():
    async with modern(registry_of(three)) as (client, _):
        given = {name: value(f"re {name}") for name in "abc"}
        assert text_of(await start(client, "three", inputResponses=given)) == DONE
        second = await start(client, "three", inputResponses={"a": given["a"], "b": given["b"]})
        assert questions_of(second) == {"c": "c"}
        assert text_of(await again(client, second, "three")) == DONE  # the state knows the others


async def test_the_same_answers_to_the_same_question_are_remembered_without_a_state_too():
    async def ask(context: Context) -> str:
        values = [await text(context, "Again?", key="x") for _ in range(2)]
        return f"{values} {await text(context, 'last')}"

    async with modern(registry_of(ask)) as (client, _):
        given = {"x": value("one"), "x-2": value("two")}
        second = await start(client, inputResponses=given)
        assert list(questions_of(second).values()) == ["last"]
        assert text_of(await again(client, second)) == "['one', 'two'] re last"


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"inputResponses": []}, ["inputResponses", "object", "array"]),
        ({"inputResponses": "a"}, ["inputResponses", "object", "string"]),
        ({"inputResponses": None}, ["inputResponses", "object", "null"]),
        ({"inputResponses": 3}, ["inputResponses", "object", "number"]),
        ({"inputResponses": {}, "requestState": 3}, ["requestState", "string", "number"]),
        ({"requestState": None}, ["requestState", "string", "null"]),
        ({"requestState": {}}, ["requestState", "string", "object"]),
        ({"requestState": ["x"]}, ["requestState", "string", "array"]),
    ],
)
async def test_wrong_types_are_refused_and_spoil_nothing(params, expected):
    async with modern(registry_of(three)) as (client, _):
        first = await start(client, "three")
        more = answered(first)
        answer = await start(client, "three", **{**more, **params})
        code, message = error_of(answer)
        assert code == -32602
        for part in expected:
            assert part in message
        assert questions_of(await start(client, "three", **more)) == {"c": "c"}


# -- the state ------------------------------------------------------------------------------------

REFUSED = (-32602, "The request state is not acceptable; send the request again, without it.")


def refused(answer: Any) -> bool:
    """Whether a state was refused; if so, with the one error for all reasons."""
    if "error" not in answer:
        return False
    assert error_of(answer) == REFUSED
    assert "data" not in answer["error"]
    return True


async def other(context: Context) -> str:
    """The same questions, of another tool."""
    return await three(context)


async def with_arguments(
    context: Context, number: float = 0, words: list[str] | None = None
) -> str:
    """The same questions, with arguments."""
    return await three(context)


def states(**options: Any) -> Registry:
    """A registry of tools, a prompt and a resource that all ask the same."""
    registry = Registry(options.pop("name", "test"), **options)
    for tool in (three, other, with_arguments):
        registry.add_tool(tool)
    registry.add_prompt(three)
    registry.add_resource("x:three", three)
    return registry


@pytest.mark.requirement("H9")
async def test_not_a_single_character_of_a_state_can_be_changed(caplog):
    async with modern(states()) as (client, _):
        more = answered(await start(client, "three"))
        state = more["requestState"]
        alphabet = string.ascii_letters + string.digits + "-_="
        # each position and each kind of change in turn; all of them are tried on the sealer itself
        for position, character in enumerate(state):
            other = random.Random(position).choice(alphabet.replace(character, ""))
            changed = (other, "", character + other, " " + character)[position % 4]
            more["requestState"] = state[:position] + changed + state[position + 1 :]
            assert refused(await start(client, "three", **more)), (position, changed)
        more["requestState"] = state
        assert questions_of(await start(client, "three", **more)) == {"c": "c"}
    assert "tampered" in caplog.text


@pytest.mark.requirement("H9")
@pytest.mark.parametrize(
    "state",
    ["", "x", "gAAAAA", "😀", "a" * 1_000_000, Sealer().seal({"answers": {}}, None), "\ud800"],
)
async def test_what_nobody_sealed_is_refused(state):
    async with modern(states()) as (client, _):
        if state != "\ud800":  # no JSON at all
            assert refused(await start(client, "three", requestState=state))
        assert questions_of(await start(client, "three"))


@pytest.mark.requirement("H9")
async def test_a_state_shows_nothing():
    async def ask(context: Context) -> str:
        return f"{await text(context, 'secret?')} {await text(context, 'more?')}"

    async with modern(registry_of(ask)) as (client, _):
        second = await start(
            client, **answered(await start(client), **{"secret?": value("swordfish")})
        )
        state = second["result"]["requestState"]
        assert b"swordfish" not in base64.urlsafe_b64decode(state)
        assert "swordfish" not in json.dumps(second)


@pytest.mark.requirement("H9")
async def test_a_state_expires(caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(sealing, "Sealer", partial(Sealer, clock=lambda: now))
    async with modern(states(state_ttl=60)) as (client, _):
        first, second = await start(client, "three"), await start(client, "three")
        now += 59.9
        assert questions_of(await again(client, first, "three")) == {"c": "c"}
        now += 0.2
        assert refused(await again(client, second, "three"))
        assert "expired" in caplog.text


@pytest.mark.requirement("H9")
async def test_how_long_a_state_is_good_is_the_registry_s_choice():
    for ttl in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="ttl"):
            _ = catalogue_of(states(state_ttl=ttl)).sealer
    sealer = catalogue_of(states(state_ttl=7)).sealer
    assert sealer.ttl == 7


@pytest.mark.requirement("H9")
async def test_a_state_is_good_for_its_own_request_alone(caplog):
    async with modern(states()) as (client, _):
        call, get, read = "tools/call", "prompts/get", "resources/read"
        ours = {"number": 1, "words": ["x"]}
        requests = [
            (call, {"name": "three"}),
            (call, {"name": "other"}),
            (call, {"name": "with_arguments"}),
            (call, {"name": "with_arguments", "arguments": ours}),
            (call, {"name": "with_arguments", "arguments": {**ours, "number": 2}}),
            (call, {"name": "with_arguments", "arguments": {**ours, "words": ["y"]}}),
            (get, {"name": "three"}),
            (read, {"uri": "x:three"}),
        ]
        for number, (method, params) in enumerate(requests):
            first = await client.request(method, params)
            more = answered(first)
            for place, (other_method, other_params) in enumerate(requests):
                if place != number:
                    answer = await client.request(other_method, {**other_params, **more})
                    assert refused(answer), (number, place)
            second = await client.request(method, {**params, **more})
            assert questions_of(second) == {"c": "c"}
    assert "foreign" in caplog.text


@pytest.mark.requirement("H9")
async def test_arguments_may_be_written_in_another_way():
    async with modern(states()) as (client, _):
        for one, two in [
            ({"number": 1, "words": ["x"]}, {"words": ["x"], "number": 1.0}),
            ({}, None),
            (None, {}),
        ]:
            first = await start(client, "with_arguments", arguments=one)
            second = await again(client, first, "with_arguments", arguments=two)
            assert questions_of(second) == {"c": "c"}


@pytest.mark.requirement("H9")
async def test_a_state_is_good_once(caplog):
    async with modern(states()) as (client, _):
        first = await start(client, "three")
        assert questions_of(await again(client, first, "three")) == {"c": "c"}
        assert refused(await again(client, first, "three"))
        assert "replayed" in caplog.text
        assert not [each for each in caplog.records if "re a" in each.getMessage()]


@pytest.mark.requirement("H9")
async def test_a_state_is_good_for_one_principal():
    async def send(principal: str | None, more: dict[str, Any]) -> Any:
        server = Embedded(registry)
        server.session.principal = principal
        meta = modern_meta(**{"io.modelcontextprotocol/clientCapabilities": ALL})
        params = {"name": "three", "_meta": meta, **more}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return json.loads(await server.handle(json.dumps(request).encode()) or b"")

    registry = states()
    for principal, wrong in [("ida", "ben"), ("ida", None), (None, "ida")]:
        more = answered(await send(principal, {}))
        assert refused(await send(wrong, more))
        assert questions_of(await send(principal, more)) == {"c": "c"}


KEYS = [Sealer.generate_key() for _ in range(3)]


@pytest.mark.requirement("H9")
@pytest.mark.parametrize(
    ("first_keys", "second_keys", "good"),
    [
        (KEYS[:1], KEYS[:1], True),
        (KEYS[:1], [KEYS[0].encode()], True),
        (KEYS[:1], [KEYS[1], KEYS[0]], True),  # the new one comes first
        ([KEYS[1], KEYS[0]], [KEYS[1]], True),
        ([KEYS[1], KEYS[0]], [KEYS[0]], False),  # sealed with the new one
        (KEYS[:1], KEYS[1:], False),
        (None, None, False),
        (KEYS[:1], None, False),
    ],
)
async def test_servers_that_share_keys_share_their_clients(first_keys, second_keys, good):
    one, two = states(state_keys=first_keys), states(state_keys=second_keys)
    async with modern(one) as (client, _), modern(two) as (other_client, _):
        first = await start(client, "three")
        second = await again(other_client, first, "three")
        assert refused(second) is not good
        if good:
            assert questions_of(second) == {"c": "c"}
            if first_keys == second_keys:
                assert text_of(await again(client, second, "three")) == DONE


@pytest.mark.requirement("H9")
async def test_servers_of_different_names_do_not_share_states():
    one, two = states(state_keys=KEYS[:1]), states(state_keys=KEYS[:1], name="other")
    async with modern(one) as (client, _), modern(two) as (other_client, _):
        first = await start(client, "three")
        assert refused(await again(other_client, first, "three"))
        assert questions_of(await again(client, first, "three")) == {"c": "c"}


@pytest.mark.requirement("H9")
async def test_all_connections_of_a_server_share_its_states():
    registry = states()
    async with modern(registry) as (client, _), modern(registry) as (other_client, _):
        first = await start(client, "three")
        second = await again(other_client, first, "three")
        assert questions_of(second) == {"c": "c"}
        assert refused(await again(client, first, "three"))
        assert text_of(await again(client, second, "three")) == DONE


@pytest.mark.requirement("H9")
async def test_the_cause_is_in_the_log_alone(caplog):
    caplog.set_level(logging.WARNING, LOGS)
    async with modern(states()) as (client, _):
        first = await start(client, "three")
        assert refused(await again(client, first, "other"))
        assert refused(await start(client, "three", requestState="x"))
        messages = [each.getMessage() for each in caplog.records if each.name == LOGS]
        assert len(messages) == 2
        assert "foreign" in messages[0]
        assert "tampered" in messages[1]
        assert not any(first["result"]["requestState"] in each for each in messages)


@pytest.mark.requirement("H9")
async def test_more_than_a_state_can_hold_is_a_failure(caplog):
    async with modern(registry_of(three)) as (client, _):
        first = await start(client, "three")
        huge = value("x" * 300_000)
        answer = await start(client, "three", **answered(first, a=huge))
        assert failure_of(answer) == "Tool three failed: too much was asked"
        assert "x" * 100 not in caplog.text


@pytest.mark.requirement("H9")
async def test_without_the_package_nobody_is_asked(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)

    async def ask(context: Context) -> str:
        return await text(context, "Who?")

    async with modern(registry_of(ask)) as (client, _):
        assert failure_of(await start(client)) == f"Tool ask failed: {INTERNAL}"
        assert "pip install 'trio-mcp[ask]'" in caplog.text


# -- who can be asked -----------------------------------------------------------------------------


async def elicits(context: Context) -> str:
    return (await context.elicit("Sure?", bool)).action


async def sends_away(context: Context) -> str:
    return (await context.elicit_url("Go", "https://x.test")).action


async def samples(context: Context) -> str:
    return (await context.sample("Hi", max_tokens=1)).text


async def samples_with_tools(context: Context) -> str:
    return (await context.sample("Hi", max_tokens=1, tools=TOOLS)).text


async def lists_roots(context: Context) -> str:
    return str(len(await context.roots()))


@pytest.mark.parametrize(
    ("tool", "capabilities", "needed"),
    [
        (elicits, {}, {"elicitation": {"form": {}}}),
        (elicits, {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
        (elicits, {"sampling": {}, "roots": {}}, {"elicitation": {"form": {}}}),
        (sends_away, {"elicitation": {}}, {"elicitation": {"url": {}}}),
        (sends_away, {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
        (samples, {"elicitation": {}}, {"sampling": {}}),
        (samples_with_tools, {}, {"sampling": {}}),
        (samples_with_tools, {"sampling": {}}, {"sampling": {"tools": {}}}),
        (lists_roots, {"sampling": {}}, {"roots": {}}),
    ],
)
async def test_a_client_that_has_not_declared_it_is_told_what_is_needed(tool, capabilities, needed):
    registry = registry_of(tool)
    registry.add_prompt(tool)
    async with modern(registry, capabilities=capabilities) as (client, _):
        for method in ("tools/call", "prompts/get"):
            answer = await client.request(method, {"name": tool.__name__})
            assert error_of(answer)[0] == -32021
            assert answer["error"]["data"] == {"requiredCapabilities": needed}
            if official.available():
                name = "MissingRequiredClientCapabilityError"
                official.validator(NOW, name).validate(answer)


async def test_capabilities_are_those_of_the_request_at_hand():
    """What one request declares is not remembered for the next one."""
    async with modern(registry_of(elicits)) as (client, _):
        first = await start(client, "elicits")
        client.capabilities = {}
        assert (
            error_of(await start(client, "elicits", requestState=first["result"]["requestState"]))[
                0
            ]
            == -32021
        )


# -- handlers that resist -------------------------------------------------------------------------


async def swallows(context: Context) -> str:
    try:
        return await text(context, "Who?")
    except BaseException:
        return "swallowed"


async def raises_another(context: Context) -> str:
    try:
        return await text(context, "Who?")
    except trio.Cancelled as error:
        raise LookupError("another") from error


async def cleans_up(context: Context) -> str:
    try:
        return await text(context, "Who?")
    finally:
        await trio.lowlevel.checkpoint()


async def cleans_up_for_long(context: Context) -> str:
    try:
        return await text(context, "Who?")
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)


async def shields(context: Context) -> str:
    with trio.CancelScope(shield=True):
        return await text(context, "Who?")


async def shields_a_nursery(context: Context) -> str:
    found = []

    async def one(name: str) -> None:
        found.append(await text(context, name))

    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "Who?")
            nursery.start_soon(one, "Who?")
    return found[0]


async def has_a_deadline(context: Context) -> str:
    with trio.move_on_after(30) as scope:
        found = await text(context, "Who?")
    return "too late" if scope.cancelled_caught else found


async def fails_after_a_deadline(context: Context) -> str:
    with trio.fail_after(30):
        return await text(context, "Who?")


async def nests(context: Context) -> str:
    found = []

    async def inner() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0)
            found.append(await text(context, "Who?"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(inner)
        nursery.start_soon(trio.lowlevel.checkpoint)
    return found[0]


async def waits_beside(context: Context) -> str:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        found = await text(context, "Who?")
        nursery.cancel_scope.cancel()
    return found


async def tries_twice(context: Context) -> str:
    """Swallows its cancellation, and asks again."""
    for _ in range(2):
        try:
            return await text(context, "Who?", key="who")
        except trio.Cancelled:
            continue
    return "gave up"


def in_a_thread(context: Context) -> str:
    return trio.from_thread.run(text, context, "Who?")


async def behind_a_thread(context: Context) -> str:
    return await trio.to_thread.run_sync(lambda: trio.from_thread.run(text, context, "Who?"))


RESISTING: list[Callable[..., Any]] = [
    swallows,
    raises_another,
    cleans_up,
    shields,
    shields_a_nursery,
    has_a_deadline,
    fails_after_a_deadline,
    nests,
    waits_beside,
    tries_twice,
    in_a_thread,
    behind_a_thread,
]


@pytest.mark.parametrize("tool", RESISTING, ids=lambda each: each.__name__)
async def test_handlers_that_resist_their_unwinding_are_asked_for_all_the_same(tool):
    async with modern(registry_of(tool)) as (client, _):
        client.answers[ELICIT] = said
        answers = await rounds(client, "tools/call", {"name": tool.__name__})
        assert [set(questions_of(each).values()) for each in answers[:-1]] == [{"Who?"}]
        assert text_of(answers[-1]) == "re Who?"


@pytest.mark.parametrize("way", ["in-process", "memory"])
@pytest.mark.parametrize("tool", RESISTING, ids=lambda each: each.__name__)
async def test_and_so_they_are_by_the_client(tool, way):
    async def elicit(params: Any) -> Any:
        return said(params)

    for era in ("modern", "legacy"):
        handlers = Handlers(elicitation=elicit)
        async with client_of(registry_of(tool), way, era, handlers=handlers) as client:
            assert (await client.call_tool(tool.__name__)).text == "re Who?"


async def test_a_handler_that_takes_its_time_to_end_is_waited_for(autojump_clock):
    async with modern(registry_of(cleans_up_for_long)) as (client, _):
        first = await start(client, "cleans_up_for_long")
        assert trio.current_time() == pytest.approx(5)
        assert text_of(await again(client, first, "cleans_up_for_long")) == "re Who?"


async def test_a_handler_that_raises_while_it_is_unwound_is_in_the_log(caplog):
    async with modern(registry_of(raises_another, shields)) as (client, _):
        questions_of(await start(client, "shields"))
        assert "failed" not in caplog.text
        questions_of(await start(client, "raises_another"))
        assert "failed while it was cancelled" in caplog.text
        assert "LookupError" in caplog.text


async def test_a_thread_that_asks_is_let_go():
    """It gets an exception, and ends; the call does not wait for it."""
    ended: list[BaseException] = []
    done = threading.Event()

    def ask(context: Context) -> str:
        try:
            return trio.from_thread.run(context.roots)[0].uri
        except BaseException as error:
            ended.append(error)
            raise
        finally:
            done.set()

    async with modern(registry_of(ask)) as (client, _):
        client.answers = workroom_client.answers()
        first = await start(client)
        assert is_question(first)
        await trio.to_thread.run_sync(done.wait)
        assert len(ended) == 1
        more = workroom_client.retry_of(first, client.answers)
        assert text_of(await start(client, **more)) == "file:///home"


async def test_a_handler_that_never_ends_gets_its_time_out(autojump_clock):
    async def ask(context: Context) -> str:
        try:
            return await text(context, "Who?")
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)

    async def beside(context: Context) -> str:
        async def stubborn() -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stubborn)
            nursery.start_soon(text, context, "Who?")
        return "never"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    registry.add_tool(beside, timeout=10)
    registry.add_tool(echo)
    async with modern(registry) as (client, _):
        for name in ("ask", "beside"):
            began = trio.current_time()
            answer = await start(client, name)
            assert failure_of(answer) == f"Tool {name} timed out after 10 s"
            assert trio.current_time() - began == pytest.approx(11)  # with a second of patience
        assert text_of(await start(client, "echo", arguments={"text": "fine"})) == "fine"


async def test_what_is_asked_after_the_time_limit_is_not_asked(autojump_clock):
    async def ask(context: Context) -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await text(context, "Who?")
        return "never"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    async with modern(registry) as (client, _):
        assert failure_of(await start(client)) == "Tool ask timed out after 10 s"
        assert trio.current_time() == pytest.approx(10)


async def test_a_question_that_is_given_up_is_not_asked():
    async def cancelled_before(context: Context) -> str:
        with trio.CancelScope() as scope:
            scope.cancel()
            await text(context, "Never?")
        return await text(context, "Who?")

    async def cancelled_beside(context: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(text, context, "Never?")
            for _ in range(5):  # by now it is asked, and waits for company
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        return await text(context, "Who?")

    async with modern(registry_of(cancelled_before, cancelled_beside)) as (client, _):
        for name in ("cancelled_before", "cancelled_beside"):
            first = await start(client, name)
            assert list(questions_of(first).values()) == ["Who?"]
            assert text_of(await again(client, first, name)) == "re Who?"


@pytest.mark.requirement("B1")
async def test_each_round_has_a_time_limit_of_its_own(autojump_clock):
    async def ask(context: Context) -> str:
        await trio.sleep(6)
        await text(context, "one")
        await text(context, "two")
        return "done"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    async with modern(registry) as (client, _):
        client.answers[ELICIT] = said
        answers = await rounds(client, "tools/call", {"name": "ask"})
        assert text_of(answers[-1]) == "done"
        assert trio.current_time() == pytest.approx(18)


@pytest.mark.requirement("B7")
async def test_a_call_that_is_cancelled_while_it_is_unwound_is_not_answered():
    unwinding, go_on = trio.Event(), trio.Event()

    async def ask(context: Context) -> str:
        try:
            return await text(context, "Who?")
        finally:
            unwinding.set()
            with trio.CancelScope(shield=True):
                await go_on.wait()

    async with modern(registry_of(ask, echo)) as (client, _):
        call = client.request_of("tools/call", {"name": "ask"})
        await client.send(call)
        await unwinding.wait()
        await client.cancel(call["id"])
        await wait_all_tasks_blocked()
        go_on.set()
        await wait_all_tasks_blocked()
        assert text_of(await start(client, "echo", arguments={"text": "next"})) == "next"


@pytest.mark.requirement("B9")
async def test_a_server_that_stops_while_a_handler_is_unwound(autojump_clock):
    async def ask(context: Context) -> str:
        try:
            return await text(context, "Who?")
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(5.5)
            return "a value that nobody may see"

    async with modern(registry_of(ask), Limits(shutdown_grace=5)) as (client, handle):
        call = client.request_of("tools/call", {"name": "ask"})
        await client.send(call)
        await wait_all_tasks_blocked(0.1)
        handle.stop()
        [answer] = await client.receive_all()
        assert error_of(answer) == (-32603, "Request cancelled")


# -- what is said meanwhile -----------------------------------------------------------------------


async def test_a_handler_reports_until_it_asks_and_not_while_it_is_unwound():
    async def ask(context: Context) -> str:
        await context.progress(1)
        await context.info("asking")
        try:
            value = await text(context, "Who?")
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await context.progress(2)
                await context.info("unwinding")
            raise
        await context.progress(3)
        return value

    meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "info"}
    async with modern(registry_of(ask)) as (client, _):
        first = await start(client, _meta=meta)

        def told() -> list[Any]:
            return [
                each["params"].get("data", each["params"].get("progress")) for each in client.told
            ]

        assert told() == [1, "asking"]
        assert text_of(await again(client, first, _meta=meta)) == "re Who?"
        assert told() == [1, "asking", 1, "asking", 3]


@pytest.mark.requirement("G1")
async def test_each_round_is_one_record_in_the_log(caplog):
    caplog.set_level(logging.INFO, LOGS)

    async def ask(context: Context) -> str:
        return await text(context, "swordfish?")

    async with modern(registry_of(ask)) as (client, _):
        await again(client, await start(client))
    outcomes = [each.outcome for each in caplog.records if hasattr(each, "outcome")]
    assert outcomes == ["input required", "ok"]
    assert "swordfish" not in caplog.text


async def test_nothing_is_asked_after_the_end():
    contexts: list[Context] = []

    async def ask(context: Context) -> str:
        contexts.append(context)
        return "done"

    for revision in ("2025-11-25", NOW):
        async with modern(registry_of(ask, echo), revision=revision) as (client, _):
            await start(client)
            with pytest.raises(McpError, match="ended"):
                await contexts[-1].roots()
            assert text_of(await start(client, "echo", arguments={"text": "x"})) == "x"


async def test_a_thread_that_is_left_behind_asks_no_more():
    """In legacy revisions, too: its open question is called off."""
    ended: list[BaseException] = []
    done = threading.Event()

    def ask(context: Context) -> str:
        try:
            trio.from_thread.run(context.roots)
        except BaseException as error:
            ended.append(error)
        try:
            trio.from_thread.run(context.roots)
        except BaseException as error:
            ended.append(error)
        done.set()
        return "never"

    async with serving(registry_of(ask), capabilities=ALL) as (client, _):
        call = await client.start("ask")
        question = await client.receive()
        assert question["method"] == "roots/list"
        await client.cancel(call)
        told = await client.receive()
        assert told["method"] == "notifications/cancelled"
        assert told["params"]["requestId"] == question["id"]
        await trio.to_thread.run_sync(done.wait)
        assert [type(each) for each in ended] == [McpError, McpError]
        assert (await client.request("ping"))["result"] == {}


# -- other ways in --------------------------------------------------------------------------------


async def test_single_messages_carry_questions_too():
    """`handle_message` keeps nothing between two messages, and need not."""
    registry = registry_of(three)
    meta = modern_meta(**{"io.modelcontextprotocol/clientCapabilities": ALL})

    async def send(**more: Any) -> Any:
        params = {"name": "three", "_meta": meta, **more}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        line = await handle_message(registry, json.dumps(request).encode())
        answer = json.loads(line or b"")
        official.judge(answer, NOW, "tools/call")
        return answer

    second = await send(**answered(await send()))
    assert questions_of(second) == {"c": "c"}
    assert text_of(await send(**answered(second))) == DONE


@pytest.mark.parametrize("way", ["memory", "tcp"])
async def test_questions_are_results_on_every_way(way):
    async with workroom_client.reaching(way, NOW) as client:
        first = await start(client, "book")
        assert list(questions_of(first).values()) == ["Who travels?"]
        second = await start(client, "book", **workroom_client.retry_of(first, client.answers))
        methods = {each["method"] for each in second["result"]["inputRequests"].values()}
        assert methods == {"roots/list", "sampling/createMessage"}
        more = workroom_client.retry_of(first, client.answers)
        assert refused(await start(client, "book", **more))
        third = await start(client, "book", **workroom_client.retry_of(second, client.answers))
        final = await start(client, "book", **workroom_client.retry_of(third, client.answers))
        assert text_of(final) == "Ida (7), Roses, file:///home, accept"


# -- both eras agree ------------------------------------------------------------------------------


@attrs.frozen
class Ask:
    """A question, by its text; perhaps with a name of its own."""

    name: str
    named: bool = False


@attrs.frozen
class Block:
    """Scripts that run one after the other, or side by side, in a certain surrounding."""

    parts: list[Any]
    parallel: bool = False
    around: str = "nothing"


Script = Ask | Block

SURROUNDINGS = ["nothing", "shield", "deadline", "finally", "swallow", "nursery"]

scripts: st.SearchStrategy[Script] = st.recursive(
    st.builds(Ask, st.sampled_from("abcdefgh"), st.booleans()),
    lambda inner: st.builds(
        Block, st.lists(inner, min_size=0, max_size=3), st.booleans(), st.sampled_from(SURROUNDINGS)
    ),
    max_leaves=6,
)


async def perform(script: Script, context: Context) -> Any:
    """Run a script; the result shows every answer in its place."""
    if isinstance(script, Ask):
        # A name of its own belongs to the question, so that it is the same in whatever order.
        return await text(context, script.name, f"key of {script.name}" if script.named else None)
    around: dict[str, Callable[..., Awaitable[Any]]] = {
        "nothing": run_parts,
        "shield": shielded,
        "deadline": with_deadline,
        "finally": with_cleanup,
        "swallow": swallowing,
        "nursery": in_a_nursery,
    }
    return await around[script.around](script, context)


async def run_parts(script: Block, context: Context) -> list[Any]:
    results: list[Any] = [None] * len(script.parts)

    async def one(place: int) -> None:
        results[place] = await perform(script.parts[place], context)

    if script.parallel:
        async with trio.open_nursery() as nursery:
            for place in range(len(script.parts)):
                nursery.start_soon(one, place)
    else:
        for place in range(len(script.parts)):
            await one(place)
    return results


async def shielded(script: Block, context: Context) -> Any:
    with trio.CancelScope(shield=True):
        return ["shield", await run_parts(script, context)]


async def with_deadline(script: Block, context: Context) -> Any:
    with trio.move_on_after(1e6) as scope:
        result = ["deadline", await run_parts(script, context)]
    return "too late" if scope.cancelled_caught else result


async def with_cleanup(script: Block, context: Context) -> Any:
    try:
        return ["finally", await run_parts(script, context)]
    finally:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()


async def swallowing(script: Block, context: Context) -> Any:
    try:
        return ["swallow", await run_parts(script, context)]
    except BaseException:
        return "swallowed"


async def in_a_nursery(script: Block, context: Context) -> Any:
    found: list[Any] = []

    async def run() -> None:
        found.append(await run_parts(script, context))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.checkpoint)
        nursery.start_soon(run)
    return ["nursery", *found]


def expected_of(script: Script) -> Any:
    """What a script gives if every question is answered."""
    if isinstance(script, Ask):
        return f"re {script.name}"
    parts = [expected_of(each) for each in script.parts]
    return parts if script.around == "nothing" else [script.around, parts]


def scripted(script: Script) -> Registry:
    async def ask(context: Context) -> str:
        return json.dumps(await perform(script, context))

    return registry_of(ask)


async def by_request(script: Script, shuffle: random.Random) -> Any:
    """The result for a legacy client that answers in any order."""
    async with serving(scripted(script), capabilities=ALL) as (client, _):
        call = await client.start("ask")
        open_questions: list[Any] = []
        received: list[Any] = []
        more = trio.Event()

        async def listen() -> None:
            nonlocal more
            while True:
                received.append(await client.receive())
                more.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            while True:
                await wait_all_tasks_blocked()
                open_questions += received
                received.clear()
                final = [each for each in open_questions if "method" not in each]
                if final:
                    assert final[0]["id"] == call
                    nursery.cancel_scope.cancel()
                    return json.loads(text_of(final[0]))
                question = open_questions.pop(shuffle.randrange(len(open_questions)))
                answer = {
                    "jsonrpc": "2.0",
                    "id": question["id"],
                    "result": said(question["params"]),
                }
                await client.send_bytes(json.dumps(answer).encode() + b"\n")


async def by_result(script: Script, shuffle: random.Random) -> Any:
    """The result for a modern client that answers in any order, and not always everything."""
    async with modern(scripted(script)) as (client, _):
        answer = await start(client)
        for number in range(200):
            if not is_question(answer):
                return json.loads(text_of(answer))
            given = list(answered(answer)["inputResponses"].items())
            shuffle.shuffle(given)
            if number < 100 and shuffle.random() < 0.3:  # leave some of them out
                given = given[: shuffle.randrange(len(given) + 1)]
            state = answer["result"]["requestState"]
            answer = await start(client, inputResponses=dict(given), requestState=state)
        raise AssertionError("there is no end to the questions")


@given(scripts, st.integers(0, 2**32))
def test_a_handler_gives_the_same_in_both_eras_whatever_order_it_is_answered_in(script, seed):
    expected = expected_of(script)
    assert trio.run(by_request, script, random.Random(seed)) == expected
    assert trio.run(by_result, script, random.Random(seed)) == expected


async def test_a_client_of_each_era_gives_the_same():
    async def elicit(params: Any) -> Any:
        return said(params)

    script = Block([Ask("a"), Block([Ask("b"), Block([Ask("c"), Ask("b")])], parallel=True)])
    for era in ("modern", "legacy"):
        async with connect(
            scripted(script),
            era=era,  # type: ignore[arg-type]
            handlers=Handlers(elicitation=elicit),
        ) as client:
            assert json.loads((await client.call_tool("ask")).text) == expected_of(script)
