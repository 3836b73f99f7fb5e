"""Completion: suggestions for the arguments of prompts and the variables of templates."""

import threading
from enum import Enum, IntEnum
from typing import Any, Literal

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.features import workroom_client
from tests.features.ways import client_of, each_quick_client, each_way
from tests.support.client import RawClient, serving
from tests.support.errors import own_data
from tests.support.tools import INTERNAL, each_revision, echo, error_of, registry_of, some_revisions
from trio_mcp import Completion, Context, Limits, McpError, Registry, ToolError
from trio_mcp.registry import catalogue_of
from trio_mcp.schema import SchemaError

pytestmark = pytest.mark.requirement("H5")

NUMBERS = [f"n{number:03}" for number in range(250)]
USERS = "users://{id}/profile"


async def review(code: str, language: str = "python", framework: str = "") -> str:
    """Review some code."""
    return code


def reviews(source: Any = None, argument: str = "language") -> Registry:
    """A registry with a prompt and a template; an argument of the prompt is completed."""
    registry = Registry("test", version="1.2")
    registry.add_prompt(review)

    @registry.resource(USERS)
    async def profile(id: str) -> str:
        return id

    @registry.resource("config://app")
    async def config() -> str:
        return "debug"

    if source is not None:
        registry.add_completion(source, prompt="review", argument=argument)
    return registry


async def complete(
    client: RawClient,
    value: str = "",
    argument: str = "language",
    *,
    prompt: str = "review",
    resource: str | None = None,
    **more: Any,
) -> Any:
    """Ask for suggestions; the whole response."""
    ref = {"type": "ref/prompt", "name": prompt}
    if resource is not None:
        ref = {"type": "ref/resource", "uri": resource}
    params = {"ref": ref, "argument": {"name": argument, "value": value}, **more}
    return await client.request("completion/complete", params)


def found(answer: Any) -> tuple[list[str], int | None, bool | None]:
    """Values, total and hasMore of an answer."""
    completion = answer["result"]["completion"]
    return completion["values"], completion.get("total"), completion.get("hasMore")


# -- where suggestions come from ------------------------------------------------------------------


@each_revision
async def test_a_function_completes_an_argument(revision):
    async def languages(value: str) -> list[str]:
        return [each for each in ("python", "rust", "ruby") if each.startswith(value)]

    async with serving(reviews(languages), revision=revision) as (client, _):
        answer = await complete(client, "r")
        assert found(answer) == (["rust", "ruby"], 2, False)
        assert ("resultType" in answer["result"]) is (revision == "2026-07-28")
        assert found(await complete(client, "c")) == ([], 0, False)


@each_revision
async def test_a_function_of_a_template_s_variable(revision):
    registry = reviews()

    @registry.completion(resource=USERS, argument="id")
    def ids(value: str) -> list[str]:
        return [f"{value}{digit}-{threading.current_thread().name[:4]}" for digit in "12"]

    async with serving(registry, revision=revision) as (client, _):
        values, total, more = found(await complete(client, "7", "id", resource=USERS))
        assert [each[:2] for each in values] == ["71", "72"]
        assert not any(each.endswith("Main") for each in values)
        assert (total, more) == (2, False)


@each_revision
async def test_a_function_sees_what_was_chosen_already(revision):
    async def frameworks(value: str, arguments: dict[str, str]) -> list[str]:
        return sorted(f"{name}={each}" for name, each in arguments.items())

    async with serving(reviews(frameworks, "framework"), revision=revision) as (client, _):
        for context, expected in [
            (
                {"context": {"arguments": {"language": "rust", "code": "x"}}},
                ["code=x", "language=rust"],
            ),
            ({"context": {"arguments": {}}}, []),
            ({"context": {}}, []),
            ({}, []),
        ]:
            values, _, _ = found(await complete(client, "f", "framework", **context))
            assert values == expected


@each_revision
async def test_a_list_gives_what_begins_as_typed_and_then_what_contains_it(revision):
    cities = ["Boston", "Berlin", "Bern", "Lisbon", "Köln"]
    async with serving(reviews(cities), revision=revision) as (client, _):
        assert found(await complete(client, "b")) == (
            ["Boston", "Berlin", "Bern", "Lisbon"],
            4,
            False,
        )
        assert found(await complete(client, "BER"))[0] == ["Berlin", "Bern"]
        assert found(await complete(client, ""))[0] == cities
        assert found(await complete(client, "KÖ"))[0] == ["Köln"]
        assert found(await complete(client, "x")) == ([], 0, False)


