"""Clients of registries with extensions, by every way, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.support import served as over_stream
from tests.extensions import later
from tests.extensions.later import LATER
from tests.features.ways import patience
from tests.support.client import RawClient, serving
from tests.support.processes import python
from tests.transports.http.sockets import served as over_http
from trio_mcp import Client, Handlers, Registry, connect

DECLARED: dict[str, Any] = {"elicitation": {}, "extensions": {LATER: {}}}
ADDED = (later.CHANGED, later.EMPTIED, later.NUDGED, "later")

each_era = pytest.mark.parametrize("era", ["modern", "legacy"])
each_way = pytest.mark.parametrize(
    ("way", "era"),
    [
        (way, era)
        for way in ("in-process", "stream", "stdio", "http")
        for era in ("modern", "legacy")
    ],
)


async def say_blue(params: dict[str, Any]) -> dict[str, Any]:
    """What a user answers to any question."""
    return {"action": "accept", "content": {"value": "blue"}}


BLUE = Handlers(elicitation=say_blue)


@asynccontextmanager
async def client_of(
    registry: Registry, way: str, era: Any, *, program: Any = later, **options: Any
) -> AsyncIterator[Client]:
    """A client of a registry; a process serves a registry of its own, that of a program."""
    options = {"handlers": BLUE, "era": era, **options}
    with patience():
        if way == "in-process":
            async with connect(registry, **options) as client:
                yield client
        elif way == "stream":
            async with over_stream(registry, **options) as client:
                yield client
        elif way == "http":
            async with over_http(registry) as server:
                async with connect(server.handle.url, **options) as client:
                    yield client
        else:
            async with connect(python(Path(program.__file__)), **options) as client:
                yield client


@asynccontextmanager
async def raw(
    registry: Registry, revision: str, capabilities: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[RawClient]:
    """A raw client in memory; every message is judged by the official schema."""
    way = serving(registry, revision=revision, shake_hands=False, **options)
    async with way as (client, _):
        client.capabilities = DECLARED if capabilities is None else capabilities
        client.added = ADDED
        await client.initialize()
        yield client
