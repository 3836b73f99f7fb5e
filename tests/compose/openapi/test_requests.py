"""What arguments become in a request."""

import base64
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest

from tests.compose.openapi.support import Service, document, get
from tests.support.turns import turns_of_another_task
from trio_mcp import McpError
from trio_mcp.errors import ToolError

pytestmark = pytest.mark.requirement("L6")
BASE = "https://eu.pets.example/v2"


async def test_parameters_in_all_places_and_styles() -> None:
    service = Service()
    registry = service.registry()
    arguments = {
        "simple": ["a b", "c/d"],
        "label": [3, 4],
        "matrix": {"R": 100, "G": "é"},
        "form": ["x", "y,z"],
        "space": ["a", "b"],
        "pipe": ["a", "b"],
        "deep": {"a": {"b": True}, "c": [1, 2]},
        "open": "a/b?c&d=#e",
        "json": {"k": [1]},
        "X-List": ["p", "q"],
        "theme": "dark; evil=1",
    }
    await registry.call("styles", arguments)
    url = service.request.url
    assert url.raw_path.decode() == (
        "/v2/styles/a%20b,c%2Fd/.3.4/;R=100;G=%C3%A9"
        "?form=x,y%2Cz&space=a%20b&pipe=a%7Cb&deep%5Ba%5D%5Bb%5D=true&deep%5Bc%5D%5B0%5D=1&deep%5Bc%5D%5B1%5D=2"
        "&open=a/b?c%26d%3D%23e&json=%7B%22k%22%3A%5B1%5D%7D"
    )
    assert service.request.headers["x-list"] == "p,q"
    assert service.request.headers["cookie"] == "theme=dark%3B%20evil%3D1"


async def test_the_members_of_a_body_are_arguments() -> None:
    service = Service()
    registry = service.registry()
    schema = registry.tools["pets_create"].description.input_schema
    assert set(schema["properties"]) == {"X-Trace", "name", "secret", "age", "parent", "owner"}
    assert schema["required"] == ["name"]  # `id` is for reading only
    assert set(schema["$defs"]) == {"Pet", "Owner"}
    assert "id" not in schema["$defs"]["Pet"]["properties"]
    await registry.call("pets_create", {"name": "Rex", "age": None, "X-Trace": "t"})
    assert service.request.method == "POST"
    assert str(service.request.url) == f"{BASE}/pets"
    assert service.request.content == b'{"name":"Rex","age":null}'
    assert service.request.headers["content-type"] == "application/json"
    assert service.request.headers["x-trace"] == "t"


async def test_other_bodies_are_one_argument() -> None:
    service = Service()
    registry = service.registry()
    schema = registry.tools["pets_replace"].description.input_schema
    cat, dog = schema["properties"]["body"]["anyOf"]
    assert cat["properties"] == {"kind": {"enum": ["kitten"]}}
    assert dog["properties"].keys() == {"kind", "bark"}
    await registry.call("pets_replace", {"pet-id": "1", "body": {"kind": "kitten", "lives": 9}})
    assert service.request.content == b'{"kind":"kitten","lives":9}'
    await registry.call("pets_replace", {"pet-id": "1"})
    assert service.request.content == b""
    with pytest.raises(McpError, match="body"):
        await registry.call("pets_replace", {"pet-id": "1", "body": {"kind": 3}})


async def test_an_integer_may_be_longer_than_64_bits() -> None:
    service, long = Service(), 2**70
    content = {"application/json": {"schema": {"properties": {"id": {"type": "integer"}}}}}
    at = {"name": "at", "in": "query", "schema": {"type": "integer"}}
    post = {"operationId": "it", "parameters": [at], "requestBody": {"content": content}}
    registry = service.registry(document({"/it": {"post": post}}))
    await registry.call("it", {"id": long, "at": long})
    assert service.request.content == b'{"id":%d}' % long
    assert service.request.url.query == b"at=%d" % long


