"""Prompts: typed arguments that travel as text, and what a prompt's function may return."""

import base64
import threading
from contextlib import asynccontextmanager
from enum import Enum, IntEnum
from functools import partial
from typing import Annotated, Any, Literal

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.features import workroom_client
from tests.features.ways import client_of, each_quick_client, each_way
from tests.support.client import REVISIONS, RawClient, serving
from tests.support.errors import own_data
from tests.support.tools import INTERNAL, each_revision, echo, error_of, registry_of, some_revisions
from trio_mcp import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    Context,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    Limits,
    McpError,
    PromptMessage,
    Registry,
    ResourceLink,
    ResourceNotFound,
    TextContent,
    TextResourceContents,
    ToolError,
)
from trio_mcp.schema import SchemaError

pytestmark = pytest.mark.requirement("H4")

PIXEL = base64.b64encode(b"\x89PNG").decode()


class Tone(Enum):
    WARM = "warm"
    COLD = "cold"


class Grade(IntEnum):
    GOOD = 1
    BAD = 5


@attrs.frozen
class Author:
    name: str
    age: int = 0


def prompts(*functions: Any, **options: Any) -> Registry:
    """A registry of prompts."""
    registry = Registry("test", version="1.2", **options)
    for function in functions:
        registry.add_prompt(function)
    return registry


def giving(value: Any) -> Registry:
    """A registry with a prompt `give` that returns a value, or raises an exception."""

    async def give():
        """Give something."""
        if isinstance(value, BaseException):
            raise value
        return value

    return prompts(give)


async def get(client: RawClient, name: str, **arguments: Any) -> Any:
    """Get a prompt; the whole response."""
    return await client.request("prompts/get", {"name": name, "arguments": arguments})


def messages_of(answer: Any) -> list[Any]:
    messages: list[Any] = answer["result"]["messages"]
    return messages


def said(answer: Any) -> str:
    """The text of a prompt that is a single text of the user's."""
    [message] = messages_of(answer)
    assert message["role"] == "user"
    assert message["content"].keys() == {"type", "text"}
    text: str = message["content"]["text"]
    return text


# -- arguments ------------------------------------------------------------------------------------


async def show(
    text: str = "",
    number: int = 0,
    ratio: float = 0.0,
    flag: bool = False,
    tone: Tone = Tone.WARM,
    grade: Grade = Grade.GOOD,
    language: Literal["python", "rust"] = "python",
    step: Literal[1, 2] = 1,
    tags: list[str] | None = None,
    author: Author | None = None,
    maybe: int | None = None,
    table: dict[str, int] | None = None,
    either: int | str = 0,
    anything: Any = None,
) -> str:
    """Show what arrived."""
    return repr(dict(locals()))


ARGUMENTS = [
    ("text", "plain", "plain"),
    ("text", "3", "3"),
    ("text", "1e5", "1e5"),
    ("text", "true", "true"),
    ("text", "null", "null"),
    ("text", '"quoted"', '"quoted"'),
    ("text", '{"a": 1}', '{"a": 1}'),
    ("text", "", ""),
    ("text", " ünï\ncode 😀 ", " ünï\ncode 😀 "),
    ("number", "3", 3),
    ("number", "-7", -7),
    ("number", " 3 ", 3),
    ("ratio", "2.5", 2.5),
    ("ratio", "2", 2.0),
    ("ratio", "1e3", 1000.0),
    ("flag", "true", True),
    ("flag", "false", False),
    ("tone", "cold", Tone.COLD),
    ("grade", "5", Grade.BAD),
    ("language", "rust", "rust"),
    ("step", "2", 2),
    ("tags", '["a", "3"]', ["a", "3"]),
    ("tags", "[]", []),
    ("author", '{"name": "Ida", "age": 7}', Author("Ida", 7)),
    ("author", '{"name": "Ida"}', Author("Ida")),
    ("author", "null", None),
    ("maybe", "4", 4),
    ("maybe", "null", None),
    ("table", '{"a": 1}', {"a": 1}),
    ("either", "word", "word"),
    ("anything", "word", "word"),
]


@each_revision
async def test_arguments_are_text_and_arrive_in_their_types(revision):
    async with serving(prompts(show), revision=revision) as (client, _):
        for name, text, expected in ARGUMENTS:
            arrived = said(await get(client, "show", **{name: text}))
            assert f"{name!r}: {expected!r}" in arrived, (name, text)


