"""No key of an argument becomes a name in a request that is another's, in any place or style."""

from contextlib import suppress
from http.cookies import SimpleCookie
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx2
import pytest

from tests.compose.openapi.support import Service, document
from trio_mcp import McpError, Registry
from trio_mcp.compose.openapi import openapi
from trio_mcp.errors import ToolError
from trio_mcp.wire.jsonrpc import Json

pytestmark = pytest.mark.requirement("L6")

SCHEMES = {
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
}
AUTH = {"query": "q-secret", "cookie": "c-secret", "header": "h-secret"}
OTHERS: list[Any] = [
    {"name": "other", "in": "query", "schema": {}},
    {"name": "other", "in": "cookie", "schema": {}},
    {"name": "X-Other", "in": "header", "schema": {}},
    {"name": "other", "in": "path", "required": True, "style": "matrix", "schema": {}},
]

KEYS = [
    "plain",
    "é",
    "",
    *(
        "api_key",
        "API_KEY",
        "api.key",
        " api_key",
        "api_key[]",
        "api_key[x]",
        "sid",
        "SID",
        "sid[0]",
    ),
    *("other", "Other", "X-Other", "X-Key", "Cookie", "Host"),
    *("x=1&api_key=evil", "x]=1&api_key=evil&y[", "x; sid=evil", "x;sid=evil", "x, sid=evil"),
    *('x" sid=evil', "x sid=evil", "%61pi_key", "=sid"),
    *("a\r\nX-Evil: 1", "a\nb", "a\rb", "\0", "api_key\0", "\x7f"),
    *("../../admin", "..", "a/b", ";other=evil", "x?api_key=evil#", "\\..\\"),
    *('x"; filename="evil', 'x"\r\n\r\nevil'),
]
HOSTILE_VALUE = 'v; sid=evil, sid="evil" sid=evil&api_key=evil&other=evil'


def members(*more_keys: str) -> list[tuple[str, Any]]:
    """Each key with a value and with an object, and a few of them with a hostile value."""
    few = ["plain", "api_key[x]", "sid"]
    return [*product([*KEYS, *more_keys], ["v", {"deep": 1}]), *product(few, [HOSTILE_VALUE])]


def styled(place: str, style: str, explode: bool, **more: Any) -> dict[str, Any]:
    return {"in": place, "style": style, "explode": explode, "schema": {"type": "object"}, **more}


JSON_CONTENT: dict[str, Any] = {"content": {"application/json": {}}}
PARAMETERS = [
    *(styled("path", style, e) for style in ("simple", "label", "matrix") for e in (True, False)),
    *(
        styled("query", style, e, allowReserved=reserved)
        for style in ("form", "spaceDelimited", "pipeDelimited", "deepObject", "unknown")
        for e in (True, False)
        for reserved in (True, False)
    ),
    *(styled("header", "simple", e) for e in (True, False)),
    *(styled("cookie", style, e) for style in ("form", "cookie") for e in (True, False)),
    *({"in": place, **JSON_CONTENT} for place in ("path", "query", "header", "cookie")),
    {"in": "querystring", **JSON_CONTENT},
    {"in": "querystring", "content": {"application/x-www-form-urlencoded": {}}},
]


def registry_of(service: Service, operation: dict[str, Any], path: str = "/x/{other}") -> Registry:
    more = {"components": {"securitySchemes": SCHEMES}, "security": [{name: [] for name in AUTH}]}
    return service.registry(document({path: {"post": operation}}, **more), auth=AUTH)


def operation_with(parameter: dict[str, Any]) -> dict[str, Any]:
    named = {"name": "obj", "required": True, **parameter}
    return {"operationId": "it", "parameters": [named, *OTHERS]}


async def sent(registry: Registry, service: Service, arguments: dict[str, Json]) -> bool:
    """Call the tool, with all other parameters; return whether a request was sent."""
    service.requests.clear()
    with suppress(ToolError):
        await registry.call("it", {**others_of(registry), **arguments})
    for request in service.requests:
        check(request)
    return bool(service.requests)


def others_of(registry: Registry) -> dict[str, Json]:
    names = registry.tools["it"].description.input_schema["properties"]
    return {name: "mine" for name in names if "ther" in name}


def folded(name: str) -> str:
    """What PHP, ASP.NET or Rails may take a name for."""
    return name.strip().partition("[")[0].translate(str.maketrans(". ", "__")).casefold()


def only(pairs: list[tuple[str, str]], name: str, value: str) -> None:
    assert [each for key, each in pairs if folded(key) == name] == [value], pairs


