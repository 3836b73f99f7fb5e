"""Questions to the client: in legacy revisions each is a request of the server's."""

import dataclasses
import datetime
import json
import uuid
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, TypedDict

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.features import workroom, workroom_client
from tests.features.ways import client_of, each_quick_client, on_tcp, patience
from tests.support.client import LEGACY, MODERN, RawClient, serving
from tests.support.tools import (
    INTERNAL,
    each_legacy_revision,
    echo,
    error_of,
    failure_of,
    registry_of,
    some_revisions,
    text_of,
)
from trio_mcp import (
    AudioContent,
    Context,
    Handlers,
    ImageContent,
    Limits,
    McpError,
    ModelHint,
    ModelPreferences,
    Registry,
    SamplingMessage,
    TextContent,
    handle_message,
)
from trio_mcp.schema import SchemaError
from trio_mcp.wire.payloads import ToolDescription
from trio_mcp.wire.questions import ToolResultContent, ToolUseContent

pytestmark = pytest.mark.requirement("H8")

FORMS = ["2025-06-18", "2025-11-25"]
"""The legacy revisions that have forms."""

each_revision_with_forms = pytest.mark.parametrize("revision", FORMS)
each_era_with_forms = pytest.mark.parametrize("revision", [FORMS[-1], *MODERN])

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"
ALL = workroom_client.EVERYTHING
HELLO = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}


def accept(**content: Any) -> dict[str, Any]:
    """The answer of a user who fills in a form."""
    return {"action": "accept", "content": content}


async def reply(client: RawClient, question: Any, **outcome: Any) -> None:
    """Answer a question, with `result=` or `error=`."""
    await client.send_bytes(
        json.dumps({"jsonrpc": "2.0", "id": question["id"], **outcome}).encode() + b"\n"
    )


async def asked(client: RawClient, method: str = ELICIT) -> Any:
    """Receive a question."""
    question = await client.receive()
    assert question["method"] == method
    assert "id" in question
    return question


async def settle(client: RawClient, name: str = "ask", **arguments: Any) -> Any:
    """Call a tool, answer what it asks, and return the final answer; in any revision."""
    params = {"name": name, "arguments": arguments}
    return await workroom_client.settle(client, "tools/call", params)


def recording(questions: list[Any], answer: Any) -> Callable[[Any], Any]:
    """Give an answer (or what a function makes of the question) and keep the question."""

    def answer_to(params: Any) -> Any:
        questions.append(params)
        return answer(params) if callable(answer) else answer

    return answer_to


# -- forms ----------------------------------------------------------------------------------------


class Color(Enum):
    DARK_RED = "#800000"
    BLUE = "#0000ff"


@attrs.frozen
class Region:
    """Where.

    Args:
        name: What it is called.
    """

    name: str
    zone: Literal["a", "b"] = "a"
    count: int = 1
    color: Color = Color.BLUE
    note: str | None = None


@dataclasses.dataclass
class Size:
    width: float
    wide: bool = False


class Day(TypedDict):
    date: datetime.date


RAW = {
    "type": "object",
    "properties": {"mail": {"type": "string", "format": "email"}},
    "required": ["mail"],
}

KINDS: list[tuple[Any, dict[str, Any], Any]] = [
    (str, {"value": "x"}, "x"),
    (str, {"value": ""}, ""),
    (int, {"value": -3}, -3),
    (float, {"value": 2.5}, 2.5),
    (float, {"value": 2}, 2.0),
    (bool, {"value": False}, False),
    (datetime.date, {"value": "2026-07-28"}, datetime.date(2026, 7, 28)),
    (Literal["a", "b"], {"value": "b"}, "b"),
    (Color, {"value": "#800000"}, Color.DARK_RED),
    (Region, {"name": "eu"}, Region("eu")),
    (
        Region,
        {"name": "eu", "zone": "b", "count": 4, "color": "#800000", "note": "n"},
        Region("eu", "b", 4, Color.DARK_RED, "n"),
    ),
    (Size, {"width": 1.5, "wide": True}, Size(1.5, True)),
    (Day, {"date": "2026-07-28"}, {"date": datetime.date(2026, 7, 28)}),
    (RAW, {"mail": "a@b.test"}, {"mail": "a@b.test"}),
]


@each_era_with_forms
@pytest.mark.parametrize(("kind", "content", "expected"), KINDS)
async def test_forms_of_all_kinds(revision, kind, content, expected):
    values: list[Any] = []
    questions: list[Any] = []

    async def ask(context: Context) -> str:
        answer = await context.elicit("Please fill this in", kind)
        assert answer.accepted
        values.append(answer.value)
        assert answer.content == answer.value
        return answer.action

    capabilities = {"elicitation": {}}
    async with serving(registry_of(ask), revision=revision, capabilities=capabilities) as (
        client,
        _,
    ):
        client.answers[ELICIT] = recording(questions, {"action": "accept", "content": content})
        assert text_of(await settle(client)) == "accept"
    assert values == [expected]
    assert type(values[0]) is type(expected)
    [question] = questions
    assert question["message"] == "Please fill this in"
    schema = question["requestedSchema"]
    assert schema["type"] == "object"
    assert content.keys() <= schema["properties"].keys()
    assert question.get("mode") == (None if revision == "2025-06-18" else "form")
    assert question.keys() <= {"message", "requestedSchema", "mode"}