async def test_arguments_that_are_left_out_have_their_defaults():
    async with serving(prompts(show)) as (client, _):
        default = said(await get(client, "show"))
        assert "'tone': <Tone.WARM" in default
        for params in ({"name": "show"}, {"name": "show", "arguments": None}):
            assert said(await client.request("prompts/get", params)) == default


@pytest.mark.requirement("A12")
@some_revisions
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["'code'", "string"]),
        ({"code": "x", "lines": "three"}, ["'lines'", "integer", "three"]),
        ({"code": "x", "lines": "2.5"}, ["'lines'", "integer"]),
        ({"code": "x", "lines": ""}, ["'lines'", "integer"]),
        ({"code": "x", "lines": "[1"}, ["'lines'", "integer"]),
        ({"code": "x", "lines": "true"}, ["'lines'", "integer"]),
        ({"code": "x", "strict": "yes"}, ["'strict'", "boolean"]),
        ({"code": "x", "strict": "True"}, ["'strict'", "boolean"]),
        ({"code": "x", "strict": "1"}, ["'strict'", "boolean"]),
        ({"code": "x", "language": "perl"}, ["'language'", "perl", "python"]),
        ({"code": "x", "ratio": "NaN"}, ["'ratio'", "number"]),
        ({"code": "x", "ratio": "Infinity"}, ["'ratio'", "number"]),
        ({"code": "x", "colour": "red"}, ["'colour'"]),
        ({"code": 3}, ["'code'", "string", "number"]),
        ({"code": None}, ["'code'", "string", "null"]),
        ({"code": True}, ["'code'", "string", "boolean"]),
        ({"code": ["x"]}, ["'code'", "string", "array"]),
        ({"code": {"x": "y"}}, ["'code'", "string", "object"]),
        ({"code": "x", "lines": 3}, ["'lines'", "string", "number"]),
        ({"code": "x", "colour": 3}, ["'colour'", "string"]),
        ([], ["object", "array"]),
        ("code", ["object", "string"]),
        (7, ["object", "number"]),
        (False, ["object", "boolean"]),
    ],
)
async def test_bad_arguments_are_named(revision, arguments, expected):
    ran = False

    async def review(
        code: str,
        lines: int = 1,
        strict: bool = False,
        language: Literal["python", "rust"] = "python",
        ratio: float = 1.0,
    ) -> str:
        nonlocal ran
        ran = True
        return code

    async with serving(prompts(review), revision=revision) as (client, _):
        params = {"name": "review", "arguments": arguments}
        code, message = error_of(await client.request("prompts/get", params))
        assert code == -32602
        assert "prompt review" in message
        for part in expected:
            assert part in message
        assert not ran
        assert said(await get(client, "review", code="fine")) == "fine"


async def test_the_text_of_a_large_number_keeps_all_its_digits():
    async def exact(number: int) -> str:
        return str(number)

    async with serving(prompts(exact)) as (client, _):
        for digits in ("123456789012345678901234567890", "9007199254740993", "-" + "9" * 40):
            assert said(await get(client, "exact", number=digits)) == digits


async def test_constraints_hold_for_what_the_text_means():
    annotated_types = pytest.importorskip("annotated_types")

    async def page(number: Annotated[int, annotated_types.Ge(1)]) -> str:
        return f"page {number}"

    async with serving(prompts(page)) as (client, _):
        assert said(await get(client, "page", number="1")) == "page 1"
        code, message = error_of(await get(client, "page", number="0"))
        assert code == -32602
        assert "'number'" in message


# -- the list -------------------------------------------------------------------------------------


