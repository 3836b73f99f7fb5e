"""The log as JSON: when, who, which request, and which trace."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from functools import partial
from typing import Any

import pytest
import trio
from opentelemetry import trace

from tests.support.telemetry import collecting, span_id, trace_id
from tests.support.tools import echo, registry_of
from trio_mcp import HttpOptions, HttpPolicy, Implementation, Registry, connect, serve_http
from trio_mcp.cli.logs import JsonFormatter

pytestmark = pytest.mark.requirement("R3")

LIMIT = 60


class Lines(logging.Handler):
    """What a log in JSON has."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.entries: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.entries.append(json.loads(self.format(record)))

    def calls(self) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["logger"] == "trio_mcp.calls"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO)
    handler = Lines()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


async def two_calls(era: Any, log: Lines) -> list[dict[str, Any]]:
    """Have two clients, who are two people, make the same call over HTTP."""
    policy = HttpPolicy(tokens={"a-token": "ada", "b-token": "bob"})
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(
                partial(serve_http, registry_of(echo), port=0, policy=policy)
            )
            for person in "ab":
                options = HttpOptions(headers={"Authorization": f"Bearer {person}-token"})
                who = Implementation(f"host-of-{person}", "1.0")
                async with connect(handle.url, era=era, http=options, client_info=who) as client:
                    await client.call_tool("echo", {"text": "hi"})
            nursery.cancel_scope.cancel()
    return log.calls()


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_says_who_has_made_it_and_is_told_from_all_others(
    era: Any, log: Lines
) -> None:
    first, second = await two_calls(era, log)
    assert (first["principal"], first["client"]) == ("ada", "host-of-a")
    assert (second["principal"], second["client"]) == ("bob", "host-of-b")
    assert first["request_id"] == second["request_id"]  # each client counts from 1
    assert None not in (first["connection_id"], second["connection_id"])
    assert first["connection_id"] != second["connection_id"]
    posts = [entry for entry in log.entries if "http_request_id" in entry]
    assert len({entry["http_request_id"] for entry in posts}) == len(posts)
    if era == "modern":
        (post,) = (entry for entry in posts if entry["http_request_id"] == first["connection_id"])
        assert (post["principal"], post["client_address"]) == ("ada", "127.0.0.1")
    assert "a-token" not in str(log.entries)


@pytest.mark.parametrize("plain", [True, False])
async def test_what_an_authors_function_logs_says_in_which_call(log: Lines, plain: bool) -> None:
    registry = Registry("shop")

    async def buy(item: str) -> None:
        logging.getLogger("shop").info("Selling", extra={"item": item})

    def sell(item: str) -> None:
        logging.getLogger("shop").info("Selling", extra={"item": item})

    registry.add_tool(sell if plain else buy, name="trade")
    async with connect(registry, client_info=Implementation("host", "1.0")) as client:
        for item in ("lamp", "chair"):
            await client.call_tool("trade", {"item": item})
    lines = [entry for entry in log.entries if entry["logger"] == "shop"]
    assert [(line["tool"], line["item"]) for line in lines] == [
        ("trade", "lamp"),
        ("trade", "chair"),
    ]
    for line, call in zip(lines, log.calls(), strict=True):
        for key in ("request_id", "connection_id", "principal", "client"):
            assert line[key] == call[key]
    assert lines[0]["request_id"] != lines[1]["request_id"]
    assert "tool" not in entry_of()


async def test_a_call_says_which_span_it_is_of(monkeypatch: pytest.MonkeyPatch, log: Lines) -> None:
    telemetry = collecting(monkeypatch)
    async with connect(registry_of(echo)) as client:
        await client.call_tool("echo", {"text": "hi"})
    (call,) = log.calls()
    served = telemetry.named("tools/call echo", "SERVER")
    assert (call["trace_id"], call["span_id"]) == (trace_id(served), span_id(served.context))


async def test_an_http_request_says_it_too(monkeypatch: pytest.MonkeyPatch, log: Lines) -> None:
    telemetry = collecting(monkeypatch)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(partial(serve_http, registry_of(echo), port=0))
            async with connect(handle.url, list_tools=False):
                pass
            nursery.cancel_scope.cancel()
    (line,) = (entry for entry in log.entries if "http_request_id" in entry)
    assert line["span_id"] == span_id(telemetry.named("POST /mcp", "SERVER").context)


def entry_of(**extra: Any) -> dict[str, Any]:
    record = logging.makeLogRecord({"msg": "hello", "levelname": "INFO", "name": "shop", **extra})
    found: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return found


def test_a_time_has_its_offset() -> None:
    record = logging.makeLogRecord({"msg": "hello", "created": 1_800_000_000.25})
    time = datetime.fromisoformat(json.loads(JsonFormatter().format(record))["time"])
    assert time.utcoffset() is not None
    assert time.timestamp() == 1_800_000_000.25


def test_what_an_author_gives_a_record_is_there() -> None:
    entry = entry_of(order=5, items=["lamp"], by_number={1: "one"}, thing=object)
    assert entry.keys() == {
        *("time", "level", "logger", "message"),
        *("order", "items", "by_number", "thing"),
    }
    assert (entry["order"], entry["by_number"]) == (5, {"1": "one"})


def test_without_a_span_there_are_no_ids() -> None:
    with trace.use_span(trace.INVALID_SPAN):
        assert entry_of().keys() == {"time", "level", "logger", "message"}
