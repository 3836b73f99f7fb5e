"""What a service's answers become, and what it cannot do to us."""

import encodings.aliases
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from itertools import product
from typing import Any

import httpx2
import pytest
import trio

from tests.compose.openapi.support import Service, document, get, text_of
from tests.support.turns import turns_of_another_task
from trio_mcp import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    connect,
)
from trio_mcp.compose.openapi import Pages
from trio_mcp.errors import ToolError

pytestmark = pytest.mark.requirement("L6")
ONE = document({"/it": get()})
JSON = {"Content-Type": "application/json"}


async def answered(response: Any, described: Any = ONE, **options: Any) -> CallToolResult:
    return await Service(response).registry(described, **options).call("it", {})


async def test_json_is_structured_and_as_the_service_wrote_it() -> None:
    text = b'{ "id": 12345678901234567890123, "x": 1.0 }'
    headers = {"Content-Type": "application/problem+json"}
    result = await answered(httpx2.Response(200, content=text, headers=headers))
    assert text_of(result) == text.decode()
    assert result.structured_content == {"id": 12345678901234567890123, "x": 1.0}


async def test_an_answer_of_a_million_values_is_passed_on_whole() -> None:
    headers = {"Content-Type": "application/json"}
    response = httpx2.Response(200, content=b"[" + b"[]," * 999_999 + b"[]]", headers=headers)
    result = await answered(response, max_response_bytes=4_000_000)
    assert len(result.structured_content) == 1_000_000


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("image/png", b"\x89PNG", ImageContent(b"\x89PNG", "image/png")),
        ("audio/wav", b"RIFF", AudioContent(b"RIFF", "audio/wav")),
        (
            "application/pdf",
            b"%PDF",
            EmbeddedResource(
                BlobResourceContents("https://api.example/it", b"%PDF", mime_type="application/pdf")
            ),
        ),
    ],
)
async def test_what_is_no_text_is_a_block_of_its_kind(
    kind: str, body: bytes, expected: Any
) -> None:
    result = await answered(httpx2.Response(200, content=body, headers={"Content-Type": kind}))
    assert result.content == [expected]


@pytest.mark.parametrize("status", [200, 400])
async def test_whatever_charset_is_said_text_is_text(status: int) -> None:
    """Not all that Python calls a codec is a charset, and some cannot replace what is broken."""
    service = Service()
    registry = service.registry(ONE)
    known = {
        *encodings.aliases.aliases.values(),
        "idna",
        "punycode",
        "undefined",
        "no-such",
        "\xe9",
    }
    for name, body in product(known, (b"xn--\xff.", b"\x80" * 300)):
        kind = f"text/plain; charset={name}".encode("latin-1")
        service.answer = httpx2.Response(status, content=body, headers=[(b"Content-Type", kind)])
        with suppress(ToolError) if status == 400 else nullcontext():
            assert text_of(await registry.call("it", {}))


async def test_texts_broken_json_and_nothing() -> None:
    for kind, body, expected in (
        ("text/csv; charset=latin-1", "é".encode("latin-1"), "é"),
        ("text/plain; charset=rot13", b"abc", "abc"),
        ("application/json", b"<html>Oops</html>", "<html>Oops</html>"),
        ("application/json", b"[" * 300 + b"]" * 300, "[" * 300 + "]" * 300),
        ("", b"plain \xc3\xa9", "plain é"),
    ):
        response = httpx2.Response(200, content=body, headers={"Content-Type": kind})
        result = await answered(response)
        assert text_of(result) == expected
        assert result.structured_content is None
    assert text_of(await answered(httpx2.Response(204))) == "204 No Content"
    head = Service(httpx2.Response(200, headers={"ETag": '"1"', "Set-Cookie": "a=b"}))
    assert text_of(await head.registry().call("head_uploads", {})) == '200 OK\netag: "1"'


async def test_a_refusal_is_a_result_that_a_model_can_read() -> None:
    service = Service(httpx2.Response(418, json={"error": "no such owner"}))
    async with connect(service.registry(ONE)) as client:
        failed = await client.call_tool("it", {})
    assert failed.error == 'GET /it: 418 I\'m a teapot\n{"error":"no such owner"}'
    with pytest.raises(ToolError) as refused:
        await answered(httpx2.Response(500, content=b"x" * 1_000_000))
    assert len(str(refused.value)) < 5000