@each_revision
async def test_the_list_tells_arguments_descriptions_and_what_is_required(revision):
    registry = Registry("test")

    @registry.prompt(
        title="Code review",
        icons=[Icon("https://x.test/i.png")],
        meta={"x.test/level": 3},
    )
    async def review(context: Context, code: str, lines: int = 10, tone: Tone = Tone.WARM) -> str:
        """Review some code.

        Args:
            context: Not an argument.
            code: What to review.
            lines: How much of it.
        """
        return code

    @registry.prompt(name="plain", description="Said here.")
    def nothing() -> str:
        """Not said."""
        return ""

    async with serving(registry, revision=revision) as (client, _):
        result = (await client.request("prompts/list"))["result"]
        first, second = result["prompts"]
        expected: dict[str, Any] = {
            "name": "review",
            "description": "Review some code.",
            "arguments": [
                {"name": "code", "description": "What to review.", "required": True},
                {"name": "lines", "description": "How much of it.", "required": False},
                {"name": "tone", "required": False},
            ],
        }
        if revision >= "2025-06-18":
            expected |= {"title": "Code review", "_meta": {"x.test/level": 3}}
        if revision >= "2025-11-25":
            expected["icons"] = [{"src": "https://x.test/i.png"}]
        assert first == expected
        assert second == {"name": "plain", "description": "Said here."}
        assert ("ttlMs" in result) is (revision == "2026-07-28")


@pytest.mark.requirement("A11")
@each_revision
async def test_a_registry_without_prompts_has_none_of_their_methods(revision):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        for method, params in [
            ("prompts/list", {}),
            ("prompts/get", {"name": "review"}),
            ("prompts/get", {}),
        ]:
            answer = await client.request(method, params)
            assert error_of(answer) == (-32601, f"{method} handler not registered")
            assert own_data(answer) == {"server": "test", "method": method}


@each_revision
async def test_the_capability_is_declared_if_there_are_prompts(revision):
    for registry, declared in [(prompts(show), True), (registry_of(echo), False)]:
        async with serving(registry, revision=revision, shake_hands=False) as (client, _):
            hello = await client.initialize() or await client.request("server/discover")
            capabilities = hello["result"]["capabilities"]
            assert capabilities.get("prompts") == ({"listChanged": True} if declared else None)


# -- results --------------------------------------------------------------------------------------


@each_revision
async def test_a_text_is_said_by_the_user(revision):
    async with serving(giving("Hello"), revision=revision) as (client, _):
        answer = await get(client, "give")
        assert said(answer) == "Hello"
        assert answer["result"]["description"] == "Give something."
        assert ("resultType" in answer["result"]) is (revision == "2026-07-28")
        assert "ttlMs" not in answer["result"]
        assert "cacheScope" not in answer["result"]


TEXT = {"type": "text", "text": "t"}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
EMBEDDED = {"type": "resource", "resource": {"uri": "x://y", "text": "t"}}

RESULTS: list[tuple[Any, list[tuple[str, Any]]]] = [
    (TextContent("t"), [("user", TEXT)]),
    (ImageContent(PIXEL, "image/png"), [("user", IMAGE)]),
    (EmbeddedResource(TextResourceContents("x://y", "t")), [("user", EMBEDDED)]),
    (PromptMessage("assistant", "t"), [("assistant", TEXT)]),
    (PromptMessage("user", ImageContent(PIXEL, "image/png")), [("user", IMAGE)]),
    ([], []),
    (["t", TextContent("t")], [("user", TEXT), ("user", TEXT)]),
    (
        ["t", PromptMessage("assistant", "t"), ImageContent(PIXEL, "image/png")],
        [("user", TEXT), ("assistant", TEXT), ("user", IMAGE)],
    ),
    (("t", "t"), [("user", TEXT), ("user", TEXT)]),
    (GetPromptResult([PromptMessage("assistant", "t")]), [("assistant", TEXT)]),
]


@some_revisions
@pytest.mark.parametrize(("value", "expected"), RESULTS)
async def test_what_a_prompt_may_return(revision, value, expected):
    async with serving(giving(value), revision=revision) as (client, _):
        messages = messages_of(await get(client, "give"))
        assert [(each["role"], each["content"]) for each in messages] == expected


@each_revision
async def test_a_result_of_its_own_says_everything_itself(revision):
    value = GetPromptResult([], description="Mine.", meta={"x.test/a": 1})
    async with serving(giving(value), revision=revision) as (client, _):
        result = (await get(client, "give"))["result"]
        assert result["description"] == "Mine."
        assert result["messages"] == []
        assert result["_meta"]["x.test/a"] == 1