async def test_forms_files_and_texts() -> None:
    service = Service()

    async def read_file(uri: str) -> bytes:
        return uri.encode()

    registry = service.registry(read_file=read_file)
    form = {"name": "a&b", "tags": ["x", "y"], "owner": {"n": 1}, "deep": {"k": "v"}}
    await registry.call("forms", form)
    assert (
        service.request.content == b"name=a%26b&tags=x&tags=y&owner=%7B%22n%22%3A1%7D&deep%5Bk%5D=v"
    )

    png = base64.b64encode(b"\x89PNG").decode()
    await registry.call("photos", {"photo": png, "about": {"by": "me"}, "title": "T"})
    sent = service.request.content
    assert b'name="photo"; filename="photo"\r\nContent-Type: image/png\r\n\r\n\x89PNG' in sent
    assert b'name="about"\r\nContent-Type: application/json\r\n\r\n{"by":"me"}' in sent
    assert b'name="title"\r\n\r\nT' in sent

    for given, expected in ((png, b"\x89PNG"), ("data:text/x;base64,aGk=", b"hi"), ("a:b", b"a:b")):
        await registry.call("raw", {"body": given})
        assert service.request.content == expected
        assert service.request.headers["content-type"] == "application/octet-stream"
    with pytest.raises(ToolError, match="body is a file: give its bytes in base64"):
        await registry.call("raw", {"body": "no base64!"})
    with pytest.raises(ToolError, match="302 Found"):
        service.answer = httpx2.Response(302)
        await registry.call("notes", {"body": "Hello, World"})
    assert service.request.content == b"Hello, World"
    assert service.request.headers["content-type"] == "text/plain"


MANY: Any = {f"k{number}": "v" for number in range(30_000)}


@pytest.mark.parametrize("where", ["body", "query", "path"])
async def test_others_get_their_turn_while_many_arguments_are_written(where: str) -> None:
    value = {"type": "object", "additionalProperties": {"type": "string"}}
    operation: Any = {"parameters": [{"name": "x", "in": where, "required": True, "schema": value}]}
    if where == "body":
        content = {"application/x-www-form-urlencoded": {"schema": value}}
        operation = {"requestBody": {"content": content}}
    path = "/it/{x}" if where == "path" else "/it"
    service = Service()
    registry = service.registry(document({path: {"post": {"operationId": "it", **operation}}}))
    async with turns_of_another_task() as turns:
        with nullcontext() if where == "body" else pytest.raises(ToolError, match="too long"):
            await registry.call("it", {"body" if where == "body" else "x": MANY})
    assert turns.count > 10
    assert where != "body" or service.request.content.count(b"&") == len(MANY) - 1


async def test_a_body_has_a_bounded_number_of_parts() -> None:
    value = {"type": "object", "additionalProperties": {"type": "string"}}
    body = {"requestBody": {"content": {"multipart/form-data": {"schema": value}}}}
    registry = Service().registry(document({"/it": {"post": {"operationId": "it", **body}}}))
    with pytest.raises(ToolError, match="at most 1000 parts"):
        await registry.call("it", {"body": MANY})


async def test_names_that_models_cannot_say_are_changed_and_told_apart() -> None:
    service = Service()
    paths = {
        "/{a}": get(
            [
                {"name": "page[size]", "in": "query", "schema": {"type": "integer"}},
                {"name": "a", "in": "path", "required": True, "schema": {"type": "string"}},
                {"name": "a", "in": "query", "schema": {"type": "string"}},
                {"name": "$top", "in": "query", "schema": {"type": "integer"}},
            ]
        )
    }
    registry = service.registry(document(paths))
    names = list(registry.tools["it"].description.input_schema["properties"])
    assert names[:2] == ["page_size", "a"]
    assert names[3] == "top"
    await registry.call("it", {"page_size": 3, "a": "x", names[2]: "y", "top": 1})
    assert str(service.request.url) == "https://api.example/x?page%5Bsize%5D=3&a=y&%24top=1"


async def test_paths_may_have_queries_and_parameters_that_are_said_to_be_read_only() -> None:
    service = Service()
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
    number = {"name": "n", "in": "path", "required": True, "schema": {"readOnly": True}}
    paths = {"/a?beta=true": get([limit]), "/b/{n}#frag?x": {"delete": get([number])["get"]}}
    registry = service.registry(document(paths), rename={"GET /a?beta=true": "a"})
    await registry.call("a", {"limit": 1})
    assert str(service.request.url) == "https://api.example/a?beta=true&limit=1"
    await registry.call("it", {"n": 3})
    assert str(service.request.url) == "https://api.example/b/3"
    with pytest.raises(ToolError, match="n must not be null"):
        await registry.call("it", {"n": None})