@pytest.mark.parametrize("revision", [*FORMS, *MODERN])
async def test_titles_and_defaults_are_written_as_the_revision_has_them(revision):
    questions: list[Any] = []

    async def ask(context: Context) -> str:
        return (await context.elicit("Where?", Region)).value.name

    capabilities = {"elicitation": {}}
    async with serving(registry_of(ask), revision=revision, capabilities=capabilities) as (
        client,
        _,
    ):
        client.answers[ELICIT] = recording(questions, accept(name="eu"))
        assert text_of(await settle(client)) == "eu"
    fields = questions[0]["requestedSchema"]["properties"]
    assert fields["name"] == {"type": "string", "description": "What it is called."}
    if revision == "2025-06-18":
        assert fields["color"]["enumNames"] == ["Dark red", "Blue"]
        assert "default" not in fields["count"]
    else:
        assert fields["color"]["oneOf"][0] == {"const": "#800000", "title": "Dark red"}
        assert fields["count"]["default"] == 1
    assert questions[0]["requestedSchema"]["required"] == ["name"]


@each_era_with_forms
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@pytest.mark.parametrize("content", [None, {"value": True}, {"value": "nonsense"}])
async def test_accept_decline_and_cancel_are_distinct(revision, action, content):
    async def ask(context: Context) -> dict[str, Any]:
        answer = await context.elicit("Sure?", bool)
        return {
            "action": answer.action,
            "accepted": answer.accepted,
            "content": answer.content,
        }

    async def insist(context: Context) -> str:
        return str((await context.elicit("Sure?", bool)).value)

    result = {"action": action} if content is None else {"action": action, "content": content}
    registry = registry_of(ask, insist)
    async with serving(registry, revision=revision, capabilities=ALL) as (client, _):
        client.answers[ELICIT] = lambda _: result
        answer, insisted = await settle(client), await settle(client, "insist")
        if action == "accept" and content != {"value": True}:
            assert error_of(answer)[0] == error_of(insisted)[0] == -32602
        elif action == "accept":
            assert json.loads(text_of(answer)) == {
                "action": "accept",
                "accepted": True,
                "content": True,
            }
            assert text_of(insisted) == "True"
        else:
            assert json.loads(text_of(answer)) == {
                "action": action,
                "accepted": False,
                "content": None,
            }
            words = {
                "decline": "The user declined to answer.",
                "cancel": "The user dismissed the question.",
            }
            assert failure_of(insisted) == words[action]


@each_era_with_forms
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("text", "string"),
        (None, "null"),
        ([], "array"),
        (7, "number"),
        ({}, "action"),
        ({"action": "yes"}, "yes"),
        ({"action": ["accept"]}, "action"),
        ({"action": None}, "action"),
        ({"action": "ACCEPT"}, "ACCEPT"),
        ({"action": "accept"}, "'name'"),
        ({"action": "accept", "content": None}, "object"),
        ({"action": "accept", "content": "eu"}, "object"),
        ({"action": "accept", "content": []}, "object"),
        (accept(), "'name'"),
        (accept(name=3), "'name'"),
        (accept(name="eu", zone="z"), "'zone'"),
        (accept(name="eu", count="many"), "'count'"),
        (accept(name="eu", count=1.5), "'count'"),
        (accept(name={"deep": "er"}), "'name'"),
    ],
)
async def test_answers_that_do_not_fit_are_explained(revision, result, expected):
    async def ask(context: Context) -> str:
        return (await context.elicit("Where?", Region)).value.name

    async def catch(context: Context) -> str:
        try:
            return (await context.elicit("Where?", Region)).value.name
        except McpError as error:
            return f"caught {error.code}"

    registry = registry_of(ask, catch)
    async with serving(registry, revision=revision, capabilities=ALL) as (client, _):
        client.answers[ELICIT] = lambda _: result
        code, message = error_of(await settle(client))
        assert code == -32602
        assert message.startswith("Invalid answer to elicitation/create: ")
        assert expected in message
        assert text_of(await settle(client, "catch")) == "caught -32602"


@each_era_with_forms
async def test_fields_that_were_not_asked_for_are_left_out(revision):
    async def ask(context: Context) -> str:
        return str((await context.elicit("Mail?", RAW)).value)

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        client.answers[ELICIT] = lambda _: accept(mail="a@b.test", password="x")
        assert text_of(await settle(client)) == "{'mail': 'a@b.test'}"


@attrs.frozen
class Nested:
    inner: Region


@each_era_with_forms
@pytest.mark.parametrize(
    "kind",
    [Nested, list[str], dict[str, str], object, {"type": "string"}, {"type": "object"}, int | str],
)
async def test_a_form_that_no_client_could_show_is_the_author_s_mistake(revision, kind, caplog):
    async def ask(context: Context) -> str:
        with pytest.raises(SchemaError):
            await context.elicit("What?", kind)
        await context.elicit("What?", kind)
        return "never"

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        assert failure_of(await settle(client)) == f"Tool ask failed: {INTERNAL}"
        assert "SchemaError" in caplog.text