@each_revision
async def test_early_revisions_get_what_they_know_of_sounds_and_links(revision):
    notes = Annotations(priority=0.5)
    value = [
        AudioContent(PIXEL, "audio/wav", annotations=notes),
        PromptMessage("assistant", ResourceLink("x://y", "why", title="Why?", annotations=notes)),
        EmbeddedResource(BlobResourceContents("x://z", PIXEL)),
    ]
    async with serving(giving(value), revision=revision) as (client, _):
        sound, link, embedded = messages_of(await get(client, "give"))
        assert [sound["role"], link["role"]] == ["user", "assistant"]
        if revision == "2024-11-05":
            assert sound["content"]["type"] == "resource"
            assert sound["content"]["resource"]["blob"] == PIXEL
            assert sound["content"]["resource"]["mimeType"] == "audio/wav"
        else:
            assert sound["content"]["type"] == "audio"
            assert sound["content"]["data"] == PIXEL
        if revision < "2025-06-18":
            assert link["content"]["type"] == "text"
            assert "x://y" in link["content"]["text"]
            assert "Why?" in link["content"]["text"]
        else:
            assert link["content"]["type"] == "resource_link"
            assert link["content"]["uri"] == "x://y"
        assert sound["content"]["annotations"] == link["content"]["annotations"]
        assert embedded["content"]["resource"] == {"uri": "x://z", "blob": PIXEL}


class Strange:
    """Nothing that could be said."""


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "NoneType"),
        (3, "int"),
        (True, "bool"),
        (b"bytes", "bytes"),
        ({"role": "user", "content": "x"}, "dict"),
        (Strange(), "Strange"),
        (["fine", 3], "int"),
        ([None], "NoneType"),
        ([["nested"]], "list"),
        ({"a set"}, "set"),
        (Author("Ida"), "Author"),
        (PromptMessage("system", "x"), "PromptMessage"),  # type: ignore[arg-type]
        (PromptMessage("user", Strange()), "PromptMessage"),  # type: ignore[arg-type]
        (PromptMessage("user", TextContent(3)), "PromptMessage"),  # type: ignore[arg-type]
        (TextContent(None), "TextContent"),  # type: ignore[arg-type]
        ([b"raw"], "bytes"),
        (GetPromptResult("text"), "GetPromptResult"),  # type: ignore[arg-type]
        (GetPromptResult(["text"]), "GetPromptResult"),  # type: ignore[list-item]
        (GetPromptResult([], meta={"x": Strange()}), "GetPromptResult"),
        (GetPromptResult([PromptMessage("system", "x")]), "GetPromptResult"),  # type: ignore[arg-type]
        (GetPromptResult([], description=3), "GetPromptResult"),  # type: ignore[arg-type]
        (TextContent("half \ud800 a character"), "TextContent"),
    ],
)
async def test_anything_else_is_an_error_that_names_its_type(revision, value, kind):
    async with serving(giving(value), revision=revision) as (client, _):
        answer = await get(client, "give")
        assert error_of(answer) == (
            -32603,
            f"Invalid handler result type: {kind} (prompt give)",
        )


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ToolError("No more ink."), -32603, "No more ink."),
        (McpError(-32001, "Ask later", {"seconds": 5}), -32001, "Ask later"),
        (RuntimeError("password: swordfish"), -32603, f"Prompt give failed: {INTERNAL}"),
        (KeyError("swordfish"), -32603, f"Prompt give failed: {INTERNAL}"),
        (SystemExit("swordfish"), -32603, f"Prompt give failed: {INTERNAL}"),
        (
            ExceptionGroup("swordfish", [ValueError(), ToolError("No more ink.")]),
            -32603,
            "No more ink.",
        ),
    ],
)
async def test_exceptions_tell_only_what_is_meant_to_be_told(
    revision, error, code, message, caplog
):
    async with serving(giving(error), revision=revision) as (client, _):
        answer = await get(client, "give")
        assert error_of(answer) == (code, message)
        assert "swordfish" not in str(answer)
        if "swordfish" in repr(error) and INTERNAL in message:
            assert "swordfish" in caplog.text
        assert error_of(await client.request("prompts/get", {"name": "give"}))[0] == code


@each_revision
async def test_a_resource_that_is_missing_is_told_as_such(revision):
    async with serving(giving(ResourceNotFound("x://y")), revision=revision) as (client, _):
        code, message = error_of(await get(client, "give"))
        assert code == (-32602 if revision == "2026-07-28" else -32002)
        assert "x://y" in message


