"""Credentials: where they are shown, and where not."""

import logging
from typing import Any

import httpx2
import pytest
import trio

from tests.compose.openapi.support import Service, document, get
from trio_mcp.auth.fetching import Fetching
from trio_mcp.compose.openapi.security import ServiceToken
from trio_mcp.errors import ToolError
from trio_mcp.wire.jsonrpc import encode

pytestmark = pytest.mark.requirement("L6")
ARGUMENTS = {"simple": ["a"], "label": ["b"], "matrix": {"c": 1}}


async def test_each_operation_shows_the_first_of_its_alternatives_that_is_there() -> None:
    service = Service()
    auth = {"key": "s3cret", "bearer": "t0ken", "header": "unused"}
    registry = service.registry(auth=auth)
    await registry.call("pets_list", {"limit": 1})
    assert str(service.request.url) == "https://eu.pets.example/v2/pets?limit=1&api_key=s3cret"
    assert "x-key" not in service.request.headers
    await registry.call("styles", ARGUMENTS)
    assert service.request.headers["authorization"] == "Bearer t0ken"
    await registry.call("pets_delete", {"pet-id": "1"})  # which says that it needs none
    assert service.request.url.query == b""

    both = service.registry(auth={"bearer": "t0ken", "basic": ("me", "pass")})
    await both.call("styles", ARGUMENTS)
    assert service.request.headers["authorization"] == "Basic bWU6cGFzcw=="
    await both.call("pets_list", {})
    assert service.request.url.query == b""  # its key is not there


async def test_alternatives_may_be_of_several_keys_and_cookies() -> None:
    service = Service()
    schemes = {
        "id": {"type": "apiKey", "in": "header", "name": "X-Id"},
        "sid": {"type": "apiKey", "in": "cookie", "name": "sid"},
    }
    more = {"components": {"securitySchemes": schemes}, "security": [{"id": [], "sid": []}]}
    registry = service.registry(document({"/it": get()}, **more), auth={"id": "a", "sid": "b;c"})
    await registry.call("it", {})
    assert service.request.headers["x-id"] == "a"
    assert service.request.headers["cookie"] == "sid=b%3Bc"
    await service.registry(document({"/it": get()}, **more), auth={"id": "a"}).call("it", {})
    assert "x-id" not in service.request.headers


