"""Agents of other libraries and our servers, in both directions, with models that are made up.

Arguments: a direction, and what is needed for it. The adapters of the guide are on the path. Runs
in a virtual environment of its own, with the real packages.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from trio_mcp import HttpOptions
from trio_mcp.aio import Registry, connect, from_fastapi, http_app
from trio_mcp.errors import Unauthorized

ARGUMENTS = {"a": 19, "b": 23}


# -- our client, as the tools of their agents ----------------------------------------------------


async def langchain(command: list[str]) -> None:
    from langchain_tools import tools_of

    async with connect(command) as client:
        tools = {each.name: each for each in tools_of(client)}
        call = {"name": "add", "args": ARGUMENTS, "id": "1", "type": "tool_call"}
        message = await tools["add"].ainvoke(call)
        assert message.content == "42.0", message
        assert "b" in tools["divide"].args
        call = {**call, "name": "divide", "args": {"a": 1, "b": 0}}
        message = await tools["divide"].ainvoke(call)
        assert (message.status, "zero" in message.content) == ("error", True), message


def openai_model() -> Any:
    from agents import ModelResponse, Usage
    from agents.models.interface import Model
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class MadeUp(Model):
        """Calls the tool `add`, and repeats what that said."""

        async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any):
            results = [each for each in input if each.get("type") == "function_call_output"]
            if not results:
                output: Any = ResponseFunctionToolCall(
                    type="function_call", name="add", call_id="1", arguments=json.dumps(ARGUMENTS)
                )
            else:
                said = results[-1]["output"]
                text = said if isinstance(said, str) else said[0]["text"]
                block = ResponseOutputText(type="output_text", text=text, annotations=[])
                output = ResponseOutputMessage(
                    id="2", type="message", role="assistant", status="completed", content=[block]
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *arguments: Any, **more: Any):
            raise NotImplementedError

    return MadeUp()


async def run_openai(**options: Any) -> None:
    from agents import Agent, RunConfig, Runner

    agent = Agent(name="adder", model=openai_model(), **options)
    result = await Runner.run(agent, "add", run_config=RunConfig(tracing_disabled=True))
    assert "42" in result.final_output, result.final_output


async def openai_agents(command: list[str]) -> None:
    from openai_agents_tools import tools_of

    async with connect(command) as client:
        await run_openai(tools=tools_of(client))


def pydantic_model() -> Any:
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def respond(messages: list[Any], info: Any) -> ModelResponse:
        results = [each for each in messages[-1].parts if isinstance(each, ToolReturnPart)]
        if not results:
            return ModelResponse(parts=[ToolCallPart("add", ARGUMENTS)])
        return ModelResponse(parts=[TextPart(str(results[0].content))])

    return FunctionModel(respond)


async def run_pydantic(**options: Any) -> None:
    from pydantic_ai import Agent

    result = await Agent(pydantic_model(), **options).run("add")
    assert "42" in result.output, result.output


async def pydantic_ai(command: list[str]) -> None:
    from pydantic_ai_tools import tools_of

    async with connect(command) as client:
        await run_pydantic(tools=tools_of(client))


# -- their clients, with our servers -------------------------------------------------------------


async def langchain_client(command: list[str], url: str) -> None:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    servers: Any = {
        "stdio": {"transport": "stdio", "command": command[0], "args": command[1:]},
        "http": {"transport": "streamable_http", "url": url},
    }
    for name in servers:
        tools = await MultiServerMCPClient(servers).get_tools(server_name=name)
        add = next(each for each in tools if each.name == "add")
        said = await add.ainvoke(ARGUMENTS)
        assert "42" in json.dumps(said), said


async def openai_agents_client(command: list[str], url: str) -> None:
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    for server in (
        MCPServerStdio(params={"command": command[0], "args": command[1:]}),
        MCPServerStreamableHttp(params={"url": url}),
    ):
        async with server:
            await run_openai(mcp_servers=[server])


async def pydantic_ai_client(command: list[str], url: str) -> None:
    from pydantic_ai.mcp import MCPToolset, StdioTransport

    for client in (StdioTransport(command=command[0], args=command[1:]), url):
        await run_pydantic(toolsets=[MCPToolset(client)])


# -- our app in their application ----------------------------------------------------------------


async def fastapi(command: list[str]) -> None:
    import orders_site
    from fastapi import Depends, FastAPI
    from pydantic import BaseModel
    from starlette.routing import Route

    registry = Registry("calculator")

    @registry.tool
    async def add(a: float, b: float) -> float:
        await asyncio.sleep(0)
        return a + b

    app = FastAPI(title="sums")

    class Pair(BaseModel):
        a: float
        b: float

    @app.post("/multiply", operation_id="multiply")
    async def multiply(pair: Pair, by: float = Depends(lambda factor=1.0: factor)) -> float:
        return pair.a * pair.b * by

    app.mount("/tools", http_app(registry))
    app.router.routes.append(Route("/mcp", http_app(from_fastapi(app))))

    @app.get("/sum")
    async def total() -> float:
        result: float = await registry.call("add", ARGUMENTS)
        return result

    async with under_uvicorn(app) as url:
        await use_sums(command, url)
    async with under_uvicorn(orders_site.app) as url:
        await list_orders_of_ada(f"{url}/mcp")


@asynccontextmanager
async def under_uvicorn(app: Any) -> AsyncIterator[str]:
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


async def use_sums(command: list[str], url: str) -> None:
    for client in (openai_agents_client, langchain_client, pydantic_ai_client):
        await client(command, f"{url}/tools/mcp")
    import httpx2
    import library_site

    assert list(library_site.registry.tools) == ["get_book"]
    found = await library_site.registry.call("get_book", {"number": "1"})
    assert found.content[0].text == '"Emma"', found
    async with httpx2.AsyncClient(timeout=120) as http:
        assert (await http.get(f"{url}/sum")).json() == 42
        assert "/sum" in (await http.get(f"{url}/openapi.json")).json()["paths"]
    async with connect(f"{url}/mcp") as client:
        result = await client.call_tool("multiply", {"a": 6, "b": 7})
        assert result.text == "42.0", result


async def list_orders_of_ada(url: str) -> None:
    """A token is checked, and goes on to the endpoint; another one is refused."""
    ada = HttpOptions(headers={"Authorization": "Bearer secret-of-ada"})
    async with connect(url, http=ada) as client:
        result = await client.call_tool("list_orders")
        assert result.text == '["an order of ada"]', result
    eve = HttpOptions(headers={"Authorization": "Bearer a guess"})
    try:
        async with connect(url, http=eve):
            raise AssertionError("a token that is not known was let in")
    except Unauthorized:
        pass


asyncio.run(globals()[sys.argv[1]](sys.argv[2:]))
