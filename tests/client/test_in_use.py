"""A stream that is in use already: nobody else gets it, and nobody who has it is disturbed."""

import ssl
from contextlib import suppress

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.client.support import beside, command, served
from tests.support.tools import echo, registry_of
from trio_mcp import connect, serve_stream
from trio_mcp.errors import AlreadyConnected, NotConnected
from trio_mcp.transports import open_process

pytestmark = pytest.mark.requirement("E5")


async def serve(stream: trio.abc.Stream) -> None:
    await serve_stream(registry_of(echo), stream)


async def refused(target: object) -> None:
    """Connect where somebody is connected already."""
    with pytest.raises(AlreadyConnected, match="in use by another connection"):
        async with connect(target):
            raise AssertionError("it was let in")


async def works(client) -> None:
    assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"


async def test_a_stream_has_one_client_and_the_second_does_not_disturb_it() -> None:
    async with beside(serve) as stream, connect(stream) as client:
        messages = client.messages()
        await refused(stream)
        await works(client)
    assert len([each async for each in messages]) == 1, "nothing of the second was sent"


async def test_a_part_of_a_stream_is_in_use_with_it() -> None:
    async with beside(serve) as stream, connect(stream) as client:
        await refused(trio.StapledStream(stream.send_stream, memory_stream_pair()[0]))
        await refused(trio.StapledStream(memory_stream_pair()[0], stream.receive_stream))
        await refused(trio.SSLStream(stream, ssl.create_default_context(), server_hostname="x"))
        await works(client)


async def test_a_socket_is_one_whatever_is_put_around_it() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        stream = await trio.testing.open_stream_to_socket_listener(listeners[0])
        async with connect(stream) as client:
            await refused(trio.SocketStream(stream.socket))
            await works(client)
        nursery.cancel_scope.cancel()


async def test_a_process_has_one_client() -> None:
    async with open_process(command()) as process, connect(process) as client:
        await refused(process)
        await works(client)


async def test_after_its_block_a_stream_is_free() -> None:
    async with open_process(command()) as process:
        async with connect(process):
            pass
        with pytest.raises(NotConnected):  # it has been closed, and that is what is told
            async with connect(process):
                pass


async def test_connecting_to_what_is_served_does_not_disturb_its_client() -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, theirs)
        async with connect(ours) as client:
            await refused(theirs)
            with pytest.raises(trio.BusyResourceError, match="another connection"):
                await serve_stream(registry_of(echo), ours)
            await works(client)


async def test_a_stream_that_another_task_reads_is_refused_with_the_same_error() -> None:
    ours, _ = memory_stream_pair()

    async def read() -> None:
        with suppress(trio.ClosedResourceError):  # what `connect` is given is closed in any case
            await ours.receive_some()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        with pytest.raises(AlreadyConnected, match="another task"):
            async with connect(ours):
                raise AssertionError("it was let in")


@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_a_connection_is_entered_once(over) -> None:
    async with beside(serve) as stream:
        connection = connect(stream if over == "stream" else registry_of(echo))
        async with connection as client:
            with pytest.raises(AlreadyConnected, match=r"call connect\(\) again"):
                async with connection:
                    raise AssertionError("it was let in")
            await works(client)
        with pytest.raises(AlreadyConnected):
            await connection.__aenter__()


async def test_a_registry_has_any_number_of_clients() -> None:
    registry = registry_of(echo)
    async with connect(registry) as one, connect(registry) as other, served(registry) as third:
        for client in (one, other, third):
            await works(client)
