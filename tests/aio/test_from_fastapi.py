"""`from_fastapi`: the endpoints of an app as tools, called in process and in the app's loop."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import trio
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

import trio_mcp
from tests.aio.support import in_asyncio, until
from tests.aio.test_http import under_uvicorn
from trio_mcp import Context, SchemaError
from trio_mcp.aio import connect, from_fastapi, http_app

TENANT = ContextVar("the tenant", default="none")


class DescribedStarlette(Starlette):
    """What FastAPI adds to Starlette, as far as it matters here: a document, made once."""

    openapi_schema: dict[str, Any] | None = None

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            names = [each.path for each in self.routes if isinstance(each, Route)]
            paths = {name: {"get": {"operationId": name.strip("/")}} for name in names}
            if "/whoami" in paths:
                paths["/whoami"]["get"]["security"] = [{"bearer": []}]
            self.openapi_schema = {
                "openapi": "3.1.0",
                "info": {"title": "Shop", "version": "7"},
                "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
                "paths": paths,
            }
        return self.openapi_schema


class Shop:
    """An app, and what happens in it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.go_on = asyncio.Event()
        routes = [
            Route(f"/{each.__name__}", each)
            for each in (
                self.about,
                self.whoami,
                self.wait,
                self.raises,
                self.exits,
                self.endless,
                self.later,
                self.silent,
            )
        ]
        self.app = DescribedStarlette(routes=routes, lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[dict[str, object]]:
        self.events.append("opened")
        yield {"loop": asyncio.get_running_loop()}
        self.events.append("closed")

    async def about(self, request: Request) -> Response:
        found = {
            "is_here": request.state.loop is asyncio.get_running_loop(),
            "host": request.url.hostname,
            "client": request.client and request.client.host,
            "tenant": TENANT.get(),
            "authorization": request.headers.get("authorization"),
        }
        return JSONResponse(found)

    async def whoami(self, request: Request) -> Response:
        return PlainTextResponse(request.headers.get("authorization", "?"))

    async def wait(self, request: Request) -> Response:
        self.events.append("began")
        try:
            await asyncio.sleep(3600)
        finally:
            self.events.append("ended")
        return Response()

    async def raises(self, request: Request) -> Response:
        raise ValueError("a secret")

    async def exits(self, request: Request) -> Response:
        raise SystemExit(3)

    async def endless(self, request: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 1000
                    await asyncio.sleep(0)
            finally:
                self.events.append("cut")

        return StreamingResponse(chunks())

    async def later(self, request: Request) -> Response:
        async def work() -> None:
            await self.go_on.wait()
            self.events.append("worked")

        return PlainTextResponse("now", background=BackgroundTask(work))

    async def silent(self, request: Request) -> Response:
        async def nothing(scope: Any, receive: Any, send: Any) -> None:
            """Answer nothing."""

        return nothing  # type: ignore[return-value]


@pytest.mark.requirement("S5")
@in_asyncio
async def test_endpoints_are_called_in_the_loop_and_the_state_of_the_app_that_mounts_them() -> None:
    shop = Shop()
    registry = from_fastapi(shop.app)
    shop.app.routes.append(Mount("/", http_app(registry)))
    async with under_uvicorn(shop.app) as url, connect(f"{url}/mcp") as client:
        assert (client.server_info.name, client.server_info.version) == ("Shop", "7")
        about = (await client.call_tool("about")).structured_content
        assert about == {
            "is_here": True,
            "host": "localhost",
            "client": "127.0.0.1",
            "tenant": "none",
            "authorization": None,
        }
        assert shop.events == ["opened"]


@pytest.mark.requirement("S5")
async def test_where_nothing_else_serves_the_app_its_lifespan_runs_and_its_loop_too() -> None:
    shop = Shop()
    registry = from_fastapi(shop.app, lifespan=True)
    async with trio_mcp.connect(registry) as client:
        TENANT.set("acme")
        about = (await client.call_tool("about")).structured_content
        assert about["is_here"]
        assert shop.events == ["opened"]
    assert shop.events == ["opened", "closed"]


@pytest.mark.requirement("S5")
@in_asyncio
async def test_context_variables_and_the_callers_credential_reach_the_endpoint() -> None:
    async def authenticate(context: Context) -> str:
        return f"token-of-{TENANT.get()}"

    registry = from_fastapi(Shop().app, lifespan=True, authenticate=authenticate)

    @registry.tool
    async def own() -> str:
        return TENANT.get()

    TENANT.set("acme")
    assert (await registry.call("whoami")).content[0].text == "Bearer token-of-acme"
    async with registry.running():
        about = await registry.call("about")
        assert about.structured_content["tenant"] == "acme"
        assert await registry.call("own") == "acme"


@pytest.mark.requirement("S5")
@in_asyncio
async def test_a_call_that_is_cancelled_or_too_late_cancels_the_endpoint() -> None:
    shop = Shop()
    async with connect(from_fastapi(shop.app, lifespan=True), tool_timeout=60) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await until(lambda: "began" in shop.events)
        call.cancel()
        await until(lambda: "ended" in shop.events)
    async with connect(from_fastapi(shop.app, lifespan=True, timeout=0.05)) as client:
        assert "no answer within 0.05 s" in ((await client.call_tool("wait")).error or "")


@pytest.mark.requirement("S5")
@in_asyncio
async def test_what_goes_wrong_in_the_app_is_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    registry = from_fastapi(shop.app, lifespan=True, max_response_bytes=10_000)
    async with connect(registry) as client:
        for name in ("raises", "silent"):
            error = (await client.call_tool(name)).error or ""
            assert "500 Internal Server Error" in error
            assert "secret" not in error
        assert "more than 10,000 bytes" in ((await client.call_tool("endless")).error or "")
        await until(lambda: "cut" in shop.events)
    (logged,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert logged.message == "The app raised an error"
    assert "a secret" in str(logged.exc_info)


@pytest.mark.requirement("S5")
async def test_an_endpoint_that_exits_ends_nothing_but_its_call() -> None:
    async with trio_mcp.connect(from_fastapi(Shop().app, lifespan=True)) as client:
        assert "500 Internal Server Error" in ((await client.call_tool("exits")).error or "")
        assert (await client.call_tool("whoami")).text == "?"


@pytest.mark.requirement("S5")
@in_asyncio
async def test_what_an_app_does_after_its_response_goes_on_and_ends_with_the_registry() -> None:
    shop = Shop()
    async with connect(from_fastapi(shop.app, lifespan=True)) as client:
        assert (await client.call_tool("later")).text == "now"
        assert shop.events == ["opened"]
        shop.go_on.set()
    assert shop.events == ["opened", "worked", "closed"]


@pytest.mark.requirement("S5")
@in_asyncio
async def test_the_host_that_the_app_sees_can_be_chosen() -> None:
    shop = Shop()
    shop.app.add_middleware(TrustedHostMiddleware, allowed_hosts=["shop.example"])
    async with connect(from_fastapi(shop.app, lifespan=True)) as client:
        assert "Invalid host header" in ((await client.call_tool("about")).error or "")
    registry = from_fastapi(shop.app, lifespan=True, base_url="https://shop.example")
    async with connect(registry) as client:
        assert (await client.call_tool("about")).structured_content["host"] == "shop.example"


@pytest.mark.requirement("S5")
async def test_the_document_is_that_of_the_moment_and_is_not_kept() -> None:
    shop = Shop()
    assert "added" not in from_fastapi(shop.app).tools
    shop.app.add_route("/added", shop.about)
    assert "added" in from_fastapi(shop.app, only=["added", "about"]).tools
    assert shop.app.openapi_schema is None
    with pytest.raises(TypeError, match="for an app with an OpenAPI document, not <starlette"):
        from_fastapi(Starlette())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="for an app with an OpenAPI document, not <class"):
        from_fastapi(DescribedStarlette)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="no endpoints yet: call from_fastapi after adding them"):
        from_fastapi(DescribedStarlette())
    with pytest.raises(ValueError, match="nothing"):
        from_fastapi(shop.app, only="nothing")


@pytest.mark.requirement("S5")
async def test_a_thousand_calls_at_a_time_are_answered() -> None:
    registry = from_fastapi(Shop().app, lifespan=True)
    texts = []

    async with trio_mcp.connect(registry, tool_timeout=60) as client:

        async def call() -> None:
            texts.append((await client.call_tool("whoami")).text)

        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(call)
    assert texts == ["?"] * 1000


class NamedAsFastapiDoes:
    """An app with the `operationId`s that FastAPI makes up, and one of the author's."""

    def openapi(self) -> dict[str, Any]:
        ids = {
            ("/orders/", "get"): "list_orders_orders__get",
            ("/orders/{number}", "delete"): "remove_orders__number__delete",
            ("/users/{number}", "delete"): "remove_users__number__delete",
            ("/get", "get"): "_get_get",
            ("/health", "get"): "is_it_well",
        }
        paths: dict[str, Any] = {}
        for (path, method), name in ids.items():
            paths.setdefault(path, {"parameters": []})[method] = {"operationId": name}
        paths["/orders/"]["get"] |= {"summary": "List Orders", "description": "All of yours."}
        paths["/health"]["get"] |= {"summary": "Is It Well"}
        return {"openapi": "3.1.0", "info": {"title": "Shop", "version": "7"}, "paths": paths}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError


def test_tools_are_named_after_functions_where_that_is_a_name_of_one() -> None:
    named = ["list_orders", "is_it_well"]
    others = ["remove_orders__number__delete", "remove_users__number__delete", "get_get"]
    app = NamedAsFastapiDoes()
    assert sorted(from_fastapi(app).tools) == sorted([*named, *others])
    tools = from_fastapi(app, only=named, rename={"is_it_well": "health"}).tools
    described = {name: tool.description.description for name, tool in tools.items()}
    assert described == {"list_orders": "All of yours.", "health": "Is It Well"}