async def test_lists_of_choices_came_with_a_later_revision():
    async def ask(context: Context) -> str:
        return str((await context.elicit("Which?", list[Literal["a", "b"]])).value)

    for revision in [*FORMS, *MODERN]:
        async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
            client.answers[ELICIT] = lambda _: accept(value=["b", "a"])
            answer = await settle(client)
            if revision == "2025-06-18":
                failure_of(answer)
            else:
                assert text_of(answer) == "['b', 'a']"


# -- web pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [LEGACY[-1], *MODERN])
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_user_is_sent_to_a_web_page(revision, action):
    async def ask(context: Context) -> str:
        answer = await context.elicit_url("Log in, please", "https://x.test/login?a=b")
        assert answer.content is None
        return answer.action

    questions: list[Any] = []
    capabilities = {"elicitation": {"url": {}}}
    async with serving(registry_of(ask), revision=revision, capabilities=capabilities) as (
        client,
        _,
    ):
        client.answers[ELICIT] = recording(questions, {"action": action})
        assert text_of(await settle(client)) == action
        assert text_of(await settle(client)) == action
    expected = {"mode": "url", "message": "Log in, please", "url": "https://x.test/login?a=b"}
    ids = [each.pop("elicitationId", None) for each in questions]
    assert questions == [expected, expected]
    if revision in MODERN:
        assert ids == [None, None]
    else:
        assert len({uuid.UUID(each) for each in ids}) == 2


@pytest.mark.parametrize("revision", [LEGACY[-1], *MODERN])
@pytest.mark.parametrize(
    "url",
    ["", "x.test", "/login", "file:///etc/passwd", "javascript:alert(1)", "https://", "http:"],
)
async def test_what_is_no_web_page_is_the_author_s_mistake(revision, url):
    async def ask(context: Context) -> str:
        with pytest.raises(ValueError, match="https://"):
            await context.elicit_url("Log in, please", url)
        return "refused"

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        assert text_of(await settle(client)) == "refused"


# -- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [*LEGACY, *MODERN])
async def test_a_model_is_asked(revision):
    async def ask(context: Context) -> str:
        result = await context.sample("What is the capital of France?", max_tokens=10)
        return f"{result.role} {result.model} {result.stop_reason} {result.text}"

    questions: list[Any] = []
    capabilities = {"sampling": {}}
    async with serving(registry_of(ask), revision=revision, capabilities=capabilities) as (
        client,
        _,
    ):
        client.answers[SAMPLE] = recording(questions, {**HELLO, "stopReason": "endTurn"})
        assert text_of(await settle(client)) == "assistant m endTurn Hello"
    text = {"type": "text", "text": "What is the capital of France?"}
    assert questions == [{"messages": [{"role": "user", "content": text}], "maxTokens": 10}]


@pytest.mark.parametrize("revision", [*LEGACY, *MODERN])
async def test_a_model_is_asked_with_all_there_is(revision):
    async def ask(context: Context) -> str:
        result = await context.sample(
            [
                "Look:",
                SamplingMessage("user", ImageContent("aGk=", "image/png")),
                SamplingMessage("assistant", "Nice."),
            ],
            max_tokens=100,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["END"],
            model_preferences=ModelPreferences(
                hints=[ModelHint("sonnet")], cost_priority=0.1, speed_priority=1
            ),
        )
        return result.text

    questions: list[Any] = []
    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        client.answers[SAMPLE] = recording(questions, HELLO)
        assert text_of(await settle(client)) == "Hello"
    [question] = questions
    messages = question.pop("messages")
    assert [each["role"] for each in messages] == ["user", "user", "assistant"]
    assert [each["content"]["type"] for each in messages] == ["text", "image", "text"]
    assert question == {
        "maxTokens": 100,
        "systemPrompt": "Be brief.",
        "temperature": 0.5,
        "stopSequences": ["END"],
        "modelPreferences": {
            "hints": [{"name": "sonnet"}],
            "costPriority": 0.1,
            "speedPriority": 1,
        },
    }


@pytest.mark.parametrize("revision", [*LEGACY, *MODERN])
async def test_messages_of_several_blocks_are_written_as_the_revision_has_them(revision):
    async def ask(context: Context) -> str:
        blocks: list[Any] = [TextContent("Look:"), ImageContent("aGk=", "image/png")]
        return (await context.sample([SamplingMessage("user", blocks)], max_tokens=1)).text

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        questions: list[Any] = []
        client.answers[SAMPLE] = recording(questions, HELLO)
        assert text_of(await settle(client)) == "Hello"
        messages = questions[0]["messages"]
        if revision < "2025-11-25":
            assert [each["content"]["type"] for each in messages] == ["text", "image"]
        else:
            [message] = messages
            assert [each["type"] for each in message["content"]] == ["text", "image"]
        assert {each["role"] for each in messages} == {"user"}


@pytest.mark.parametrize("revision", [*LEGACY, *MODERN])
async def test_sounds_are_not_sampled_in_the_first_revision(revision):
    async def ask(context: Context) -> str:
        message = SamplingMessage("user", AudioContent("aGk=", "audio/wav"))
        return (await context.sample([message], max_tokens=1)).text

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        client.answers[SAMPLE] = lambda _: HELLO
        answer = await settle(client)
        if revision == "2024-11-05":
            code, message = error_of(answer)
            assert code == -32600
            assert "audio" in message
            assert revision in message
        else:
            assert text_of(answer) == "Hello"