@pytest.mark.requirement("B1")
@some_revisions
@pytest.mark.parametrize(
    ("limit", "of_registry", "of_prompt", "expected"),
    [(None, None, None, 60), (30, None, None, 30), (30, 20, None, 20), (30, 20, 90, 90)],
)
async def test_a_prompt_has_a_time_limit(
    revision, limit, of_registry, of_prompt, expected, autojump_clock
):
    async def dawdle() -> str:
        await trio.sleep(1000)
        return ""

    registry = Registry("test", tool_timeout=of_registry)
    registry.add_prompt(dawdle, timeout=of_prompt)
    limits = None if limit is None else Limits(tool_timeout=limit)
    async with serving(registry, limits, revision=revision) as (client, _):
        answer = await get(client, "dawdle")
        assert error_of(answer) == (-32603, f"Prompt dawdle timed out after {expected} s")
        assert trio.current_time() == pytest.approx(expected)


@pytest.mark.requirement("B3")
async def test_plain_functions_run_in_threads_and_may_get_stuck():
    release = threading.Event()

    def stuck() -> str:
        release.wait()
        return "never"

    def quick() -> str:
        return threading.current_thread().name

    registry = prompts(quick)
    registry.add_prompt(stuck, timeout=0.01)
    try:
        async with serving(registry, Limits(cancel_timeout=0)) as (client, _):
            code, message = error_of(await get(client, "stuck"))
            assert (code, message) == (-32603, "Prompt stuck timed out after 0.01 s")
            assert said(await get(client, "quick")) != threading.main_thread().name
    finally:
        release.set()


@pytest.mark.requirement("B7")
@each_revision
async def test_a_prompt_that_is_cancelled_is_not_answered(revision):
    ended = []

    async def endless() -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")
        return ""

    async def brief() -> str:
        return "here"

    async with serving(prompts(endless, brief), revision=revision) as (client, _):
        request = client.request_of("prompts/get", {"name": "endless"})
        await client.send(request)
        await wait_all_tasks_blocked()
        await client.cancel(request["id"])
        assert said(await get(client, "brief")) == "here"
        assert ended == ["cancelled"]


@pytest.mark.requirement("A12")
@each_revision
async def test_a_prompt_that_is_unknown(revision):
    async def review_code() -> str:
        return ""

    async with serving(prompts(review_code), revision=revision) as (client, _):
        answer = await get(client, "review-code")
        assert error_of(answer) == (-32602, "Unknown prompt: review-code")
        assert own_data(answer) == {"prompt": "review-code", "didYouMean": "review_code"}
        answer = await get(client, "zzz")
        assert error_of(answer) == (-32602, "Unknown prompt: zzz")
        assert own_data(answer) == {"prompt": "zzz"}
        for params in ({}, {"name": None}, {"name": 3}, {"name": ["review_code"]}, {"name": {}}):
            code, message = error_of(await client.request("prompts/get", params))
            assert code == -32602
            assert '"name"' in message


# -- registration ---------------------------------------------------------------------------------


@each_revision
async def test_prompts_come_and_go(revision):
    started, go_on = trio.Event(), trio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "slow but sure"

    async def other() -> str:
        return "other"

    registry = prompts(slow)
    async with serving(registry, revision=revision, shake_hands=False) as (client, _):
        request = client.request_of("prompts/get", {"name": "slow"})
        await client.send(request)
        await started.wait()
        registry.remove_prompt("slow")
        go_on.set()
        assert said(await client.answer_to(request["id"])) == "slow but sure"
        code, message = error_of(await client.request("prompts/list"))
        assert (code, message) == (-32601, "prompts/list handler not registered")
        registry.add_prompt(other)
        names = [
            each["name"] for each in (await client.request("prompts/list"))["result"]["prompts"]
        ]
        assert names == ["other"]
        assert error_of(await get(client, "slow"))[0] == -32602


def test_what_is_not_there_cannot_be_removed():
    with pytest.raises(KeyError):
        prompts(show).remove_prompt("shaw")


async def untyped(thing: threading.Lock) -> str:
    return ""