class Tone(Enum):
    WARM = "warm"
    COLD = "cold"


class Grade(IntEnum):
    GOOD = 1
    BAD = 5


async def letter(
    tone: Tone,
    grade: Grade,
    language: Literal["en", "de"],
    step: Literal[1, 2, "last"],
    draft: bool,
    mood: Tone | None = None,
    place: Literal["here"] | None = None,
    free: str = "",
    count: int = 0,
    either: Literal["a"] | int = "a",
) -> str:
    """Write a letter."""
    return language


@some_revisions
@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        ("tone", "", ["warm", "cold"]),
        ("tone", "C", ["cold"]),
        ("grade", "", ["1", "5"]),
        ("grade", "5", ["5"]),
        ("language", "d", ["de"]),
        ("step", "", ["1", "2", "last"]),
        ("draft", "", ["true", "false"]),
        ("draft", "t", ["true"]),
        ("mood", "", ["warm", "cold"]),
        ("place", "he", ["here"]),
        ("free", "", []),
        ("count", "1", []),
        ("either", "", []),  # a number could be anything
    ],
)
async def test_annotations_that_name_all_values(revision, argument, value, expected):
    registry = Registry("test")
    registry.add_prompt(letter)
    async with serving(registry, revision=revision) as (client, _):
        answer = await complete(client, value, argument, prompt="letter")
        assert found(answer) == (expected, len(expected), False)


async def test_what_is_suggested_is_what_the_prompt_takes():
    registry = Registry("test")
    registry.add_prompt(letter)
    async with serving(registry) as (client, _):
        chosen = {}
        for argument in ("tone", "grade", "language", "step", "draft", "mood", "place"):
            chosen[argument] = found(await complete(client, "", argument, prompt="letter"))[0][-1]
        answer = await client.request("prompts/get", {"name": "letter", "arguments": chosen})
        assert answer["result"]["messages"]


async def test_the_variables_of_templates_are_completed_by_their_annotations_too():
    registry = Registry("test")

    @registry.resource("towns://{town}/{?draft}")
    async def town(town: Literal["Rome", "Riga"], draft: bool = False) -> str:
        return town

    async with serving(registry) as (client, _):
        where = {"resource": "towns://{town}/{?draft}"}
        assert found(await complete(client, "ri", "town", **where))[0] == ["Riga"]
        assert found(await complete(client, "", "draft", **where))[0] == ["true", "false"]


async def test_a_registered_completion_comes_before_the_annotation():
    registry = Registry("test")
    registry.add_prompt(letter)
    registry.add_completion(["tepid"], prompt="letter", argument="tone")
    async with serving(registry) as (client, _):
        assert found(await complete(client, "", "tone", prompt="letter"))[0] == ["tepid"]


# -- how many -------------------------------------------------------------------------------------


@some_revisions
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (NUMBERS[:0], ([], 0, False)),
        (NUMBERS[:99], (NUMBERS[:99], 99, False)),
        (NUMBERS[:100], (NUMBERS[:100], 100, False)),
        (NUMBERS[:101], (NUMBERS[:100], 101, True)),
        (NUMBERS, (NUMBERS[:100], 250, True)),
        (tuple(NUMBERS[:3]), (NUMBERS[:3], 3, False)),
        (Completion(NUMBERS[:3]), (NUMBERS[:3], None, False)),
        (Completion(NUMBERS[:3], total=3), (NUMBERS[:3], 3, False)),
        (Completion(NUMBERS[:3], total=50), (NUMBERS[:3], 50, True)),
        (Completion(NUMBERS[:3], has_more=True), (NUMBERS[:3], None, True)),
        (Completion(NUMBERS[:3], total=50, has_more=True), (NUMBERS[:3], 50, True)),
        (Completion(NUMBERS[:101]), (NUMBERS[:100], None, True)),
        (Completion(NUMBERS, total=1000), (NUMBERS[:100], 1000, True)),
        (Completion(NUMBERS[:100], total=100, has_more=False), (NUMBERS[:100], 100, False)),
    ],
)
async def test_at_most_a_hundred_and_how_many_there_are(revision, given, expected):
    async def source(value: str):
        return given

    async with serving(reviews(source), revision=revision) as (client, _):
        assert found(await complete(client)) == expected


