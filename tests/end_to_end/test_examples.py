"""The examples of the documentation, run as they stand: as processes, or their registries here."""

import math
import re
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.client import CLIENT_INFO, REVISIONS, RawClient, serving
from tests.support.processes import EXAMPLES, call, python, running, text_of
from tests.support.tools import some_revisions

CALCULATOR = python(EXAMPLES / "calculator.py")
CLOCK = python(EXAMPLES / "clock.py")


@asynccontextmanager
async def client_of(example: str, revision: str = "2025-11-25") -> AsyncIterator[RawClient]:
    """A client of the registry of an example, in this process."""
    registry = runpy.run_path(str(EXAMPLES / example))["registry"]
    async with serving(registry, revision=revision) as (client, _):
        yield client


@pytest.mark.requirement("D5")
@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
async def test_the_calculator_calculates(revision: str) -> None:
    async with running(CALCULATOR) as server:
        client = RawClient(server.client.stream, revision)
        await client.initialize()
        for tool, a, b, expected in [
            ("add", 2, 3, 5.0),
            ("subtract", 2, 3, -1.0),
            ("multiply", -4, 2.5, -10.0),
            ("divide", 1, 3, 1 / 3),
            ("divide", 0, 3, 0.0),
            ("add", 1e308, 1, 1e308),
        ]:
            answer = await client.call(tool, a=a, b=b)
            assert float(text_of(answer)) == expected
            assert not answer["result"].get("isError")
        assert await server.finish() == 0


@pytest.mark.requirement("A13")
async def test_the_calculator_logs_to_stderr() -> None:
    """It shows how logging is configured for stdio: stdout is for messages only."""
    hello = {"protocolVersion": REVISIONS[-2], "capabilities": {}, "clientInfo": CLIENT_INFO}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    async with running(CALCULATOR) as server:
        await server.client.send(begin, call(2, "add", a=1, b=2))
        assert set(await server.client.receive_many(2)) == {1, 2}
        assert await server.finish() == 0
    assert re.search(rb"^\d{4}-\S+ \S+ INFO Tool add: ok in ", server.stderr, re.MULTILINE)


@pytest.mark.requirement("D5", "C1")
async def test_the_calculator_describes_its_tools_and_their_arguments() -> None:
    async with client_of("calculator.py") as client:
        tools = (await client.request("tools/list"))["result"]["tools"]
        assert [each["name"] for each in tools] == ["add", "subtract", "multiply", "divide"]
        for tool in tools:
            assert tool["description"]
            assert tool["inputSchema"]["required"] == ["a", "b"]
            for argument in tool["inputSchema"]["properties"].values():
                assert argument["type"] == "number"
                assert argument["description"]


@pytest.mark.requirement("D5", "B6")
async def test_division_by_zero_is_a_tool_error() -> None:
    async with client_of("calculator.py") as client:
        for zero in (0, 0.0, -0.0):
            result = (await client.call("divide", a=1, b=zero))["result"]
            assert result["isError"] is True
            assert result["content"] == [{"type": "text", "text": "Error: Division by zero"}]
        assert text_of(await client.call("divide", a=1, b=2)) == "0.5"


@pytest.mark.requirement("D5", "B4")
async def test_the_calculator_says_which_argument_is_wrong() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("b", {"a": 1}),
        ("b", {"a": 1, "b": "two"}),
        ("a", {"a": None, "b": 2}),
        ("c", {"a": 1, "b": 2, "c": 3}),
    ]
    async with client_of("calculator.py") as client:
        for named, arguments in wrong:
            result = (await client.call("add", **arguments))["result"]
            assert result["isError"] is True
            told = result["content"][0]["text"].removeprefix("Invalid arguments for tool add: ")
            assert re.search(rf"\b{named}\b", told)


@pytest.mark.requirement("B6", "D5")
@some_revisions
async def test_an_overflow_is_no_result(revision: str) -> None:
    """The product of two floats may be infinite, which JSON cannot say."""
    async with client_of("calculator.py", revision) as client:
        answer = await client.call("multiply", a=1e308, b=10)
        assert "error" in answer, answer
        assert answer["error"]["code"] == -32603
        message = "Invalid handler result type: float (tool multiply)"
        assert answer["error"]["message"] == message


@pytest.mark.requirement("B4", "B5", "C1")
async def test_the_clock_tells_the_time() -> None:
    async with running(CLOCK) as server:
        client = RawClient(server.client.stream, "2026-07-28")
        moment = (await client.call("now", timezone="Europe/Vienna"))["result"]["structuredContent"]
        assert set(moment) == {"iso", "weekday", "timezone"}
        told = datetime.fromisoformat(moment["iso"])
        assert abs(told - datetime.now(told.tzinfo)) < timedelta(minutes=5)
        assert moment["weekday"] == f"{told:%A}"
        assert (await client.call("now"))["result"]["structuredContent"]["timezone"] == "UTC"


@pytest.mark.requirement("B6")
async def test_the_clock_does_not_know_every_time_zone() -> None:
    async with client_of("clock.py", "2026-07-28") as client:
        result = (await client.call("now", timezone="Nowhere/At_All"))["result"]
        assert result["isError"] is True
        assert result["content"][0]["text"] == "Error: there is no time zone 'Nowhere/At_All'"


@pytest.mark.requirement("B3", "B4", "C2")
async def test_the_clock_counts_days_in_a_worker_thread() -> None:
    async with client_of("clock.py", "2026-07-28") as client:
        dates = {"start": "2024-02-28", "end": "2024-03-13"}
        assert float(text_of(await client.call("days_between", **dates))) == 14
        weeks = await client.call("days_between", **dates, unit="weeks")
        assert math.isclose(float(text_of(weeks)), 2)
        for bad in ({"unit": "months"}, {"end": "2024-02-30"}, {"end": 5}):
            answer = await client.call("days_between", **{**dates, **bad})
            assert answer["result"]["isError"] is True
            assert next(iter(bad)) in text_of(answer)