async def test_by_default_whatever_comes_is_passed_on_and_with_output_schemas_not() -> None:
    wrong = httpx2.Response(200, json={"id": "no number", "name": "Rex"})
    lenient = Service(wrong).registry()
    assert lenient.tools["pets_get"].description.output_schema is None
    result = await lenient.call("pets_get", {"pet-id": "1"})
    assert result.structured_content == {"id": "no number", "name": "Rex"}

    strict = Service(wrong).registry(output_schemas=True)
    shown = strict.tools["pets_get"].description.output_schema
    assert shown is not None
    assert shown["type"] == "object"
    assert "secret" not in shown["properties"]  # which is for writing only
    result = await strict.call("pets_get", {"pet-id": "1"})
    assert result.is_error
    assert "'id' must be an integer" in text_of(result)
    assert '"no number"' in text_of(result)  # what came is there all the same


# -- bounds ----------------------------------------------------------------------------------------


async def endless() -> AsyncIterator[bytes]:
    while True:
        await trio.lowlevel.checkpoint()
        yield b"x" * 65536


async def test_an_answer_is_bounded_packed_or_not() -> None:
    bomb = gzip.compress(bytes(20_000_000))
    for response in (
        httpx2.Response(200, content=endless()),
        httpx2.Response(200, stream=Stream([bomb]), headers={"Content-Encoding": "gzip"}),
    ):
        with pytest.raises(ToolError, match=r"more than 10,000 bytes \(200 OK\)"):
            await answered(response, max_response_bytes=10_000)
    packed = Stream([gzip.compress(b'{"a":1}')])
    good = httpx2.Response(
        200, stream=packed, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}
    )
    assert (await answered(good)).structured_content == {"a": 1}
    cut_off = gzip.compress(b'{"a":1}')[:-9]
    for coding, body in (("br", b"x"), ("gzip", b"no gzip"), ("gzip", cut_off)):
        response = httpx2.Response(200, stream=Stream([body]), headers={"Content-Encoding": coding})
        with pytest.raises(ToolError, match="compressed answer that"):
            await answered(response)


async def test_others_get_their_turn_however_small_the_pieces_are() -> None:
    response = httpx2.Response(200, stream=Stream([b" "] * 1000))
    async with turns_of_another_task() as turns:
        await answered(response)
        assert turns.count > 50


async def test_what_cannot_be_kept_exactly_is_told_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ('{"a":1,"a":2}', '{"a": 123456789012345678901}'):
        monkeypatch.setattr("trio_mcp.compose.openapi.responses._MOST_EXACT", 10)
        result = await answered(httpx2.Response(200, text=text, headers=JSON))
        assert (text_of(result), result.structured_content) == (text, None)
    monkeypatch.undo()
    result = await answered(httpx2.Response(200, text=text, headers=JSON))
    assert result.structured_content == {"a": 123456789012345678901}