async def test_keys_are_in_no_schema_and_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp")

    def refusing(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadError(f"cannot read {request.url}")

    registry = Service(refusing).registry(auth={"key": "s3cret"})
    for tool in registry.tools.values():
        assert b"s3cret" not in encode(tool.description.input_schema)
        assert "api_key" not in tool.description.input_schema["properties"]
    with pytest.raises(ToolError) as failed:
        await registry.call("pets_list", {})
    assert "s3cret" not in str(failed.value) + caplog.text
    assert "s3cret" not in repr(registry.tools["pets_list"])


@pytest.mark.parametrize("key", ["s3cret", "s3&cret"])
async def test_a_service_that_repeats_keys_tells_nobody(key: str) -> None:
    def repeating(request: httpx2.Request) -> httpx2.Response:
        said = f"{request.url} {request.headers.get('authorization')} are of no use"
        code = 302 if request.url.path.endswith("pets") else 403
        return httpx2.Response(code, text=said, headers={"Location": f"https://b.example/?{said}"})

    service = Service(repeating)
    registry = service.registry(auth={"key": key, "bearer": "t0ken"})
    for tool, arguments in (("pets_list", {"limit": 47}), ("styles", ARGUMENTS)):
        with pytest.raises(ToolError, match=r"47.*…|Bearer …") as failed:
            await registry.call(tool, arguments)
        assert "cret" not in str(failed.value)
        assert "t0ken" not in str(failed.value)


async def test_neither_keys_nor_arguments_are_in_the_log_of_the_http_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    service = Service()
    registry = service.registry(auth={"key": "s3cret"}, base_url="https://me:passw0rd@pets.example")
    async with registry.running():
        await registry.call("pets_list", {"limit": 47})
        await registry.call("pets_get", {"pet-id": "private"})
    assert [record.getMessage() for record in caplog.records if record.name == "httpx2"] == [
        'HTTP Request: GET https://pets.example/… "HTTP/1.1 200 OK"'
    ] * 2
    for secret in ("s3cret", "=47", "private", "passw0rd"):
        assert secret not in caplog.text
    async with service.client() as another:
        await another.get("https://elsewhere.example/a?b=c")
    assert "https://elsewhere.example/a?b=c" in caplog.text, "what is not ours stays as it is"


async def test_a_page_that_links_to_itself_with_the_key_keeps_it_to_itself() -> None:
    def linking(request: httpx2.Request) -> httpx2.Response:
        link = f'<{request.url}&page=2>; rel="next"'
        return httpx2.Response(200, json=[1], headers={"Link": link})

    service = Service(linking)
    result = await service.registry(auth={"key": "s3cret"}).call("pets_list", {})
    assert "call again with page=2." in result.content[-1].text
    assert "s3cret" not in str(result)
    await service.registry(auth={"key": "s3cret"}, pages=2).call("pets_list", {})
    assert service.request.url.query == b"page=2&api_key=s3cret"


async def test_headers_for_all_requests_are_no_arguments() -> None:
    registry = Service().registry(auth=httpx2.BasicAuth("a", "b"))
    assert "X-Trace" in registry.tools["pets_list"].description.input_schema["properties"]
    from trio_mcp.compose.openapi import openapi

    paths = {"/it": get([{"name": "X-Team", "in": "header", "schema": {}}])}
    made = openapi(document(paths), headers={"x-team": "ours"})
    assert made.tools["it"].description.input_schema["properties"] == {}


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({"kye": "x"}, "no security scheme 'kye'; it has: 'key', 'header'"),
        ({"basic": "x"}, r"takes \(user, password\)"),
        ({"key": ("x", "y")}, "takes the key"),
        ({"bearer": "a\nb"}, "takes a token"),
        ({"app": 3}, r"takes a token, \(client id, client secret\)"),
    ],
)
def test_wrong_credentials_are_refused_without_being_told(auth: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        Service().registry(auth=auth)
    assert "a\nb" not in str(refused.value)


# -- tokens ----------------------------------------------------------------------------------------


async def test_tokens_are_got_once_and_again_when_they_are_refused() -> None:
    given: list[str] = []

    def login(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/.well-known/openid-configuration":
            return httpx2.Response(200, json={"token_endpoint": "https://login.example/token"})
        form = dict(pair.split("=") for pair in request.content.decode().split("&"))
        assert form["grant_type"] == "client_credentials"
        assert request.headers["authorization"].startswith("Basic ")
        given.append(f"t{len(given)}")
        return httpx2.Response(200, json={"access_token": given[-1], "token_type": "Bearer"})

    def service(request: httpx2.Request) -> httpx2.Response:
        good = request.headers["authorization"] == f"Bearer t{len(given) - 1}" and given != ["t0"]
        return httpx2.Response(200 if good else 401)

    there = Fetching(client_factory=Service(login).client)
    url = "https://login.example/.well-known/openid-configuration"
    auth = ServiceToken(url, "me", "hush", is_discovery=True, fetching=there)
    assert "hush" not in repr(auth)
    registry = Service(service).registry(document({"/it": get()}), auth=auth)
    async with registry.running(), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(registry.call, "it", {})
    assert given == ["t0", "t1"]


async def test_client_credentials_come_from_the_document_and_fail_in_words() -> None:
    scheme = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token"}}}
    more = {"components": {"securitySchemes": {"app": scheme}}, "security": [{"app": []}]}
    plain = document({"/it": get()}, servers=[{"url": "http://192.0.2.1"}], **more)
    with pytest.raises(ValueError, match="plain http"):
        Service().registry(plain, auth={"app": ("me", "hush")})
    scheme["flows"]["clientCredentials"]["tokenUrl"] = "http://127.0.0.1:9/token"
    registry = Service().registry(document({"/it": get()}, **more), auth={"app": ("me", "hush")})
    with pytest.raises(ToolError, match="logging in failed: cannot reach") as failed:
        await registry.call("it", {})
    assert "hush" not in str(failed.value)
    scheme["flows"] = {"implicit": {}}
    with pytest.raises(ValueError, match="no flow for clients without a person"):
        Service().registry(document({"/it": get()}, **more), auth={"app": ("me", "hush")})