TOOLS = [ToolDescription("weather", {"type": "object"}, description="How is it?")]


@pytest.mark.parametrize("revision", [LEGACY[-1], *MODERN])
async def test_a_model_may_be_given_tools(revision):
    async def ask(context: Context) -> str:
        first = await context.sample("Weather?", max_tokens=10, tools=TOOLS, tool_choice="required")
        assert isinstance(first.content, list)
        [use] = first.content
        assert isinstance(use, ToolUseContent)
        second = await context.sample(
            [
                "Weather?",
                SamplingMessage("assistant", first.content),
                SamplingMessage("user", ToolResultContent(use.id, [TextContent("Rain")])),
            ],
            max_tokens=10,
            tools=TOOLS,
        )
        return f"{use.name} {use.input} {second.text}"

    def answer(params: Any) -> Any:
        if len(params["messages"]) > 1:
            return HELLO
        use = {"type": "tool_use", "id": "u1", "name": "weather", "input": {"city": "Rome"}}
        return {"role": "assistant", "content": [use], "model": "m", "stopReason": "toolUse"}

    questions: list[Any] = []
    capabilities = {"sampling": {"tools": {}}}
    async with serving(registry_of(ask), revision=revision, capabilities=capabilities) as (
        client,
        _,
    ):
        client.answers[SAMPLE] = recording(questions, answer)
        assert text_of(await settle(client)) == "weather {'city': 'Rome'} Hello"
    first, second = questions[0], questions[-1]
    assert first["toolChoice"] == {"mode": "required"}
    assert "toolChoice" not in second
    assert first["tools"] == second["tools"]
    assert first["tools"][0]["name"] == "weather"
    assert second["messages"][2]["content"]["toolUseId"] == "u1"


@some_revisions
@pytest.mark.parametrize(
    "result",
    [
        None,
        "Hello",
        [],
        {},
        {**HELLO, "role": "robot"},
        {**HELLO, "model": 3},
        {**HELLO, "content": "Hello"},
        {**HELLO, "content": {"type": "text"}},
        {**HELLO, "content": {"type": "smell", "data": "x"}},
        {**HELLO, "content": [{"type": "text", "text": 3}]},
        {key: HELLO[key] for key in ("role", "content")},
    ],
)
async def test_what_no_model_says_is_refused(revision, result):
    async def ask(context: Context) -> str:
        return (await context.sample("Hi", max_tokens=1)).text

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        client.answers[SAMPLE] = lambda _: result
        code, message = error_of(await settle(client))
        assert code == -32602
        assert message.startswith(f"Invalid answer to {SAMPLE}: ")


# -- roots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [*LEGACY, *MODERN])
@pytest.mark.parametrize(
    ("roots", "expected"),
    [
        ([], []),
        ([{"uri": "file:///a"}], [("file:///a", None)]),
        (
            [{"uri": "file:///a", "name": "A", "more": 1}, {"uri": "file:///b"}],
            [("file:///a", "A"), ("file:///b", None)],
        ),
    ],
)
async def test_roots_are_listed(revision, roots, expected):
    async def ask(context: Context) -> str:
        return str([(each.uri, each.name) for each in await context.roots()])

    capabilities = {"roots": {}}
    async with serving(registry_of(ask), revision=revision, capabilities=capabilities) as (
        client,
        _,
    ):
        client.answers[ROOTS] = lambda _: {"roots": roots}
        assert text_of(await settle(client)) == str(expected)


@some_revisions
@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        {},
        {"roots": None},
        {"roots": {}},
        {"roots": ["file:///a"]},
        {"roots": [{}]},
        {"roots": [{"uri": 3}]},
    ],
)
async def test_what_is_no_list_of_roots_is_refused(revision, result):
    async def ask(context: Context) -> str:
        return str(await context.roots())

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        client.answers[ROOTS] = lambda _: result
        code, message = error_of(await settle(client))
        assert code == -32602
        assert message.startswith(f"Invalid answer to {ROOTS}: ")


# -- who can be asked -----------------------------------------------------------------------------


async def elicits(context: Context) -> str:
    return (await context.elicit("Sure?", bool)).action


async def sends_away(context: Context) -> str:
    return (await context.elicit_url("Go", "https://x.test")).action


async def samples(context: Context) -> str:
    return (await context.sample("Hi", max_tokens=1)).text


async def looks(context: Context) -> list[bool]:
    return [context.supports(*each) for each in LOOKS]


LOOKS = {
    ("elicitation", "form"): "elicits",
    ("elicitation", "url"): "sends_away",
    ("sampling",): "samples",
    ("sampling", "tools"): "samples_with_tools",
    ("roots",): "lists_roots",
}


async def samples_with_tools(context: Context) -> str:
    return (await context.sample("Hi", max_tokens=1, tools=TOOLS)).text


async def lists_roots(context: Context) -> str:
    return str(len(await context.roots()))


ASKERS = registry_of(elicits, sends_away, samples, samples_with_tools, lists_roots, looks, echo)

