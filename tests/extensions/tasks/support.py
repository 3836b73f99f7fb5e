"""Clients of servers with tasks, by every way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.extensions.tasks import jobs
from tests.extensions.ways import client_of as way_to
from tests.support.client import RawClient, serving
from tests.transports.http.support import Host, ModernClient
from trio_mcp import Client, Handlers, Registry
from trio_mcp.extensions.tasks import TaskInfo, TasksClient

DECLARED: dict[str, Any] = {
    "elicitation": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}

each_way = pytest.mark.parametrize("way", ["in-process", "stream", "stdio", "http"])


async def say_blue(params: dict[str, Any]) -> dict[str, Any]:
    """What a person answers to any question."""
    return {"action": "accept", "content": {"value": "blue"}}


async def say_hello(params: dict[str, Any]) -> dict[str, Any]:
    """What a model says."""
    return {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"}


HANDLERS = Handlers(elicitation=say_blue, sampling=say_hello, roots=["file:///home"])


@asynccontextmanager
async def client_of(
    registry: Registry | None, tasks: TasksClient | None, way: str = "in-process", **options: Any
) -> AsyncIterator[Client]:
    """A client of a registry; over stdio, a process serves one of its own."""
    options = {"handlers": HANDLERS, "extensions": [tasks] if tasks else [], **options}
    era = options.pop("era", None)
    async with way_to(registry or jobs.make(), way, era, program=jobs, **options) as client:
        yield client


def http_client(
    host: Host, id: str | None = None, headers: Mapping[str, str] | None = None
) -> ModernClient:
    """A raw client over HTTP; with an id, for requests about that task."""
    named = {} if id is None else {"mcp-name": id}
    client = ModernClient(host, {**(headers or {}), **named}, capabilities=DECLARED)
    client.added = ("task",)
    return client


@asynccontextmanager
async def raw_client(registry: Registry, revision: str = "2026-07-28") -> AsyncIterator[RawClient]:
    """A raw client in memory; every message is judged by the official schema."""
    async with serving(registry, revision=revision, shake_hands=False) as (client, _):
        client.capabilities = DECLARED
        client.added = ("notifications/tasks", "task")
        await client.initialize()
        yield client


async def until(tasks: TasksClient, id: str, *statuses: str) -> TaskInfo:
    """Wait until a task has one of these statuses."""
    while True:
        task = await tasks.get(id)
        if task.status in statuses:
            return task
        await trio.sleep(0.01)
