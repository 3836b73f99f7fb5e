"""Resources and templates: what is listed, what is read, and what is told when it cannot be."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import logging
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any, Literal

import pytest
import trio
from attrs import frozen

from tests.features import library
from tests.features.ways import (
    client_of,
    each_client,
    each_quick_client,
    each_way,
    not_found,
    reaching,
)
from tests.support.client import LEGACY, serving
from tests.support.errors import own_error
from tests.support.tools import each_revision, echo, error_of, some_revisions
from trio_mcp import (
    Context,
    Limits,
    McpError,
    Registry,
    ResourceNotFound,
    ToolError,
    handle_message,
)
from trio_mcp.schema import SchemaError
from trio_mcp.wire.content import (
    Annotations,
    BlobResourceContents,
    TextResourceContents,
)
from trio_mcp.wire.payloads import Icon

pytestmark = pytest.mark.requirement("H1")

URI = "thing://one"
MODERN = "2026-07-28"


def resource(returned: Any, uri: str = URI, **options: Any) -> Registry:
    """A registry with one resource, which returns a value or raises an exception."""
    registry = Registry("test", version="1.2")

    async def give():  # type: ignore[no-untyped-def]  # no annotation: nothing is inferred
        if isinstance(returned, BaseException):
            raise returned
        return returned

    registry.add_resource(uri, give, **options)
    return registry


async def read(client: Any, uri: str = URI) -> Any:
    return await client.request("resources/read", {"uri": uri})


def contents_of(answer: Any) -> Any:
    return answer["result"]["contents"]


def text_of(answer: Any) -> str:
    [piece] = contents_of(answer)
    text: str = piece["text"]
    return text


# -- what is read ---------------------------------------------------------------------------------


@frozen
class Point:
    x: float
    label: str = "here"


@dataclasses.dataclass
class Day:
    date: datetime.date


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def text(words: str, mime_type: str = "text/plain") -> list[dict[str, Any]]:
    return [{"uri": URI, "text": words, "mimeType": mime_type}]


def blob(data: bytes, mime_type: str = "application/octet-stream") -> list[dict[str, Any]]:
    return [{"uri": URI, "blob": base64.b64encode(data).decode(), "mimeType": mime_type}]


JSON = "application/json"
RETURNED: list[tuple[Any, Any]] = [
    ("some text", text("some text")),
    ("", text("")),
    ("ünïcode ☃ 𝄞 \0 \r\n\t \u2028", text("ünïcode ☃ 𝄞 \0 \r\n\t \u2028")),
    (b"", blob(b"")),
    (bytes(range(256)), blob(bytes(range(256)))),
    (bytearray(b"\xff\0"), blob(b"\xff\0")),
    (memoryview(b"\xff\0"), blob(b"\xff\0")),
    ({"a": [1, None, "ü"]}, text('{"a":[1,null,"ü"]}', JSON)),
    ([], text("[]", JSON)),
    (["a", "b"], text('["a","b"]', JSON)),
    (("a", 1), text('["a",1]', JSON)),
    (None, text("null", JSON)),
    (True, text("true", JSON)),
    (5, text("5", JSON)),
    (2**70, text(str(2**70), JSON)),
    (1.5, text("1.5", JSON)),
    (Point(1.5), text('{"x":1.5,"label":"here"}', JSON)),
    (Day(datetime.date(2024, 5, 1)), text('{"date":"2024-05-01"}', JSON)),
    (Colour.RED, text('"red"', JSON)),
    (
        TextResourceContents(URI, "<p>", mime_type="text/html"),
        [{"uri": URI, "text": "<p>", "mimeType": "text/html"}],
    ),
    (TextResourceContents("thing://other", "x"), [{"uri": "thing://other", "text": "x"}]),
    (
        BlobResourceContents(URI, "AP8=", mime_type="image/png"),
        [{"uri": URI, "blob": "AP8=", "mimeType": "image/png"}],
    ),
    (
        [TextResourceContents("thing://a", "A"), BlobResourceContents("thing://b", "Qg==")],
        [{"uri": "thing://a", "text": "A"}, {"uri": "thing://b", "blob": "Qg=="}],
    ),
    (
        (TextResourceContents("thing://a", "A"), TextResourceContents("thing://b", "B")),
        [{"uri": "thing://a", "text": "A"}, {"uri": "thing://b", "text": "B"}],
    ),
    (
        [TextResourceContents("thing://a", "A"), "text", b"\xff", {"b": 1}],
        [
            {"uri": "thing://a", "text": "A"},
            *text("text"),
            *blob(b"\xff"),
            *text('{"b":1}', JSON),
        ],
    ),
]


@each_revision
async def test_what_a_function_returns_is_what_is_read(revision: str) -> None:
    for value, expected in RETURNED:
        async with serving(resource(value), revision=revision) as (client, _):
            result = (await read(client))["result"]
            assert result["contents"] == expected
            hints = {"ttlMs": 0, "cacheScope": "private"} if revision == MODERN else {}
            assert {key: result[key] for key in ("ttlMs", "cacheScope") if key in result} == hints


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<p>", text("<p>", "text/html")),
        (b"<p>", blob(b"<p>", "text/html")),
        ({"a": 1}, text('{"a":1}', "text/html")),
        (TextResourceContents(URI, "<p>"), text("<p>", "text/html")),
        (TextResourceContents(URI, "p", mime_type="text/x-p"), text("p", "text/x-p")),
        # What it says of other resources is not about their type.
        (TextResourceContents("thing://a", "A"), [{"uri": "thing://a", "text": "A"}]),
    ],
)
@some_revisions
async def test_the_media_type_that_was_declared(revision: str, value: Any, expected: Any) -> None:
    async with serving(resource(value, mime_type="text/html"), revision=revision) as (client, _):
        assert contents_of(await read(client)) == expected
        [listed] = (await client.request("resources/list"))["result"]["resources"]
        assert listed["mimeType"] == "text/html"


@each_revision
async def test_meta_of_contents_comes_with_the_revision_that_has_it(revision: str) -> None:
    piece = TextResourceContents(URI, "x", mime_type="text/plain", meta={"x.test/a": [1]})
    async with serving(resource(piece), revision=revision) as (client, _):
        [shown] = contents_of(await read(client))
        assert shown.get("_meta") == ({"x.test/a": [1]} if revision >= "2025-06-18" else None)


@each_quick_client
async def test_the_client_gets_values(way: str, era: str) -> None:
    registry = resource(
        [
            TextResourceContents(URI, "ü", mime_type="text/plain", meta={"x.test/a": 1}),
            BlobResourceContents("thing://two", "AP8="),
        ],
        cache_ttl=1.5,
        cache_scope="public",
    )
    async with client_of(registry, way, era) as client:
        result = await client.read_resource(URI)
        assert result.contents == [
            TextResourceContents(URI, "ü", mime_type="text/plain", meta={"x.test/a": 1}),
            BlobResourceContents("thing://two", "AP8="),
        ]
        assert result.text == "ü"
        assert result.data == "ü".encode() + b"\0\xff"
        fresh = (1.5, "public") if era == "modern" else (0.0, "private")
        assert (result.ttl, result.cache_scope) == fresh


@each_way
async def test_every_way_leads_to_the_same_resources(way: str, revision: str) -> None:
    async with reaching(way, revision) as client:
        answer = await read(client, library.CONFIG)
        [config] = contents_of(answer)
        assert json.loads(config["text"]) == {"debug": True, "name": "ünïcode"}
        assert config["mimeType"] == JSON
        assert ("ttlMs" in answer["result"]) is (revision == MODERN)
        assert text_of(await read(client, library.POEM)) == "a line\nanother line"
        [pixel] = contents_of(await read(client, library.PIXEL))
        assert base64.b64decode(pixel["blob"]) == library.PIXEL_BYTES
        assert json.loads(text_of(await read(client, "users://7/profile"))) == {
            "id": 7,
            "name": "user 7",
        }
        for uri in ("users://0/profile", "users://seven/profile", "users://7", "nothing:"):
            assert own_error(await read(client, uri)) == not_found(revision, uri)


@each_client
async def test_every_client_reads_the_same_resources(way: str, era: str) -> None:
    async with client_of(library.make(), way, era) as client:
        assert json.loads((await client.read_resource(library.CONFIG)).text)["debug"] is True
        assert (await client.read_resource(library.POEM)).text == "a line\nanother line"
        assert (await client.read_resource(library.PIXEL)).data == library.PIXEL_BYTES
        assert json.loads((await client.read_resource("users://7/profile")).text)["id"] == 7
        for uri in ("users://0/profile", "users://x/profile", "nothing:", "x" * 2000):
            with pytest.raises(ResourceNotFound, match=uri[:100]):
                await client.read_resource(uri)
        listed = await client.list_resources()
        assert [each.uri for each in listed] == [library.CONFIG, library.POEM, library.PIXEL]
        assert (listed[2].mime_type, listed[2].size) == ("image/png", 256)
        assert [each.uri_template for each in await client.list_resource_templates()] == [
            library.USER
        ]


# -- what is listed -------------------------------------------------------------------------------

ICON = Icon("https://x.test/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")
ICON_WIRE = {
    "src": "https://x.test/i.png",
    "mimeType": "image/png",
    "sizes": ["48x48"],
    "theme": "dark",
}


def details(revision: str) -> dict[str, Any]:
    """What a revision shows of what `described` says."""
    shown: dict[str, Any] = {
        "name": "thing",
        "description": "A thing.",
        "mimeType": "text/x-thing",
        "annotations": {"audience": ["user", "assistant"], "priority": 0.8},
    }
    if revision >= "2025-06-18":
        shown |= {"title": "The thing", "_meta": {"x.test/level": 3}}
        shown["annotations"]["lastModified"] = "2025-01-12T15:00:58Z"
    if revision >= "2025-11-25":
        shown["icons"] = [ICON_WIRE]
    return shown


DESCRIBED: dict[str, Any] = {
    "title": "The thing",
    "mime_type": "text/x-thing",
    "annotations": Annotations(
        audience=["user", "assistant"], priority=0.8, last_modified="2025-01-12T15:00:58Z"
    ),
    "icons": [ICON],
    "meta": {"x.test/level": 3},
}


@each_revision
async def test_each_revision_shows_the_fields_that_it_has(revision: str) -> None:
    registry = Registry("test")

    @registry.resource(URI, size=42, **DESCRIBED)
    @registry.resource("things://{number}{?unit}", **DESCRIBED)
    async def thing(number: int = 0, unit: str = "m") -> str:
        """A thing."""
        return "x"

    async with serving(registry, revision=revision) as (client, _):
        [listed] = (await client.request("resources/list"))["result"]["resources"]
        assert listed == {"uri": URI, "size": 42, **details(revision)}
        result = (await client.request("resources/templates/list"))["result"]
        [listed] = result["resourceTemplates"]
        assert listed == {"uriTemplate": "things://{number}{?unit}", **details(revision)}


@each_revision
async def test_a_resource_without_details_has_its_name_alone(revision: str) -> None:
    async with serving(resource("x", name="one"), revision=revision) as (client, _):
        [listed] = (await client.request("resources/list"))["result"]["resources"]
        assert listed == {"uri": URI, "name": "one"}
        result = (await client.request("resources/templates/list"))["result"]
        assert result["resourceTemplates"] == []


@each_revision
async def test_the_capability_is_declared_when_there_is_something(revision: str) -> None:
    templates = Registry("test")
    templates.add_resource("things://{id}", lambda id: id, name="things")
    for registry in (resource("x"), templates):
        async with serving(registry, revision=revision, shake_hands=False) as (client, _):
            declared = await _capabilities(client)
            assert declared["resources"] == {"subscribe": True, "listChanged": True}
    async with serving(Registry("test"), revision=revision, shake_hands=False) as (client, _):
        assert "resources" not in await _capabilities(client)


async def _capabilities(client: Any) -> Any:
    if client.revision == MODERN:
        return (await client.request("server/discover"))["result"]["capabilities"]
    return (await client.initialize())["result"]["capabilities"]


# -- templates ------------------------------------------------------------------------------------


def template(uri: str, function: Callable[..., Any]) -> Registry:
    registry = Registry("test")
    registry.add_resource(uri, function, name="template")
    return registry


async def by_int(id: int) -> str:
    return repr(id)


async def by_enum(colour: Colour) -> str:
    return repr(colour)


async def by_literal(kind: Literal["a", "b"]) -> str:
    return repr(kind)


async def by_date(day: datetime.date) -> str:
    return repr(day)


async def by_path(path: PurePosixPath) -> str:
    return repr(str(path))


async def by_str(text: str) -> str:
    return repr(text)


async def by_float(x: float) -> str:
    return repr(x)


async def by_bool(on: bool) -> str:
    return repr(on)


async def by_list(rest: list[str]) -> str:
    return repr(rest)


async def by_ints(n: list[int]) -> str:
    return repr(n)


async def by_optional(id: int, unit: str = "m", limit: int | None = None) -> str:
    return repr((id, unit, limit))


TYPED: list[tuple[str, Any, dict[str, str | None]]] = [
    (
        "x://{id}/p",
        by_int,
        {"x://7/p": "7", "x://-7/p": "-7", "x://seven/p": None, "x://7.5/p": None, "x:///p": None},
    ),
    (
        "x://{colour}",
        by_enum,
        {"x://red": "<Colour.RED: 'red'>", "x://RED": None, "x://green": None},
    ),
    ("x://{kind}", by_literal, {"x://a": "'a'", "x://c": None}),
    (
        "x://{day}",
        by_date,
        {
            "x://2024-05-01": "datetime.date(2024, 5, 1)",
            "x://2024-02-30": None,
            "x://today": None,
        },
    ),
    (
        "x:///{+path}",
        by_path,
        {"x:///a/b/c.txt": "'a/b/c.txt'", "x:///a%2Fb": "'a/b'", "x:///": None},
    ),
    (
        "x://{text}",
        by_str,
        {"x://7": "'7'", "x://a%20b%2Fc": "'a b/c'", "x://%C3%BC": "'ü'", "x://a/b": None},
    ),
    ("x://{x}", by_float, {"x://1.5": "1.5", "x://2": "2.0", "x://1e3": "1000.0", "x://y": None}),
    ("x://{on}", by_bool, {"x://true": "True", "x://false": "False", "x://yes": None}),
    ("x://a{/rest*}", by_list, {"x://a/b/c%2Fd": "['b', 'c/d']"}),
    (
        "x://{id}{?unit,limit}",
        by_optional,
        {
            "x://1": "(1, 'm', None)",
            "x://1?unit=cm": "(1, 'cm', None)",
            "x://1?limit=3&unit=5": "(1, '5', 3)",
            "x://1?limit=many": None,
            "x://1?other=3": None,
        },
    ),
]


@pytest.mark.parametrize(("uri", "function", "cases"), TYPED, ids=[each[0] for each in TYPED])
@some_revisions
async def test_variables_have_the_types_of_the_parameters(
    revision: str, uri: str, function: Any, cases: dict[str, str | None]
) -> None:
    async with serving(template(uri, function), revision=revision) as (client, _):
        for given, expected in cases.items():
            answer = await read(client, given)
            if expected is None:
                assert own_error(answer) == not_found(revision, given)
            else:
                assert contents_of(answer) == [
                    {"uri": given, "text": expected, "mimeType": "text/plain"}
                ]


@each_revision
async def test_the_first_match_wins_and_a_resource_comes_before_templates(revision: str) -> None:
    registry = Registry("test")

    def named(name: str) -> Any:
        async def give(id: Any = None) -> str:
            return name

        return give

    async def numbered(id: int) -> str:
        return f"number {id}"

    registry.add_resource("x://{id}", numbered)
    registry.add_resource("x://{+id}", named("anything"))
    registry.add_resource("x://a{id}", named("too late"))
    registry.add_resource("x://7", named("static"))
    async with serving(registry, revision=revision) as (client, _):
        expected = {
            "x://7": "static",
            "x://8": "number 8",
            "x://ab": "anything",
            "x://a/b": "anything",
        }
        for uri, words in expected.items():
            assert text_of(await read(client, uri)) == words
        registry.remove_resource("x://{+id}")
        assert text_of(await read(client, "x://ab")) == "too late"


async def test_the_scheme_of_a_template_may_be_in_any_case() -> None:
    async with serving(template("users://{id}", by_int)) as (client, _):
        [piece] = contents_of(await read(client, "USERS://7"))
        assert piece["uri"] == "USERS://7"


# -- what goes wrong ------------------------------------------------------------------------------


@each_revision
async def test_a_function_says_that_there_is_nothing(revision: str) -> None:
    """The error is the one for a URI that nobody knows, whatever the exception says."""
    for error in (ResourceNotFound(URI), ResourceNotFound(), ResourceNotFound("no row 5 in /db")):
        async with serving(resource(error), revision=revision) as (client, _):
            assert own_error(await read(client)) == not_found(revision, URI)


@each_quick_client
async def test_the_client_has_one_exception_for_it(way: str, era: str) -> None:
    for error in (ResourceNotFound(URI), ResourceNotFound(), ResourceNotFound("no such row")):
        async with client_of(resource(error), way, era) as client:
            with pytest.raises(ResourceNotFound) as caught:
                await client.read_resource(URI)
            assert caught.value.args == (URI,)
            assert isinstance(caught.value.__cause__, McpError)


@each_revision
async def test_bad_parameters_are_not_the_same_as_nothing_there(revision: str) -> None:
    async with serving(resource("x"), revision=revision) as (client, _):
        for params in ({}, {"uri": None}, {"uri": 5}, {"uri": []}, {"uri": {"x": 1}}):
            answer = await client.request("resources/read", params)
            code, message = error_of(answer)
            assert code == -32602
            assert '"uri" must be a string' in message
        for uri in ("", " ", URI + " ", URI.upper(), "thing", "//one", "%", "thing://%zz"):
            assert own_error(await read(client, uri)) == not_found(revision, uri)


@each_revision
async def test_a_uri_of_any_length_is_answered_in_few_words(revision: str) -> None:
    registry = template("x://{+path}", by_path)
    async with serving(registry, revision=revision) as (client, _):
        for length in (8193, 1_000_000):
            answer = await read(client, "x://" + "a" * length)
            assert answer["error"]["code"] == not_found(revision, "")["code"]
            assert len(json.dumps(answer)) < 20_000


@each_revision
async def test_failures_are_told_as_the_author_means_them(revision: str) -> None:
    cases: list[tuple[Any, int, str, Any]] = [
        (ToolError("The disk is full."), -32603, "The disk is full.", None),
        (ToolError(), -32603, f"Resource {URI} failed", None),
        (McpError(-32010, "Not today", {"until": 5}), -32010, "Not today", {"until": 5}),
        (ExceptionGroup("all", [ToolError("Just this.")]), -32603, "Just this.", None),
    ]
    for error, code, message, data in cases:
        async with serving(resource(error), revision=revision) as (client, _):
            answer = await read(client)
            assert error_of(answer) == (code, message)
            told = answer["error"].get("data")
            assert told == (data if isinstance(error, McpError) else None)
    group = ExceptionGroup("all", [ResourceNotFound("x"), ValueError("secret")])
    async with serving(resource(group), revision=revision) as (client, _):
        assert own_error(await read(client)) == not_found(revision, URI)


SECRET = "the secret of /etc/shadow"


class Rude(Exception):
    def __str__(self) -> str:
        raise ValueError(SECRET)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        OSError(5, SECRET, SECRET),
        KeyError(SECRET),
        Rude(),
        SystemExit(SECRET),
        ExceptionGroup(SECRET, [ValueError(SECRET), ValueError(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
@some_revisions
async def test_any_other_exception_is_told_without_detail(
    revision: str, error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(resource(error), revision=revision) as (client, _):
        answer = await read(client)
        assert answer["error"]["code"] == -32603
        assert URI in answer["error"]["message"]
        assert SECRET not in json.dumps(answer)
        assert "Traceback" not in json.dumps(answer)
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    [record] = errors
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert URI in record.getMessage()


@pytest.mark.requirement("B11")
async def test_the_log_has_outcome_and_duration_and_no_contents(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    registry = resource(SECRET)

    @registry.resource("people://{name}")
    async def person(name: str) -> str:
        return SECRET

    async with serving(registry) as (client, _):
        await read(client)
        await read(client, "people://jane-doe")
        await read(client, "people://jane-doe/children")
    records = [each for each in caplog.records if each.name == "trio_mcp.calls"]
    outcomes = [(each.resource, each.outcome) for each in records]  # type: ignore[attr-defined]
    assert outcomes == [(URI, "ok"), ("people://{name}", "ok"), (None, "not found")]
    assert SECRET not in caplog.text
    assert "jane-doe" not in caplog.text


WRONG: list[Any] = [
    object(),
    {1: "a"},
    {"a": object()},
    [Point(1), {1, 2}, object()],
    "half a pair \ud800",
    {"a": "half a pair \ud800"},
    TextResourceContents(URI, None),  # type: ignore[arg-type]
    TextResourceContents(URI, b"bytes"),  # type: ignore[arg-type]
    TextResourceContents(URI, "\ud800"),
    TextResourceContents(5, "x"),  # type: ignore[arg-type]
    TextResourceContents(URI, "x", mime_type=5),  # type: ignore[arg-type]
    TextResourceContents(URI, "x", meta={"a": object()}),
    TextResourceContents(URI, "x", meta=["a"]),  # type: ignore[arg-type]
    BlobResourceContents(URI, "no base64!"),
    BlobResourceContents(URI, "AP8"),
    [TextResourceContents(URI, "x"), object()],
]


@pytest.mark.parametrize(
    "value", WRONG, ids=[f"{n}-{type(v).__name__}" for n, v in enumerate(WRONG)]
)
@some_revisions
async def test_a_result_that_cannot_be_sent(
    revision: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(resource(value), revision=revision) as (client, _):
        answer = await read(client)
        code, message = error_of(answer)
        assert code == -32603
        assert message.startswith("Invalid handler result type: ")
        assert URI in message
        if not isinstance(value, list):
            assert type(value).__name__ in message
    [record] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.getMessage().startswith(f"Resource {URI}: its result cannot be sent: ")
    assert record.exc_info is None
    assert "half a pair" not in caplog.text


async def test_a_value_that_contains_itself_cannot_be_sent() -> None:
    value: list[Any] = []
    value.append(value)
    async with serving(resource(value)) as (client, _):
        assert error_of(await read(client))[1].startswith("Invalid handler result type: list")


def test_a_generator_is_no_resource() -> None:
    registry = Registry("test")
    with pytest.raises(SchemaError, match=r"function 'lines' yields.*return a list"):

        @registry.resource(URI)
        def lines():  # type: ignore[no-untyped-def]
            yield "a"

    assert not registry.resources


# -- time -----------------------------------------------------------------------------------------


def slow(seconds: float, **options: Any) -> Registry:
    registry = Registry("test", **options.pop("registry", {}))

    @registry.resource(URI, **options)
    async def wait() -> str:
        await trio.sleep(seconds)
        return "done"

    return registry


@each_revision
async def test_a_read_that_takes_too_long(revision: str, autojump_clock: Any) -> None:
    for registry, limits, seconds in (
        (slow(100, timeout=0.5), Limits(), 0.5),
        (slow(100, registry={"tool_timeout": 2.5}), Limits(), 2.5),
        (slow(100), Limits(tool_timeout=7), 7),
    ):
        async with serving(registry, limits, revision=revision) as (client, _):
            started = trio.current_time()
            answer = await read(client)
            assert error_of(answer) == (-32603, f"Resource {URI} timed out after {seconds:g} s")
            assert trio.current_time() - started == pytest.approx(seconds)


@each_revision
async def test_a_cancelled_read_is_not_answered(revision: str) -> None:
    cancelled = trio.Event()
    registry = Registry("test")

    @registry.resource("x://{id}")
    async def wait(id: int) -> str:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    async with serving(registry, revision=revision) as (client, _):
        request = client.request_of("resources/read", {"uri": "x://7"})
        await client.send(request)
        await trio.testing.wait_all_tasks_blocked()
        await client.cancel(request["id"])
        await cancelled.wait()
        fence = await client.request("resources/read", {"uri": "x://y"})
        assert own_error(fence) == not_found(revision, "x://y")


@each_quick_client
async def test_a_client_that_gives_up_cancels_the_read(way: str, era: str) -> None:
    cancelled = trio.Event()
    registry = resource("x")

    @registry.resource("slow:one")
    async def wait() -> str:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    async with client_of(registry, way, era) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.read_resource, "slow:one")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await cancelled.wait()
        assert (await client.read_resource(URI)).text == "x"


@each_revision
async def test_plain_functions_are_read_in_worker_threads_side_by_side(revision: str) -> None:
    together = threading.Barrier(3, timeout=10)  # two readers, and this test
    registry = Registry("test")
    threads = []

    @registry.resource("x://{id}")
    def meet(id: int) -> str:
        threads.append(threading.get_ident())
        together.wait()
        return str(id)

    async with serving(registry, revision=revision) as (client, _):
        requests = [client.request_of("resources/read", {"uri": f"x://{n}"}) for n in (1, 2)]
        await client.send(*requests)
        await trio.to_thread.run_sync(together.wait)
        answers = await client.receive_many(2)
        assert [text_of(answers[each["id"]]) for each in requests] == ["1", "2"]
    assert threading.get_ident() not in threads


@pytest.mark.requirement("B3")
async def test_a_stuck_thread_delays_nobody() -> None:
    release = threading.Event()
    entered = threading.Event()
    registry = resource("x")

    @registry.resource("stuck:one", timeout=0.01)
    def stuck() -> str:
        entered.set()
        release.wait(20)
        return "late"

    try:
        async with serving(registry) as (client, _):
            request = client.request_of("resources/read", {"uri": "stuck:one"})
            await client.send(request)
            await trio.to_thread.run_sync(entered.wait)
            answer = await client.answer_to(request["id"])
            assert error_of(answer)[1] == "Resource stuck:one timed out after 0.01 s"
            assert text_of(await read(client)) == "x"
    finally:
        release.set()


@each_revision
async def test_a_resource_that_is_removed_while_it_is_read(revision: str) -> None:
    """The read goes on; the next one finds nothing."""
    registry = resource("x")
    go_on = trio.Event()

    @registry.resource("x://{id}")
    async def wait(id: int) -> str:
        await go_on.wait()
        return f"read {id}"

    async with serving(registry, revision=revision) as (client, _):
        request = client.request_of("resources/read", {"uri": "x://7"})
        await client.send(request)
        await trio.testing.wait_all_tasks_blocked()
        registry.remove_resource("x://{id}")
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        answer = await client.answer_to(request["id"])
        assert text_of(answer) == "read 7"
        assert own_error(await read(client, "x://7")) == not_found(revision, "x://7")
    with pytest.raises(KeyError):
        registry.remove_resource("x://{id}")


# -- context --------------------------------------------------------------------------------------


@asynccontextmanager
async def lifespan(registry: Registry) -> AsyncIterator[str]:
    yield "opened"


@each_revision
async def test_a_resource_meets_its_caller(revision: str) -> None:
    registry = Registry("test", lifespan=lifespan)
    met: list[Context] = []

    @registry.resource("x://{id}")
    async def templated(id: int, context: Context) -> str:
        met.append(context)
        await context.progress(1, total=2, message="half")
        await context.info({"id": id})
        return "x"

    @registry.resource("y:one")
    def in_a_thread(ctx: Context) -> str:
        met.append(ctx)
        return "y"

    meta: dict[str, Any] = {"progressToken": "p", "x.test/a": 1}
    if revision == MODERN:
        meta["io.modelcontextprotocol/logLevel"] = "info"
    async with serving(registry, revision=revision) as (client, _):
        answer = await client.request("resources/read", {"uri": "x://7", "_meta": meta})
        assert text_of(answer) == "x"
        assert [each["method"] for each in client.told] == [
            "notifications/progress",
            "notifications/message",
        ]
        assert client.told[0]["params"]["progressToken"] == "p"
        assert client.told[1]["params"]["data"] == {"id": 7}
        assert text_of(await read(client, "y:one")) == "y"
    assert [each.tool for each in met] == ["x://7", "y:one"]
    assert [each.lifespan for each in met] == ["opened", "opened"]
    assert [each.revision for each in met] == [revision, revision]
    assert met[0].request_id == answer["id"]
    assert met[0].meta is not None
    assert met[0].meta["x.test/a"] == 1
    assert met[0].client is not None
    assert met[0].client.name == "test-client"
    assert met[0].connection_id


# -- caching --------------------------------------------------------------------------------------


@pytest.mark.requirement("H3")
@pytest.mark.parametrize("uri", [URI, "thing://{id}"])
@each_revision
async def test_each_resource_has_its_own_caching_hints(revision: str, uri: str) -> None:
    registry = Registry("test", cache_ttl=1000, cache_scope="public")

    @registry.resource(uri, cache_ttl=2.5, cache_scope="public")
    async def cached(id: str = "") -> str:
        return "x"

    @registry.resource("other:one")
    async def other() -> str:
        return "y"

    async with serving(registry, revision=revision) as (client, _):
        own, others = (await read(client))["result"], (await read(client, "other:one"))["result"]
        if revision == MODERN:
            assert (own["ttlMs"], own["cacheScope"]) == (2500, "public")
            assert (others["ttlMs"], others["cacheScope"]) == (0, "private")
            assert isinstance(own["ttlMs"], int)
        else:
            assert {"ttlMs", "cacheScope"}.isdisjoint(own.keys() | others.keys())


# -- a registry without resources -----------------------------------------------------------------

RESOURCE_METHODS = ["resources/list", "resources/templates/list", "resources/read"]


@pytest.mark.requirement("A11")
@each_revision
async def test_without_resources_their_methods_are_refused(revision: str) -> None:
    registry = Registry("bare")
    registry.add_tool(echo)
    methods = list(RESOURCE_METHODS)
    if revision in LEGACY:
        methods += ["resources/subscribe", "resources/unsubscribe"]
    async with serving(registry, revision=revision) as (client, _):
        for method in methods:
            for params in ({}, {"uri": 5}, {"uri": URI, "cursor": "x"}):
                answer = await client.request(method, params)
                assert own_error(answer) == {
                    "code": -32601,
                    "message": f"{method} handler not registered",
                    "data": {"server": "bare", "method": method},
                }


async def test_one_message_is_enough_to_read() -> None:
    line = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": URI}}
    ).encode()
    answer = json.loads(await handle_message(resource("x"), line) or b"")
    assert text_of(answer) == "x"


@pytest.mark.parametrize("revision", ["2025-03-26"])
async def test_reads_in_a_batch(revision: str) -> None:
    async with serving(resource("x"), revision=revision) as (client, _):
        batch = [client.request_of("resources/read", {"uri": uri}) for uri in (URI, "no:one")]
        await client.send(batch)
        answers = {each["id"]: each for each in await client.receive()}
        assert text_of(answers[batch[0]["id"]]) == "x"
        assert own_error(answers[batch[1]["id"]]) == not_found(revision, "no:one")


# -- registration ---------------------------------------------------------------------------------


async def nothing() -> str:
    return ""


async def one(id: str) -> str:
    return id


class Strange:
    pass


async def strange(id: Strange) -> str:
    return ""


async def variadic(*ids: str) -> str:
    return ""


REFUSED: list[tuple[str, Any, dict[str, Any], str]] = [
    ("", nothing, {}, "scheme"),
    ("app", nothing, {}, "scheme"),
    ("/etc/passwd", nothing, {}, "scheme"),
    ("{scheme}:x", one, {}, "scheme"),
    ("a b:x", nothing, {}, "scheme"),
    ("config://a b", nothing, {}, "percent-encode"),
    ("config://a\nb", nothing, {}, "percent-encode"),
    ("config://%zz", nothing, {}, "percent-encode"),
    ("config://" + "a" * 9000, nothing, {}, "8192"),
    ("users://{id", one, {}, "brace"),
    ("users://id}", one, {}, "brace"),
    ("users://{}", one, {}, "variable"),
    ("users://{id}{other}", one, {}, "other"),
    ("users://{id:3}", one, {}, ":3"),
    ("users://{id}/{id}", one, {}, "id"),
    ("users://{name}", one, {}, "no parameter for the variable {name}"),
    ("users://{id}", nothing, {}, "no parameter for the variable {id}"),
    ("users:all", one, {}, "no variable {id}"),
    ("users://{id}", strange, {}, "id"),
    ("users://{id}", variadic, {}, "id"),
    ("users:all", nothing, {"timeout": 0}, "timeout must be more than 0 seconds, not 0"),
    ("users:all", nothing, {"timeout": -1.0}, "timeout must be more than 0 seconds"),
    ("users:all", nothing, {"timeout": math.nan}, "timeout must be more than 0 seconds"),
    ("users:all", nothing, {"cache_ttl": -1}, "cache_ttl must be at least 0 seconds"),
    ("users:all", nothing, {"cache_ttl": math.nan}, "cache_ttl must be at least 0 seconds"),
    ("users:all", nothing, {"cache_ttl": math.inf}, "cache_ttl must be"),
    ("users:all", nothing, {"cache_scope": "everybody"}, "'public' or 'private'"),
    ("users:all", nothing, {"size": -1}, "size must be"),
    ("users:all", nothing, {"size": "big"}, "size must be"),
    ("users://{id}", one, {"size": 5}, "not a template"),
    ("taken:one", nothing, {}, "registered already"),
    ("taken://{id}", one, {}, "registered already"),
]


@pytest.mark.parametrize(
    ("uri", "function", "options", "words"), REFUSED, ids=[f"{n}" for n in range(len(REFUSED))]
)
def test_what_cannot_be_a_resource_is_refused(
    uri: str, function: Any, options: dict[str, Any], words: str
) -> None:
    registry = Registry("test")
    registry.add_resource("taken:one", nothing)
    registry.add_resource("taken://{id}", one)
    with pytest.raises(SchemaError) as caught:
        registry.add_resource(uri, function, **options)
    message = str(caught.value)
    assert words in message
    assert uri[:100] in message or repr(uri)[1:50] in message, "the message names the resource"
    assert len(message) < 1000
    assert len(registry.resources) == len(registry.resource_templates) == 1
    with pytest.raises(SchemaError, match="Resource"):
        registry.resource(uri, **options)(function)


async def test_the_decorator_returns_the_function() -> None:
    registry = Registry("test")
    decorated = registry.resource("a:b", name="short", description="What it is.")(nothing)
    assert decorated is nothing
    assert registry.resources["a:b"].description.name == "short"
    assert registry.resources["a:b"].description.description == "What it is."
    made = registry.add_resource("users://{id}", one)
    assert registry.resource_templates["users://{id}"] is made