async def fine(text: str) -> str:
    return text


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (untyped, {}, ["Prompt 'untyped'", "thing"]),
        (untyped, {"name": "other"}, ["Prompt 'other'", "thing"]),
        (fine, {"timeout": 0}, ["Prompt 'fine'", "timeout"]),
        (fine, {"timeout": -1.5}, ["Prompt 'fine'", "-1.5"]),
        (fine, {"timeout": float("nan")}, ["Prompt 'fine'", "nan"]),
        (show, {}, ["Prompt 'show'", "already"]),
        (fine, {"name": "show"}, ["Prompt 'show'", "already"]),
    ],
)
def test_what_cannot_be_registered_says_why(function, options, expected):
    registry = prompts(show)
    with pytest.raises(SchemaError) as caught:
        registry.add_prompt(function, **options)
    for part in expected:
        assert part in str(caught.value)
    assert list(registry.prompts) == ["show"]


def test_the_decorator_leaves_the_function_as_it_is():
    registry = Registry("test")
    assert registry.prompt(fine) is fine
    assert registry.prompt(name="again")(fine) is fine
    assert list(registry.prompts) == ["fine", "again"]


# -- its context, and clients ---------------------------------------------------------------------


@each_revision
async def test_a_prompt_knows_who_asks(revision):
    async def who(context: Context) -> str:
        assert context.client is not None
        return f"{context.tool} {context.revision} {context.client.name} {context.request_id}"

    async with serving(prompts(who), revision=revision) as (client, _):
        request = client.request_of("prompts/get", {"name": "who"})
        await client.send(request)
        answer = await client.answer_to(request["id"])
        assert said(answer) == f"who {revision} test-client {request['id']}"


async def test_the_state_of_the_lifespan_is_there():
    @asynccontextmanager
    async def lifespan(registry):
        yield "open"

    async def look(context: Context) -> str:
        return f"it is {context.lifespan}"

    async with serving(prompts(look, lifespan=lifespan)) as (client, _):
        assert said(await get(client, "look")) == "it is open"


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("revision", REVISIONS[:2])  # later ones have no batches
async def test_prompts_in_a_batch(revision):
    async with serving(giving("Hello"), revision=revision) as (client, _):
        batch = [client.request_of("prompts/get", {"name": name}) for name in ("give", "gave")]
        await client.send(batch)
        answers = {each["id"]: each for each in await client.receive()}
        assert said(answers[batch[0]["id"]]) == "Hello"
        assert error_of(answers[batch[1]["id"]])[0] == -32602


@each_quick_client
async def test_the_client_lists_and_gets(way, era):
    async def review(code: str, lines: int = 3) -> list[Any]:
        """Review code."""
        return [f"{lines + 1} lines of {code}", PromptMessage("assistant", "Fine.")]

    async with client_of(prompts(review), way, era) as client:
        [shown] = await client.list_prompts()
        assert (shown.name, shown.description) == ("review", "Review code.")
        assert [(each.name, each.required) for each in shown.arguments or []] == [
            ("code", True),
            ("lines", False),
        ]
        result = await client.get_prompt("review", {"code": "x", "lines": "5"})
        assert result.messages == [
            PromptMessage("user", TextContent("6 lines of x")),
            PromptMessage("assistant", TextContent("Fine.")),
        ]
        with pytest.raises(McpError, match=r"prompt review.*'lines'") as caught:
            await client.get_prompt("review", {"code": "x", "lines": "many"})
        assert caught.value.code == -32602
        with pytest.raises(McpError, match="Unknown prompt: revue") as caught:
            await client.get_prompt("revue")
        assert caught.value.data["didYouMean"] == "review"


@each_way
async def test_prompts_are_the_same_on_every_way(way, revision):
    async with workroom_client.reaching(way, revision) as client:
        [shown] = (await client.request("prompts/list"))["result"]["prompts"]
        assert [(each["name"], each["required"]) for each in shown["arguments"]] == [
            ("to", True),
            ("city", True),
            ("tone", False),
            ("pages", False),
        ]
        letter = partial(get, client, "letter", city="Rome")
        assert said(await letter(to="5", pages="5", tone="cold")) == (
            "A cold letter to '5' in Rome, 6 pages with its cover"
        )
        code, message = error_of(await letter(to="you", pages="five"))
        assert code == -32602
        assert "'pages'" in message