MISSING = [
    ("elicits", {}, "elicitation.form"),
    ("elicits", {"elicitation": {"url": {}}}, "elicitation.form"),
    ("elicits", {"elicitation": None}, "elicitation.form"),
    ("elicits", {"elicitation": True}, "elicitation.form"),
    ("elicits", {"sampling": {}, "roots": {}}, "elicitation.form"),
    ("sends_away", {}, "elicitation.url"),
    ("sends_away", {"elicitation": {}}, "elicitation.url"),
    ("sends_away", {"elicitation": {"form": {}}}, "elicitation.url"),
    ("samples", {"elicitation": {}}, "sampling"),
    ("samples_with_tools", {}, "sampling"),
    ("samples_with_tools", {"sampling": {}}, "sampling.tools"),
    ("samples_with_tools", {"sampling": {"context": {}}}, "sampling.tools"),
    ("lists_roots", {"sampling": {}}, "roots"),
]


@pytest.mark.parametrize(("name", "capabilities", "needed"), MISSING)
async def test_a_client_that_has_not_declared_it_is_not_asked(name, capabilities, needed):
    async with serving(ASKERS, capabilities=capabilities) as (client, _):
        code, message = error_of(await client.call(name))  # would fail if it were asked
        assert code == -32600
        assert message.endswith(f"capability {needed}, which it has not declared")
        assert client.told == []


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("elicits", "2025-06-18"),
        ("sends_away", "2025-11-25"),
        ("samples", "2024-11-05"),
        ("samples_with_tools", "2025-11-25"),
        ("lists_roots", "2024-11-05"),
    ],
)
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_revision_that_has_no_such_question_is_not_asked_it(revision, name, since):
    """Whatever the client has declared."""
    async with serving(ASKERS, revision=revision, capabilities=ALL) as (client, _):
        client.answers = {
            ELICIT: lambda params: (
                accept(value=True) if "url" not in params else {"action": "accept"}
            ),
            SAMPLE: lambda _: HELLO,
            ROOTS: lambda _: {"roots": []},
        }
        answer = await client.call(name)
        if revision >= since:
            text_of(answer)
        else:
            code, message = error_of(answer)
            assert code == -32600
            assert revision in message


@pytest.mark.parametrize("revision", LEGACY)
async def test_what_is_supported_is_not_refused_for_its_revision(revision):
    """Codex, say, declares pages to visit and speaks 2025-06-18, which has none."""
    async with serving(ASKERS, revision=revision, capabilities=ALL) as (client, _):
        client.answers = {SAMPLE: lambda _: HELLO, ROOTS: lambda _: {"roots": []}}
        client.answers[ELICIT] = lambda _: {"action": "decline"}
        supported = (await client.call("looks"))["result"]["content"]
        for each, name in zip(json.loads(supported[0]["text"]), LOOKS.values(), strict=True):
            assert ("error" not in await client.call(name)) == each, name


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({}, "-----"),
        ({"elicitation": {}}, "ef---"),
        ({"elicitation": {"form": {}}}, "ef---"),
        ({"elicitation": {"url": {}}}, "e-u--"),
        ({"elicitation": {"form": {}, "url": {}}, "roots": {}}, "efur-"),
        ({"sampling": {"tools": {}}}, "----t"),
    ],
)
@pytest.mark.parametrize("revision", [LEGACY[-1], *MODERN])
async def test_a_handler_may_look_before_it_asks(revision, capabilities, expected):
    async def look(context: Context) -> str:
        looks = {
            "e": ("elicitation",),
            "f": ("elicitation", "form"),
            "u": ("elicitation", "url"),
            "r": ("roots",),
            "t": ("sampling", "tools"),
        }
        return "".join(key if context.supports(*each) else "-" for key, each in looks.items())

    registry = registry_of(look)
    async with serving(registry, revision=revision, capabilities=capabilities) as (client, _):
        assert text_of(await client.call("look")) == expected
    assert await registry.call("look") == "-----"


@pytest.mark.parametrize("name", ["elicits", "sends_away", "samples", "lists_roots"])
async def test_where_there_is_no_client_nobody_is_asked(name):
    with pytest.raises(McpError, match="no client") as caught:
        await ASKERS.call(name)
    assert caught.value.code == -32600
    line = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
    ).encode()
    answer = json.loads(await handle_message(ASKERS, line) or b"")
    code, message = error_of(answer)
    assert code == -32600
    assert "client" in message


async def test_a_client_without_a_handshake_is_not_asked():
    async with serving(ASKERS, shake_hands=False) as (client, _):
        assert error_of(await client.call("lists_roots"))[0] == -32600


# -- the conversation -----------------------------------------------------------------------------


@each_legacy_revision
async def test_a_question_is_a_request_with_an_id_of_its_own(revision):
    async with serving(ASKERS, revision=revision, capabilities=ALL) as (client, _):
        ids = []
        for number in range(3):
            call = await client.start("lists_roots")
            question = await asked(client, ROOTS)
            ids.append(question["id"])
            await reply(client, question, result={"roots": [{"uri": "file:///a"}] * number})
            assert text_of(await client.answer_to(call)) == str(number)
        assert len(set(ids)) == 3