async def test_a_long_list_is_cut_as_well():
    async with serving(reviews(NUMBERS)) as (client, _):
        assert found(await complete(client, "n")) == (NUMBERS[:100], 250, True)
        assert found(await complete(client, "n24"))[1:] == (10, False)


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, "NoneType"),
        ("text", "str"),
        ({"values": []}, "dict"),
        (["fine", 3], "list"),
        ([None], "list"),
        (7, "int"),
        (Completion("text"), "Completion"),  # type: ignore[arg-type]
        (Completion([3]), "Completion"),  # type: ignore[list-item]
        (iter(["x"]), "list_iterator"),
    ],
)
async def test_anything_else_is_an_error_that_names_its_type(revision, given, kind):
    async def source(value: str):
        return given

    async with serving(reviews(source), revision=revision) as (client, _):
        answer, whose = await complete(client), "completion of language of review"
        message = f"Invalid handler result type: {kind} ({whose})"
        assert error_of(answer) == (-32603, message)
        assert own_data(answer) == {"type": kind, "handler": whose}


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.requirement("A12")
@each_revision
async def test_what_is_not_there_is_named(revision):
    async with serving(reviews(["x"]), revision=revision) as (client, _):
        answer = await complete(client, prompt="revue")
        assert error_of(answer) == (-32602, "Unknown prompt: revue")
        assert own_data(answer) == {"prompt": "revue", "didYouMean": "review"}
        answer = await complete(client, argument="languages")
        assert error_of(answer) == (-32602, "Unknown argument of review: languages")
        assert own_data(answer) == {"argument": "languages", "didYouMean": "language"}
        answer = await complete(client, argument="id", resource="users://{id}/profil")
        assert error_of(answer) == (-32602, "Unknown resource template: users://{id}/profil")
        data = {"resource": "users://{id}/profil", "didYouMean": USERS}
        assert own_data(answer) == data
        answer = await complete(client, argument="ids", resource=USERS)
        assert error_of(answer) == (-32602, f"Unknown argument of {USERS}: ids")


@pytest.mark.requirement("A12")
@each_revision
async def test_a_resource_without_variables_has_nothing_to_complete(revision):
    async with serving(reviews(["x"]), revision=revision) as (client, _):
        answer = await complete(client, argument="id", resource="config://app")
        assert error_of(answer) == (-32602, "Unknown argument of config://app: id")


async def test_a_resource_is_no_prompt():
    async with serving(reviews(["x"])) as (client, _):
        answer = await complete(client, prompt="config://app")
        assert error_of(answer) == (-32602, "Unknown prompt: config://app")


PROMPT = {"type": "ref/prompt", "name": "review"}
ARGUMENT = {"name": "language", "value": ""}
REF_TYPES = "'ref/prompt' or 'ref/resource'"


@pytest.mark.requirement("A12")
@some_revisions
@pytest.mark.parametrize(
    ("params", "path", "expected"),
    [
        ({}, "ref", "an object"),
        ({"ref": PROMPT}, "argument", "an object"),
        ({"argument": ARGUMENT}, "ref", "an object"),
        ({"ref": "review", "argument": ARGUMENT}, "ref", "an object"),
        ({"ref": {}, "argument": ARGUMENT}, "ref.type", REF_TYPES),
        ({"ref": {"type": "ref/prompt"}, "argument": ARGUMENT}, "ref.name", "a string"),
        ({"ref": {**PROMPT, "name": 3}, "argument": ARGUMENT}, "ref.name", "a string"),
        ({"ref": {**PROMPT, "name": None}, "argument": ARGUMENT}, "ref.name", "a string"),
        ({"ref": {**PROMPT, "type": "ref/resource"}, "argument": ARGUMENT}, "ref.uri", "a string"),
        ({"ref": {**PROMPT, "type": "ref/tool"}, "argument": ARGUMENT}, "ref.type", REF_TYPES),
        ({"ref": {"name": "review"}, "argument": ARGUMENT}, "ref.type", REF_TYPES),
        ({"ref": PROMPT, "argument": "language"}, "argument", "an object"),
        ({"ref": PROMPT, "argument": {"name": "language"}}, "argument.value", "a string"),
        ({"ref": PROMPT, "argument": {"value": ""}}, "argument.name", "a string"),
        ({"ref": PROMPT, "argument": {**ARGUMENT, "value": 3}}, "argument.value", "a string"),
        ({"ref": PROMPT, "argument": {**ARGUMENT, "value": None}}, "argument.value", "a string"),
        ({"ref": PROMPT, "argument": {**ARGUMENT, "name": ["x"]}}, "argument.name", "a string"),
    ],
)
async def test_bad_params_are_explained(revision, params, path, expected):
    async with serving(reviews(["x"]), revision=revision) as (client, _):
        answer = await client.request("completion/complete", params)
        code, message = error_of(answer)
        assert code == -32602
        assert message.startswith(f'Invalid params: "{path}" must be {expected}, ')
        assert own_data(answer)["parameter"] == path