def check(request: httpx2.Request) -> None:
    url = request.url
    assert (url.scheme, url.host) == ("https", "api.example")
    assert url.raw_path.decode().startswith("/x/;other=mine")
    assert unquote(url.raw_path.decode().partition("?")[0]).count(";other=") == 1
    only(parse_qsl(url.query.decode(), keep_blank_values=True), "api_key", "q-secret")
    for cookie in cookies(request.headers["cookie"]):
        only(cookie, "sid", "c-secret")
    names = [name.lower() for name, _ in request.headers.raw]
    assert names.count(b"x-key") == names.count(b"host") == names.count(b"cookie") == 1
    assert request.headers["x-key"] == "h-secret"
    assert b"x-evil" not in names
    for name, value in request.headers.raw:
        assert not {*b"\r\n\0"} & {*name, *value}


def cookies(line: str) -> list[list[tuple[str, str]]]:
    """The cookies of a header, as several kinds of servers read it."""
    strict = [pair.partition("=")[::2] for pair in line.split(";")]
    old = [pair.partition("=")[::2] for pair in line.replace(",", ";").split(";")]
    lenient = [(name, each.value) for name, each in SimpleCookie(line).items()]
    return [[(name, value) for name, value in each] for each in (strict, old, lenient)]


def label(parameter: dict[str, Any]) -> str:
    words = (parameter["in"], parameter.get("style", "json"), parameter.get("explode"))
    return "-".join(map(str, (*words, parameter.get("allowReserved"))))


@pytest.mark.parametrize("parameter", PARAMETERS, ids=label)
async def test_no_key_sets_repeats_or_shadows_a_name_of_another(parameter: dict[str, Any]) -> None:
    path = "/x/{other}" + ("/{obj}" if parameter["in"] == "path" else "")
    service = Service()
    registry = registry_of(service, operation_with(parameter), path)
    assert await sent(registry, service, {"obj": {"plain": "v"}})
    for key, value in members():
        if await sent(registry, service, {"obj": {key: value}}):
            query = parse_qsl(service.request.url.query.decode(), keep_blank_values=True)
            only(query, "other", "mine")
            for cookie in cookies(service.request.headers["cookie"]):
                only(cookie, "other", "mine")


OBJECT: dict[str, Any] = {"type": "object"}
SPREAD = {"meta": {"style": "form", "explode": True}, "deep": {"style": "deepObject"}}
MEMBERS = {"meta": OBJECT, "deep": OBJECT, "brother": {}, "admin": {"readOnly": True}}
FLAT = {"type": "object", "properties": MEMBERS, "additionalProperties": False}
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def operation_of(media_type: str, schema: dict[str, Any], **media: Any) -> dict[str, Any]:
    content = {media_type: {"schema": schema, **media}}
    body = {"required": True, "content": content}
    return {"operationId": "it", "parameters": OTHERS, "requestBody": body}


@pytest.mark.parametrize("member", ["meta", "deep"])
async def test_no_member_of_a_form_sets_another(member: str) -> None:
    service = Service()
    registry = registry_of(service, operation_of(URLENCODED, FLAT, encoding=SPREAD))
    assert await sent(registry, service, {member: {"plain": "v"}})
    for key, value in members("brother", "Brother[x]", "admin", "Admin[]"):
        if await sent(registry, service, {member: {key: value}}):
            form = parse_qsl(service.request.content.decode(), keep_blank_values=True)
            only(form, "brother", "mine")
            assert "admin" not in map(folded, dict(form))


@pytest.mark.parametrize("media_type", [URLENCODED, MULTIPART])
async def test_keys_of_a_whole_body_are_names_of_its_own(media_type: str) -> None:
    service = Service()
    registry = registry_of(service, operation_of(media_type, OBJECT))
    assert await sent(registry, service, {"body": {"plain": "v"}})
    for key, value in members():
        if await sent(registry, service, {"body": {key: value}}):
            content = service.request.content
            if media_type == URLENCODED:
                assert len(parse_qsl(content.decode(), keep_blank_values=True)) == 1
            else:
                boundary = service.request.headers["content-type"].rpartition("=")[2].encode()
                assert content.count(b"--" + boundary) == 2
                head = content.partition(b"\r\n\r\n")[0]
                assert head.count(b"\r\n") == 1 + (b"Content-Type" in head)
                assert b'"; filename="' not in head