@each_legacy_revision
async def test_the_client_s_errors_reach_the_handler(revision):
    async def ask(catch: bool, context: Context) -> str:
        try:
            return str(await context.roots())
        except McpError as error:
            if catch:
                return f"{error.code} {error.message} {error.data}"
            raise

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        error = {"code": -1, "message": "User said no", "data": {"why": "mood"}}
        call = await client.start("ask", catch=True)
        await reply(client, await asked(client, ROOTS), error=error)
        assert text_of(await client.answer_to(call)) == "-1 User said no {'why': 'mood'}"
        call = await client.start("ask", catch=False)
        await reply(client, await asked(client, ROOTS), error=error)
        assert error_of(await client.answer_to(call)) == (-1, "User said no")


@pytest.mark.parametrize("error", ["no", {}, {"code": "x", "message": 3}, None, []])
async def test_an_error_that_is_none_is_one_all_the_same(error):
    async def ask(context: Context) -> str:
        with pytest.raises(McpError):
            await context.roots()
        return "caught"

    async with serving(registry_of(ask), capabilities=ALL) as (client, _):
        call = await client.start("ask")
        await reply(client, await asked(client, ROOTS), error=error)
        assert text_of(await client.answer_to(call)) == "caught"


@each_legacy_revision
async def test_answers_to_no_question_are_ignored(revision):
    async with serving(ASKERS, revision=revision, capabilities=ALL) as (client, _):
        for id in (1, 99, "1"):
            await reply(client, {"id": id}, result={"roots": []})
        call = await client.start("lists_roots")
        question = await asked(client, ROOTS)
        await reply(client, {"id": "x"}, result={"roots": [1, 2, 3]})
        await reply(client, question, result={"roots": []})
        await reply(client, question, result={"roots": [1, 2, 3]})
        assert text_of(await client.answer_to(call)) == "0"
        assert text_of(await client.call("echo", text="fine")) == "fine"


@each_legacy_revision
async def test_a_client_that_never_answers(revision, autojump_clock):
    async def ask(context: Context) -> str:
        try:
            await context.roots()
        except McpError as error:
            return f"{error.code} {error.message}"
        return "never"

    limits = Limits(question_timeout=30)
    async with serving(registry_of(ask, echo), limits, revision=revision, capabilities=ALL) as (
        client,
        _,
    ):
        call = await client.start("ask")
        question = await asked(client, ROOTS)
        cancelled = await client.receive()
        assert trio.current_time() == pytest.approx(30)
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == question["id"]
        expected = "-32603 The client did not answer roots/list within 30 s"
        assert text_of(await client.answer_to(call)) == expected
        await reply(client, question, result={"roots": []})  # too late
        assert text_of(await client.call("echo", text="fine")) == "fine"


@pytest.mark.requirement("B8")
@each_legacy_revision
@pytest.mark.parametrize("how", ["end of input", "both ends"])
async def test_a_client_that_dies_while_it_is_asked(revision, how):
    ended: list[str] = []

    async def ask(context: Context) -> str:
        try:
            await context.roots()
        except McpError as error:
            ended.append(f"{error.code} {error.message}")
            raise
        return "never"

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        call = await client.start("ask")
        await asked(client, ROOTS)
        if how == "end of input":
            await client.send_eof()
            code, message = error_of(await client.answer_to(call))
            assert (code, message) == (
                -32603,
                "The client left before it answered roots/list",
            )
            assert await client.receive() is None
        else:
            await client.stream.aclose()
    assert ended == ["-32603 The client left before it answered roots/list"]


@each_legacy_revision
async def test_several_questions_at_once(revision):
    """Of two calls, and within one; answered in another order."""

    async def ask(mark: str, context: Context) -> str:
        found: dict[int, str] = {}

        async def one(number: int) -> None:
            result = await context.sample(f"{mark}{number}", max_tokens=1)
            found[number] = result.text

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(one, number)
        return str(sorted(found.items()))

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        calls = {mark: await client.start("ask", mark=mark) for mark in "ab"}
        questions = [await asked(client, SAMPLE) for _ in range(6)]
        assert len({each["id"] for each in questions}) == 6
        for question in reversed(questions):
            said = question["params"]["messages"][0]["content"]["text"]
            answer = {**HELLO, "content": {"type": "text", "text": f"re {said}"}}
            await reply(client, question, result=answer)
        answers = await client.receive_many(2)
        for mark, call in calls.items():
            expected = str([(number, f"re {mark}{number}") for number in range(3)])
            assert text_of(answers[call]) == expected


async def test_connections_do_not_mix_up_their_questions():
    async with (
        serving(ASKERS, capabilities=ALL) as (one, _),
        serving(ASKERS, capabilities=ALL) as (two, _),
    ):
        first, second = await one.start("lists_roots"), await two.start("lists_roots")
        question_one, question_two = await asked(one, ROOTS), await asked(two, ROOTS)
        await reply(two, question_one, result={"roots": []})  # the same id by chance, or nobody's
        if question_one["id"] != question_two["id"]:
            await reply(two, question_two, result={"roots": []})
        assert text_of(await two.answer_to(second)) == "0"
        await reply(one, question_one, result={"roots": [{"uri": "file:///a"}]})
        assert text_of(await one.answer_to(first)) == "1"