@some_revisions
@pytest.mark.parametrize("context", [None, 3, [], {"arguments": 3}, {"arguments": {"a": 3}}])
async def test_a_context_that_is_none_is_ignored(revision, context):
    async def frameworks(value: str, arguments: dict[str, str]) -> list[str]:
        return list(arguments)

    async with serving(reviews(frameworks, "framework"), revision=revision) as (client, _):
        assert found(await complete(client, "", "framework", context=context)) == ([], 0, False)


async def test_a_context_has_a_thousand_arguments_at_most():
    async def frameworks(value: str, arguments: dict[str, str]) -> list[str]:
        return [str(len(arguments))]

    async with serving(reviews(frameworks, "framework")) as (client, _):
        for many in (1000, 1001):
            context = {"arguments": {f"a{number}": "x" for number in range(many)}}
            answer = await complete(client, "", "framework", context=context)
            if many == 1000:
                assert found(answer) == (["1000"], 1, False)
            else:
                assert error_of(answer) == (
                    -32602,
                    "Invalid params: the context has more than 1000 arguments",
                )


# -- whether there is completion at all -----------------------------------------------------------


@pytest.mark.requirement("A11")
@each_revision
async def test_it_is_declared_if_there_is_something_to_complete(revision):
    plain, by_hand, by_annotation = reviews(), reviews(["x"]), Registry("test")
    by_annotation.add_prompt(letter)
    for registry, there in [
        (plain, False),
        (registry_of(echo), False),
        (by_hand, True),
        (by_annotation, True),
    ]:
        async with serving(registry, revision=revision, shake_hands=False) as (client, _):
            hello = await client.initialize() or await client.request("server/discover")
            declared = hello["result"]["capabilities"]
            assert ("completions" in declared) is (there and revision != "2024-11-05")
            if there:
                assert declared.get("completions", {}) == {}
            else:
                assert error_of(await complete(client)) == (
                    -32601,
                    "completion/complete handler not registered",
                )


async def test_a_completion_goes_with_its_prompt():
    registry = reviews(["x"])
    registry.add_prompt(letter)
    registry.remove_prompt("review")
    async with serving(registry) as (client, _):
        assert error_of(await complete(client)) == (-32602, "Unknown prompt: review")


# -- how it runs ----------------------------------------------------------------------------------


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ToolError("Ask later."), -32603, "Ask later."),
        (McpError(-32001, "Ask later"), -32001, "Ask later"),
        (
            OSError("/secret/path"),
            -32603,
            f"Completion of language of review failed: {INTERNAL}",
        ),
    ],
)
async def test_exceptions_tell_only_what_is_meant_to_be_told(
    revision, error, code, message, caplog
):
    async def source(value: str) -> list[str]:
        raise error

    async with serving(reviews(source), revision=revision) as (client, _):
        answer = await complete(client)
        assert error_of(answer) == (code, message)
        assert "secret" not in str(answer)
        assert ("secret" in caplog.text) is isinstance(error, OSError)


@pytest.mark.requirement("B1")
@some_revisions
@pytest.mark.parametrize(("limit", "expected"), [(None, 60), (5, 5)])
async def test_it_has_a_time_limit(revision, limit, expected, autojump_clock):
    async def source(value: str) -> list[str]:
        await trio.sleep_forever()
        return []

    registry = reviews()
    registry.add_completion(source, prompt="review", argument="language", timeout=limit)
    async with serving(registry, revision=revision) as (client, _):
        code, message = error_of(await complete(client))
        assert (code, message) == (
            -32603,
            f"Completion of language of review timed out after {expected} s",
        )
        assert trio.current_time() == pytest.approx(expected)