@pytest.mark.parametrize(
    "key",
    [
        *("api_key", "API_KEY", "api.key", " api_key", "api_key[]", "other", "fixed", "size"),
        *("", "a\r\nX: 1", "\0"),
    ],
)
async def test_what_is_not_for_an_argument_is_refused_in_words(key: str) -> None:
    service = Service()
    operation = operation_with(styled("query", "form", True))
    size = {"type": "object", "properties": {"size": {}}}
    operation["parameters"].append({"name": "page", "in": "query", "schema": size})
    registry = registry_of(service, operation, "/x/{other}?fixed=1")
    with pytest.raises(ToolError, match=r"^obj has (a key that is empty|the key .* is not for it)"):
        await registry.call("it", {**others_of(registry), "obj": {key: 1}})
    assert not service.requests
    await registry.call("it", {**others_of(registry), "obj": {"obj": 1}, "page": {"size": 2}})
    assert service.request.url.query == b"fixed=1&other=mine&obj=1&size=2&api_key=q-secret"


@pytest.mark.parametrize("text", ["api_key", "API_KEY[]", "other", "a\nb", ""])
async def test_a_query_that_is_one_text_is_no_name_of_another(text: str) -> None:
    service = Service()
    whole = {"in": "querystring", "content": {"text/plain": {}}}
    registry = registry_of(service, operation_with(whole))
    with pytest.raises(ToolError, match=r"^obj has "):
        await registry.call("it", {**others_of(registry), "obj": text})
    assert await sent(registry, service, {"obj": "some text & more=1"})
    assert service.request.url.query.endswith(b"&some%20text%20%26%20more%3D1")


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer"),
        *("Expect", "Keep-Alive", "Cookie", "Authorization", "Proxy-Authorization", "X-Key"),
        *("Accept-Encoding", "Content-Encoding", "content-length", "hOST"),
    ],
)
async def test_headers_of_the_connection_and_of_credentials_are_no_arguments(name: str) -> None:
    service = Service()
    operation = operation_with({"name": name, "in": "header", "schema": {"type": "string"}})
    registry = registry_of(service, operation)
    assert name not in registry.tools["it"].description.input_schema["properties"]
    assert await sent(registry, service, {})
    assert service.request.headers["host"] == "api.example"


async def test_what_the_client_sends_itself_stays_as_it_is() -> None:
    """A client of the user's own may have credentials that no document tells of."""
    service = Service()
    ours = service.client()
    ours.headers["X-Tenant"] = "ours"
    ours.cookies.set("session", "ours")
    ours.params = ours.params.merge({"tenant": "ours"})
    operation = {
        "operationId": "it",
        "parameters": [
            {"name": "q", "in": "query", "schema": {}},
            {"name": "tenant", "in": "query", "schema": {}},
            {"name": "c", "in": "cookie", "schema": {}},
            {"name": "x-tenant", "in": "header", "schema": {}},
        ],
    }
    paths = document({"/it": {"get": operation}})
    async with ours:
        registry = openapi(paths, client=ours)
        await registry.call("it", {"q": {"a": 1}, "c": {"b": 2}})
        assert str(service.request.url) == "https://api.example/it?a=1&tenant=ours"
        assert service.request.headers["cookie"] == "session=ours; b=2"
        assert service.request.headers["x-tenant"] == "ours"
        for arguments in (
            {"q": {"tenant": "evil"}},
            {"q": {"Tenant[]": "evil"}},
            {"tenant": "evil"},
            {"c": {"session": "evil"}},
            {"x-tenant": "evil"},
        ):
            with pytest.raises(ToolError, match=r"is not for (it|arguments) to set"):
                await registry.call("it", arguments)


async def test_half_a_character_is_refused_everywhere() -> None:
    service = Service()
    for parameter in PARAMETERS:
        path = "/x/{other}" + ("/{obj}" if parameter["in"] == "path" else "")
        registry = registry_of(service, operation_with(parameter), path)
        for obj in ("\ud800", {"\ud800": 1}, {"a": "\ud800"}):
            with pytest.raises((ToolError, McpError)):
                await registry.call("it", {**others_of(registry), "obj": obj})
        assert not service.requests


def test_a_header_that_some_servers_take_for_another_is_no_argument() -> None:
    """A server with CGI or WSGI knows the header `X-Key` as `HTTP_X_KEY`, and `X_Key` as well."""
    names = ["X_Key", "x_KEY", "Content_Length", "X-Keys"]
    taken = [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names]
    details = {"operationId": "get", "parameters": taken, "security": [{"header": []}]}
    components = {"securitySchemes": SCHEMES}
    described = document({"/x": {"get": details}}, components=components)
    registry = openapi(described, auth={"header": "h-secret"})
    assert list(registry.tools["get"].description.input_schema["properties"]) == ["X-Keys"]