@each_legacy_revision
async def test_other_requests_are_served_while_a_question_is_open(revision):
    limits = Limits(max_concurrent_calls=2)
    async with serving(ASKERS, limits, revision=revision, capabilities=ALL) as (client, _):
        call = await client.start("lists_roots")
        question = await asked(client, ROOTS)
        assert text_of(await client.call("echo", text="meanwhile")) == "meanwhile"
        assert (await client.request("tools/list"))["result"]["tools"]
        await reply(client, question, result={"roots": []})
        assert text_of(await client.answer_to(call)) == "0"


@each_legacy_revision
async def test_plain_functions_ask_through_the_trio_thread(revision):
    def ask(context: Context) -> str:
        return trio.from_thread.run(context.roots)[0].uri

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        client.answers = workroom_client.answers()
        assert text_of(await client.call("ask")) == "file:///home"


@each_legacy_revision
async def test_prompts_resources_and_completions_ask_too(revision):
    registry = Registry("test")

    @registry.prompt
    async def letter(to: str, context: Context) -> str:
        return (await context.roots())[0].uri

    @registry.resource("config://app")
    async def config(context: Context) -> str:
        return (await context.sample("Hi", max_tokens=1)).text

    @registry.completion(prompt="letter", argument="to")
    async def names(value: str, context: Context) -> list[str]:
        return [(await context.roots())[0].uri]

    async with serving(registry, revision=revision, capabilities=ALL) as (client, _):
        client.answers = workroom_client.answers()
        result = (
            await client.request("prompts/get", {"name": "letter", "arguments": {"to": "x"}})
        )["result"]
        assert result["messages"][0]["content"]["text"] == "file:///home"
        result = (await client.request("resources/read", {"uri": "config://app"}))["result"]
        assert result["contents"][0]["text"] == "Roses"
        ref = {"type": "ref/prompt", "name": "letter"}
        params = {"ref": ref, "argument": {"name": "to", "value": ""}}
        result = (await client.request("completion/complete", params))["result"]
        assert result["completion"]["values"] == ["file:///home"]


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("revision", LEGACY[:2])  # later ones have no batches
async def test_a_call_in_a_batch_may_ask(revision):
    async with serving(ASKERS, revision=revision, capabilities=ALL) as (client, _):
        calls = [client.request_of("tools/call", {"name": "lists_roots"}) for _ in range(2)]
        await client.send(calls)
        questions = [await asked(client, ROOTS) for _ in range(2)]
        await client.send(
            [{"jsonrpc": "2.0", "id": each["id"], "result": {"roots": []}} for each in questions]
        )
        assert [text_of(each) for each in await client.receive()] == ["0", "0"]


# -- time and cancellation ------------------------------------------------------------------------


@each_legacy_revision
@pytest.mark.parametrize(("after", "in_time"), [(5.9, True), (6.1, False)])
async def test_a_handler_s_clock_stands_still_while_it_asks(
    revision, after, in_time, autojump_clock
):
    """Of ten seconds it uses four before the question; six are left, however long that took."""

    async def ask(context: Context) -> str:
        await trio.sleep(4)
        await context.roots()
        await trio.sleep(after)
        return "done"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    async with serving(registry, revision=revision, capabilities=ALL) as (client, _):
        call = await client.start("ask")
        question = await asked(client, ROOTS)
        await trio.sleep(200)
        await reply(client, question, result={"roots": []})
        answer = await client.answer_to(call)
        if in_time:
            assert text_of(answer) == "done"
            assert trio.current_time() == pytest.approx(209.9)
        else:
            assert failure_of(answer) == "Tool ask timed out after 10 s"
            assert trio.current_time() == pytest.approx(210)


@each_legacy_revision
@pytest.mark.parametrize(("after", "in_time"), [(5.9, True), (6.1, False)])
async def test_the_clock_stands_still_until_the_last_of_several_is_answered(
    revision, after, in_time, autojump_clock
):
    async def ask(context: Context) -> str:
        await trio.sleep(4)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(context.roots)
        await trio.sleep(after)
        return "done"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    async with serving(registry, revision=revision, capabilities=ALL) as (client, _):
        call = await client.start("ask")
        for question in [await asked(client, ROOTS) for _ in range(3)]:
            await trio.sleep(50)
            await reply(client, question, result={"roots": []})
        answer = await client.answer_to(call)
        assert ("isError" not in answer["result"]) is in_time
        assert trio.current_time() == pytest.approx(154 + (after if in_time else 6))


async def test_each_question_has_its_own_time(autojump_clock):
    async def ask(context: Context) -> str:
        for _ in range(3):
            await trio.sleep(3)
            await context.roots()
        return "done"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    async with serving(registry, Limits(question_timeout=100), capabilities=ALL) as (client, _):
        call = await client.start("ask")
        for _ in range(3):
            question = await asked(client, ROOTS)
            await trio.sleep(99)
            await reply(client, question, result={"roots": []})
        assert text_of(await client.answer_to(call)) == "done"