@pytest.mark.requirement("B7")
@each_revision
async def test_it_can_be_cancelled(revision):
    ended = []

    async def source(value: str) -> list[str]:
        if not value:
            try:
                await trio.sleep_forever()
            finally:
                ended.append(True)
        return [value]

    async with serving(reviews(source), revision=revision) as (client, _):
        request = client.request_of(
            "completion/complete", {"ref": PROMPT, "argument": {"name": "language", "value": ""}}
        )
        await client.send(request)
        await wait_all_tasks_blocked()
        await client.cancel(request["id"])
        assert found(await complete(client, "x"))[0] == ["x"]
        assert ended == [True]


@pytest.mark.requirement("B2")
async def test_completions_wait_for_their_turn_and_none_is_lost():
    running = most = 0

    async def source(value: str) -> list[str]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.lowlevel.checkpoint()
        running -= 1
        return [value]

    async with serving(reviews(source), Limits(max_concurrent_calls=2)) as (client, _):
        requests = [
            client.request_of(
                "completion/complete",
                {"ref": PROMPT, "argument": {"name": "language", "value": str(number)}},
            )
            for number in range(20)
        ]
        await client.send(*requests)
        answers = await client.receive_many(20)
        for number, request in enumerate(requests):
            assert found(answers[request["id"]])[0] == [str(number)]
        assert most <= 2


@each_revision
async def test_a_completion_may_have_a_context(revision):
    async def source(value: str, context: Context) -> list[str]:
        await context.info({"typed": value})
        await context.progress(1)
        return [f"{context.tool} {context.revision}"]

    async with serving(reviews(source), revision=revision) as (client, _):
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}
        values, _, _ = found(await complete(client, "ty", _meta=meta))
        assert values == [f"language of review {revision}"]
        assert [each["method"] for each in client.told] == [
            "notifications/message",
            "notifications/progress",
        ]


# -- registration ---------------------------------------------------------------------------------


async def nothing() -> list[str]:
    return []


async def too_much(value: str, more: str) -> list[str]:
    return []


async def languages(value: str) -> list[str]:
    return [value]


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("function", "where", "expected"),
    [
        (languages, {"prompt": "revue", "argument": "language"}, "language of revue"),
        (languages, {"prompt": "review", "argument": "lang"}, "lang of review"),
        (languages, {"resource": "users://{id}", "argument": "id"}, "id of users://{id}"),
        (languages, {"resource": "config://app", "argument": "id"}, "id of config://app"),
        (languages, {"resource": USERS, "argument": "name"}, "name of users://"),
        (languages, {"argument": "language"}, "either prompt= or resource="),
        (
            languages,
            {"prompt": "review", "resource": USERS, "argument": "id"},
            "either prompt= or resource=",
        ),
        (nothing, {"prompt": "review", "argument": "language"}, "`value`"),
        (too_much, {"prompt": "review", "argument": "language"}, "more"),
    ],
)
def test_what_cannot_be_registered_says_why(function, where, expected):
    registry = reviews()
    with pytest.raises(SchemaError, match=expected.replace("{", "[{]")):
        registry.add_completion(function, **where)
    with pytest.raises(SchemaError, match=expected.replace("{", "[{]")):
        registry.completion(**where)(function)
    assert "completions" not in catalogue_of(registry).offers


def test_the_decorator_leaves_the_function_as_it_is():
    assert reviews().completion(prompt="review", argument="code")(languages) is languages


# -- clients --------------------------------------------------------------------------------------


@each_quick_client
async def test_the_client_completes(way, era):
    async def frameworks(value: str, arguments: dict[str, str]) -> Completion:
        return Completion([f"{arguments['language']}-{value}"], total=9)

    async with client_of(reviews(frameworks, "framework"), way, era) as client:
        assert "completions" in client.capabilities
        assert await client.complete(
            "framework", "x", prompt="review", chosen={"language": "rust"}
        ) == Completion(["rust-x"], total=9, has_more=True)
        with pytest.raises(McpError, match="Unknown prompt") as caught:
            await client.complete("framework", "x", prompt="other")
        assert caught.value.code == -32602


@each_way
async def test_completion_is_the_same_on_every_way(way, revision):
    async with workroom_client.reaching(way, revision) as client:
        assert found(await complete(client, "b", "city", prompt="letter")) == (
            ["Berlin", "Bern", "Boston", "Lisbon"],
            4,
            False,
        )
        assert found(await complete(client, "", "tone", prompt="letter"))[0] == ["warm", "cold"]
        assert found(await complete(client, "r", "city", resource="towns://{city}"))[0] == [
            "Rome",
            "Riga",
        ]
        assert error_of(await complete(client, "", "town", prompt="letter"))[0] == -32602
