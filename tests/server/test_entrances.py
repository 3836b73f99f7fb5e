"""What somebody is told who comes in the wrong way."""

import asyncio
from functools import partial

import pytest
from trio.testing import memory_stream_pair

from tests.support.tools import echo, registry_of
from trio_mcp import connect, handle_message, http_app, serve, serve_http, serve_stream

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.requirement("A1", "D2")
@pytest.mark.parametrize("wrong", [None, "registry", dict])
async def test_what_is_no_registry_is_refused_with_what_to_do(wrong):
    _, stream = memory_stream_pair()
    for call in (
        partial(serve, wrong),
        partial(serve_stream, wrong, stream),
        partial(serve_http, wrong),
        partial(handle_message, wrong, PING),
    ):
        with pytest.raises(TypeError, match=r"a Registry is needed, not .*: make one with"):
            await call()
    with pytest.raises(TypeError, match=r"a Registry is needed, not .*: make one with"):
        http_app(wrong)


async def connecting():
    async with connect(registry_of(echo)):
        raise AssertionError


async def running():
    async with registry_of(echo).running():
        raise AssertionError


OUTSIDE = {
    "serve": lambda: serve(registry_of(echo)),
    "serve_stream": lambda: serve_stream(registry_of(echo), object()),
    "serve_http": lambda: serve_http(registry_of(echo)),
    "handle_message": lambda: handle_message(registry_of(echo), PING),
    "Registry.call": lambda: registry_of(echo).call("echo", {"text": "x"}),
    "Registry.running": running,
    "connect": connecting,
}


@pytest.mark.requirement("A1", "B12", "E1")
@pytest.mark.parametrize("loop", ["asyncio", "none"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_of_trio_it_is_said_what_to_do(name, loop):
    with pytest.raises(RuntimeError, match=rf"^{name} runs on Trio: call it from .* trio\.run"):
        if loop == "asyncio":
            asyncio.run(OUTSIDE[name]())
        else:
            OUTSIDE[name]().send(None)