async def test_a_stubborn_handler_is_timed_out_after_its_question_too(autojump_clock):
    """The user takes longer than the handler's whole time; then the handler ignores its end."""

    async def ask(context: Context) -> str:
        await context.roots()
        with trio.CancelScope(shield=True):
            await trio.sleep(1000)
        return "done"

    registry = Registry("test")
    registry.add_tool(ask, timeout=10)
    async with serving(registry, capabilities=ALL) as (client, _):
        call = await client.start("ask")
        question = await asked(client, ROOTS)
        await trio.sleep(100)
        await reply(client, question, result={"roots": []})
        assert failure_of(await client.answer_to(call)) == "Tool ask timed out after 10 s"
        assert trio.current_time() == pytest.approx(111)  # with the patience of a second


@pytest.mark.requirement("B7")
@each_legacy_revision
async def test_cancelling_a_call_calls_off_its_questions(revision):
    ended: list[str] = []

    async def ask(context: Context) -> str:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(context.roots)
                nursery.start_soon(context.roots)
        finally:
            ended.append("unwound")
        return "never"

    async with serving(registry_of(ask, echo), revision=revision, capabilities=ALL) as (client, _):
        call = await client.start("ask")
        questions = [await asked(client, ROOTS) for _ in range(2)]
        await client.cancel(call)
        told = [await client.receive() for _ in range(2)]
        assert {each["method"] for each in told} == {"notifications/cancelled"}
        assert {each["params"]["requestId"] for each in told} == {each["id"] for each in questions}
        for question in questions:
            await reply(client, question, result={"roots": []})
        assert text_of(await client.call("echo", text="fine")) == "fine"
        assert client.told == []
        assert ended == ["unwound"]


@each_legacy_revision
async def test_a_handler_may_stop_waiting_for_an_answer(revision, autojump_clock):
    async def ask(context: Context) -> str:
        with trio.move_on_after(5) as scope:
            await context.roots()
        return "gave up" if scope.cancelled_caught else "answered"

    async with serving(registry_of(ask), revision=revision, capabilities=ALL) as (client, _):
        call = await client.start("ask")
        question = await asked(client, ROOTS)
        assert (await client.receive())["params"] == {"requestId": question["id"]}
        await reply(client, question, result={"roots": []})
        assert text_of(await client.answer_to(call)) == "gave up"
        assert trio.current_time() == pytest.approx(5)


@pytest.mark.requirement("B9")
async def test_a_server_that_stops_does_not_wait_for_an_answer_for_ever(autojump_clock):
    async with serving(ASKERS, Limits(shutdown_grace=5), capabilities=ALL) as (client, handle):
        call = await client.start("lists_roots")
        question = await asked(client, ROOTS)
        handle.stop()
        messages = await client.receive_all()
        [answer] = [each for each in messages if "id" in each]
        assert answer["id"] == call
        assert error_of(answer)[0] == -32603
        assert question["id"] != ""
        assert trio.current_time() <= 5


# -- every way ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "revision"),
    [
        *(("memory", each) for each in (*FORMS, *MODERN)),
        ("tcp", FORMS[-1]),
        ("stdio", MODERN[0]),
    ],
)
async def test_asking_is_the_same_on_every_way(way, revision):
    async with workroom_client.reaching(way, revision) as client:
        rounds = await workroom_client.rounds(client, "tools/call", {"name": "book"})
        assert text_of(rounds[-1]) == "Ida (7), Roses, file:///home, accept"
        assert len(rounds) == (4 if revision in MODERN else 1)


async def elicit(params: Any) -> Any:
    return workroom_client.answers()[ELICIT](params)


async def sample(params: Any) -> Any:
    return workroom_client.answers()[SAMPLE](params)


HANDLERS = Handlers(elicitation=elicit, sampling=sample, roots=["file:///home"])


@each_quick_client
async def test_a_handler_of_the_client_answers(way, era):
    async with client_of(workroom.make(), way, era, handlers=HANDLERS) as client:
        result = await client.call_tool("book")
        assert result.text == "Ida (7), Roses, file:///home, accept"


@each_quick_client
async def test_a_client_without_handlers_is_not_asked(way, era):
    async with client_of(workroom.make(), way, era) as client:
        with pytest.raises(McpError, match="capability elicitation") as caught:
            await client.call_tool("book")
        assert caught.value.code == (-32600 if era == "legacy" else -32021)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_over_tcp_and_of_a_process_answers(era):
    from trio_mcp import connect

    for target in ("tcp", "stdio"):
        with patience():
            if target == "tcp":
                async with on_tcp(workroom.make()) as stream:
                    async with connect(stream, era=era, handlers=HANDLERS) as client:
                        result = await client.call_tool("book")
            else:
                async with connect(workroom_client.COMMAND, era=era, handlers=HANDLERS) as client:
                    result = await client.call_tool("book")
            assert result.text == "Ida (7), Roses, file:///home, accept"


async def test_a_question_does_not_outlive_the_client_s_block():
    """The client leaves while its own user is still thinking."""
    thinking, stopped = trio.Event(), []

    async def ponder(params: Any) -> Any:
        thinking.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(way)

    for way in ("in-process", "memory"):
        for era in ("legacy", "modern"):
            thinking = trio.Event()
            registry = workroom.make()
            async with client_of(
                registry, way, era, handlers=Handlers(elicitation=ponder)
            ) as client:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "book")
                    await thinking.wait()
                    await wait_all_tasks_blocked()
                    assert not stopped
                    nursery.cancel_scope.cancel()
            assert stopped.pop() == way
