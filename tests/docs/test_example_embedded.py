"""The print shop: a server that is a part of a larger program, seen over HTTP and from within."""

import importlib.util
import signal
from types import ModuleType
from typing import Any

import orjson
import pytest
import trio

from tests.support.processes import EXAMPLES, TIME_LIMIT, Server, python, running
from trio_mcp import Client, Registry, ResourceNotFound, ResourceUpdated, ServerState, connect
from trio_mcp.client.changes import ChangeStream
from trio_mcp.client.negotiation import Era
from trio_mcp.errors import InvalidArguments

PROGRAM = EXAMPLES / "embedded.py"
ALL = "shop://jobs"

both_eras = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture
def example() -> ModuleType:
    """The program, as a module."""
    spec = importlib.util.spec_from_file_location("embedded", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def order(client: Client, title: str, pages: int) -> int:
    result = await client.call_tool("order", {"title": title, "pages": pages})
    assert result.structured_content is not None
    number = result.structured_content.pop("number")
    assert result.structured_content == {"title": title, "pages": pages, "printed": 0}
    return int(number)


async def read(client: Client, uri: str) -> Any:
    return orjson.loads((await client.read_resource(uri)).text)


async def follow(client: Client, changes: ChangeStream, number: int) -> list[int]:
    """Watch a job until it is done; return how many pages were seen on the way."""
    seen = []
    while True:
        job = await read(client, f"{ALL}/{number}")
        seen.append(job["printed"])
        if job["printed"] == job["pages"]:
            return seen
        assert await anext(changes) == ResourceUpdated(f"{ALL}/{number}")


async def next_line(program: Server) -> str:
    """What the program prints next."""
    assert program.process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        line += await program.process.stdout.receive_some(1)
    return line.decode().rstrip()


@both_eras
async def test_clients_use_the_shop_and_hear_of_its_work(
    example: ModuleType, era: Era, autojump_clock: trio.testing.MockClock
) -> None:
    shop = example.PrintShop(seconds_per_page=60)
    with trio.fail_after(3600):  # of the clock that jumps
        await use(shop, example.make_registry(shop), era)


async def use(shop: Any, registry: Registry, era: Era) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.run)
        async with connect(registry, era=era) as client:
            assert await read(client, ALL) == []
            shop.order("Ours", 2)
            poster = await order(client, "Poster", 3)
            assert await order(client, "Last", 1) == 3
            async with client.subscribe(resources=[f"{ALL}/{poster}"]) as changes:
                assert await follow(client, changes, poster) == [0, 1, 2, 3]
            assert trio.current_time() == 180
            assert await read(client, ALL) == [
                {"number": number, "title": title, "pages": pages, "printed": pages}
                for number, title, pages in ((1, "Ours", 2), (2, "Poster", 3), (3, "Last", 1))
            ]
            with pytest.raises(ResourceNotFound):
                await client.read_resource(f"{ALL}/4")
            with pytest.raises(InvalidArguments, match="at most 500"):
                await order(client, "Too much", 501)
        shop.close()


async def test_the_shop_closes_in_order(example: ModuleType) -> None:
    """First the server, then the printers, and what was taken on is done."""
    shop = example.PrintShop(seconds_per_page=0)
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(example.open_shop, shop, 0)
            async with connect(server.url) as client:
                async with client.subscribe(resources=[ALL]) as changes:
                    await order(client, "Book", 500)
                    server.stop()
                    async for _ in changes:
                        pass  # until the server ends the subscription, in good order
            await server.wait_for(ServerState.STOPPED)
        assert [job.printed for job in shop.jobs.values()] == [500]
        with pytest.raises(trio.ClosedResourceError):
            shop.order("Too late", 1)
        assert len(shop.jobs) == 1


@pytest.mark.long
@pytest.mark.parametrize(("era", "number"), [("modern", signal.SIGTERM), ("legacy", signal.SIGINT)])
async def test_as_a_program(era: Era, number: signal.Signals) -> None:
    async with running(python(PROGRAM, "0")) as program:
        opened, _, url = (await next_line(program)).rpartition(" ")
        assert opened == "Open at"
        async with connect(url, era=era) as client:
            poster = await order(client, "Poster", 1)
            async with client.subscribe(resources=[f"{ALL}/{poster}"]) as changes:
                assert (await follow(client, changes, poster))[-1] == 1
            await order(client, "Leaflet", 2)
        program.signal(number)
        said = [await next_line(program), await next_line(program)]
        assert said == ["Closed", "3 pages printed"]
        assert await program.exit() == 0
    assert program.stderr == b""


@pytest.mark.long
async def test_a_second_signal_ends_the_program_at_once() -> None:
    async with running(python(PROGRAM, "0")) as program:
        async with connect((await next_line(program)).split()[-1]) as client:
            await order(client, "Book", 500)
        program.signal(signal.SIGTERM)
        assert await next_line(program) == "Closed"
        program.signal(signal.SIGTERM)
        assert await program.exit() == -signal.SIGTERM