class Stream(httpx2.AsyncByteStream):
    """A body as it comes over the wire."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def test_a_service_that_does_not_answer_is_given_up(autojump_clock: Any) -> None:
    async def never(_: httpx2.Request) -> httpx2.Response:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(ToolError, match="GET /it: no answer within 30 s"):
        await answered(never)
    assert trio.current_time() > 29


async def test_a_service_that_is_not_there_tells_nothing_of_the_request() -> None:
    def broken(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"no way to {request.url}")

    with pytest.raises(ToolError) as failed:
        await answered(broken)
    assert str(failed.value) == "GET /it: the service cannot be reached (ConnectError)"


async def test_a_busy_service_is_asked_again_when_it_says(autojump_clock: Any) -> None:
    waits = ["2", "Thu, 01 Jan 1970 00:00:00 GMT", "3600"]

    def busy(request: httpx2.Request) -> httpx2.Response:
        if waits:
            return httpx2.Response(429, headers={"Retry-After": waits.pop(0)})
        return httpx2.Response(200, json={})

    start = trio.current_time()
    with pytest.raises(ToolError, match=r"429 Too Many Requests \(retry after 3600\)"):
        await answered(busy)  # the third time it is too long
    assert trio.current_time() - start == pytest.approx(2)
    waits[:] = ["1", "1", "1"]
    post = document({"/it": {"post": {"operationId": "it"}}})
    with pytest.raises(ToolError, match="429"):
        await answered(busy, post)
    assert waits == ["1", "1"]  # what is no repeatable method is sent once


async def test_redirects_are_followed_to_the_same_host_only() -> None:
    def moving(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/it":
            return httpx2.Response(301, headers={"Location": "/there?x=1"})
        return httpx2.Response(200, json={"at": str(request.url)})

    result = await answered(moving)
    assert result.structured_content == {"at": "https://api.example/there?x=1"}

    away = Service(httpx2.Response(302, headers={"Location": "https://evil.example/?x"}))
    with pytest.raises(ToolError, match="302 Found to https://evil"):
        await away.registry(ONE).call("it", {})
    meant = document({"/it": get(responses={"302": {"description": "The archive"}})})
    result = await away.registry(meant).call("it", {})
    assert result.content == [ResourceLink("https://evil.example/?x", "GET /it")]
    assert {request.url.host for request in away.requests} == {"api.example"}

    loop = Service(httpx2.Response(302, headers={"Location": "/it"}))
    with pytest.raises(ToolError, match="302 Found"):
        await loop.registry(ONE).call("it", {})
    assert len(loop.requests) == 6


async def test_no_cookie_goes_from_one_call_to_the_next() -> None:
    from trio_mcp.compose.openapi.service import make_client

    async with make_client({}) as client:
        request = client.build_request("GET", "https://api.example")
        response = httpx2.Response(200, headers={"Set-Cookie": "sid=1"}, request=request)
        client.cookies.extract_cookies(response)
        assert not list(client.cookies.jar)


# -- pages -----------------------------------------------------------------------------------------

PAGED = document(
    {
        "/it": get(
            [
                {"name": "page", "in": "query", "schema": {"type": "integer"}},
                {"name": "size", "in": "query", "schema": {"type": "integer"}},
                {"name": "after", "in": "query", "schema": {"type": "string"}},
            ]
        )
    }
)


def linked(request: httpx2.Request) -> httpx2.Response:
    page = int(request.url.params.get("page", 1))
    link = f'<https://api.example/other?size=2&page={page + 1}>; rel="next", <x>; rel="last"'
    return httpx2.Response(200, json=[page], headers={"Link": link} if page < 4 else {})


async def test_a_result_says_how_to_get_the_next_page_or_gets_it() -> None:
    service = Service(linked)
    result = await service.registry(PAGED).call("it", {"size": 2})
    assert result.structured_content == [1]
    assert text_of(result).endswith("There are more results: call again with page=2.")

    result = await service.registry(PAGED, pages=3).call("it", {"size": 2})
    assert result.structured_content == [1, 2, 3]
    assert json.loads(text_of(result).splitlines()[0]) == [1, 2, 3]
    assert text_of(result).endswith("call again with page=4.")
    assert str(service.request.url) == "https://api.example/it?size=2&page=3"

    result = await service.registry(PAGED, pages=9).call("it", {"size": 2})
    assert result.structured_content == [1, 2, 3, 4]
    assert "more results" not in text_of(result)


async def test_pages_may_be_found_by_a_cursor() -> None:
    def cursored(request: httpx2.Request) -> httpx2.Response:
        last = int(request.url.params.get("after", 0))
        items = [{"id": last + 1}, {"id": last + 2}]
        return httpx2.Response(200, json={"data": items, "has_more": last < 4})

    rule = Pages(limit=2, items="data", cursor="data.-1.id", parameter="after", more="has_more")
    result = await Service(cursored).registry(PAGED, pages=rule).call("it", {})
    assert [item["id"] for item in result.structured_content["data"]] == [1, 2, 3, 4]
    assert text_of(result).endswith("call again with after=4.")
    with pytest.raises(ValueError, match="cursor and parameter belong together"):
        Pages(cursor="next")


async def test_pages_stop_at_what_is_too_much_in_circles_and_at_errors() -> None:
    def circling(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=["x" * 100], headers={"Link": '</?page=2>; rel="next"'})

    service = Service(circling)
    result = await service.registry(PAGED, pages=1000).call("it", {})
    assert len(result.structured_content) == len(service.requests) == 2
    assert "more results" not in text_of(result)
    many = Service(linked)
    result = await many.registry(PAGED, pages=9, max_response_bytes=7).call("it", {})
    assert result.structured_content == [1, 2]

    def failing(request: httpx2.Request) -> httpx2.Response:
        return linked(request) if "page=3" not in str(request.url) else httpx2.Response(500)

    result = await Service(failing).registry(PAGED, pages=9).call("it", {})
    assert result.structured_content == [1, 2]
    assert text_of(result).endswith("call again with size=2, page=3.")


@pytest.mark.parametrize("last", ["no JSON", '[{"a":1,"a":2}]', '{"no": "list"}'])
async def test_what_is_no_page_is_left_out(last: str) -> None:
    long = 2**70

    def answer(request: httpx2.Request) -> httpx2.Response:
        is_last = "page=2" in str(request.url)
        headers = JSON if is_last else {**JSON, "Link": '</?page=2>; rel="next"'}
        return httpx2.Response(200, text=last if is_last else f"[{long}]", headers=headers)

    result = await Service(answer).registry(PAGED, pages=9).call("it", {})
    assert result.structured_content == [long]
