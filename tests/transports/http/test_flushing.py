"""At the end of a server: what was logged and measured has gone out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from logging.handlers import MemoryHandler
from types import SimpleNamespace
from typing import Any

import opentelemetry.trace
import pytest
import trio

from tests.support.tools import echo, registry_of
from tests.transports.http.sockets import TIME_LIMIT, served
from trio_mcp import Limits, serve_http

pytestmark = pytest.mark.requirement("F5")


class Kept(logging.Handler):
    """Where records end up."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def buffered(caplog: pytest.LogCaptureFixture) -> Iterator[Kept]:
    """What has left a handler that keeps records back until it is flushed."""
    caplog.set_level(logging.INFO, "trio_mcp.http")
    handler = MemoryHandler(10_000, flushLevel=logging.CRITICAL, target=(kept := Kept()))
    logger = logging.getLogger("trio_mcp.http")
    logger.addHandler(handler)
    yield kept
    logger.removeHandler(handler)
    handler.close()


async def test_the_log_is_flushed_and_ends_with_the_last_counts(buffered: Kept) -> None:
    async with served(registry_of(echo)) as server:
        await server.ask(server.call("echo", text="hi"))
        await server.ask(server.call("echo", text=5))
        assert not buffered.records
    last: Any = buffered.records[-1]
    assert last.getMessage().endswith("has stopped, after 2 calls, of which 1 failed")
    _, _, samples = last.metrics["mcp_http_requests_total"]
    assert samples == {"mcp_http_requests_total": {"": 2}}


def provider_with(force_flush: Callable[[int], object]) -> Any:
    """A provider of traces, of which this is all that matters."""
    tracers = opentelemetry.trace.NoOpTracerProvider()
    return SimpleNamespace(force_flush=force_flush, get_tracer=tracers.get_tracer)


async def serve_and_stop(**limits: float) -> None:
    registry = registry_of(echo)
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[Any]) -> None:
                options = {"own_process": True, "limits": Limits(**limits)}  # type: ignore[arg-type]
                await serve_http(registry, port=0, task_status=task_status, **options)  # type: ignore[arg-type]

            (await nursery.start(serve)).stop()


async def test_a_process_of_its_own_has_telemetry_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    provider = provider_with(times.append)
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
    await serve_and_stop(flush_timeout=1.5)
    assert times == [1500]


async def test_an_exporter_that_hangs_does_not_keep_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()
    provider = provider_with(lambda _: over.wait())
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
    await serve_and_stop(flush_timeout=0.01)
    over.set()