@pytest.mark.parametrize("value", ["..", ".", "../admin", "a/../../b", "a\\..\\b", "..;/x", ""])
async def test_a_path_stays_where_it_is(value: str) -> None:
    service = Service()
    registry = service.registry()
    with pytest.raises(ToolError, match="must not be empty or have "):
        await registry.call("pets_get", {"pet-id": value})
    assert service.requests == []


def path_with(variable: str | None, tool: str) -> dict[str, Any]:
    parameters = [] if variable is None else [{"name": variable, "in": "path", "required": True}]
    return {"get": {"operationId": tool, "parameters": parameters}}


@pytest.mark.parametrize(
    ("tool", "arguments", "is_sent"),
    [
        ("user", {"id": "5"}, True),
        ("user", {"id": "5/posts"}, True),  # whose operation is offered, too
        ("user", {"id": "5/keys"}, False),
        ("user", {"id": "5//keys/"}, False),  # some services redirect from there
        ("user", {"id": "5%2Fkeys"}, True),  # it is decoded once
        ("user", {"id": "5/keys/6"}, True),
        ("user", {"id": "me"}, False),
        ("user", {"id": "meg"}, True),
        ("user", {"id": "5.json"}, False),
        ("user", {"id": ".json"}, True),
        ("user", {"id": "5-6"}, False),
        ("user", {"id": "5-"}, True),
        ("file", {"path": "a/b/c"}, True),
        ("file", {"path": "private/a/b"}, False),
        ("page", {"name": "users"}, True),
        ("page", {"name": "users/5/keys"}, False),
        ("page", {"name": "files/private/a/b"}, False),
    ],
)
async def test_no_argument_leads_to_an_operation_that_is_left_out(
    tool: str, arguments: dict[str, str], is_sent: bool
) -> None:
    paths = {
        "/users/{id}": path_with("id", "user"),
        "/users/{id}/posts": path_with("id", "posts"),
        "/users/{id}/keys": path_with("id", "keys"),
        "/users/{id}.json": path_with("id", "raw"),
        "/users/{id}-{part}": path_with("id", "part"),
        "/users/me": path_with(None, "me"),
        "/files/{path}": path_with("path", "file"),
        "/files/private/{path}": path_with("path", "private"),
        "/{name}": path_with("name", "page"),
        "/{any}/{thing}": {"post": {"operationId": "other"}},
    }
    service = Service()
    offered = ["user", "posts", "file", "page"]
    registry = service.registry(document(paths), only=offered)
    with nullcontext() if is_sent else pytest.raises(ToolError, match="another operation, which"):
        await registry.call(tool, arguments)
    assert len(service.requests) == is_sent


async def test_whatever_an_argument_says_it_stays_in_its_place() -> None:
    service = Service()
    registry = service.registry()
    for value in (
        "//evil.example/x",
        "@evil.example",
        "a?b=c#d",
        "%2e%2e%2f",
        "x" * 1000,
        "\x00\r\n",
    ):
        await registry.call("pets_get", {"pet-id": value})
        url = service.request.url
        assert (url.scheme, url.host, url.query) == ("https", "eu.pets.example", b"")
        assert url.raw_path.count(b"/") == 3
    for value in ("a\r\nX-Evil: 1", "a\nb", "\0", "日本"):
        with pytest.raises(ToolError, match="X-Trace has characters in it"):
            await registry.call("pets_list", {"X-Trace": value})
    with pytest.raises(ToolError, match="too long"):
        await registry.call("pets_get", {"pet-id": "x" * 1_000_000})


async def test_servers_are_those_of_the_operation_or_those_that_are_given() -> None:
    service = Service()
    await service.registry(variables={"region": "us"}).call("pets_list", {})
    assert service.request.url.host == "us.pets.example"
    await service.registry().call("head_uploads", {})
    assert str(service.request.url) == "https://uploads.example/uploads"
    await service.registry(base_url="http://localhost:8000/api/").call("head_uploads", {})
    assert str(service.request.url) == "http://localhost:8000/api/uploads"
    with pytest.raises(ValueError, match="region must be one of eu, us"):
        service.registry(variables={"region": "mars"})
    with pytest.raises(ValueError, match="give base_url="):
        service.registry(document({"/x": get()}, servers=[{"url": "/v1"}]))
