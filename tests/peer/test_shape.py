"""The shape of a connection: reader, dispatcher, writer and all calls, in one nursery."""

from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import registry_of, wait
from trio_mcp import connect

TASKS = {f"trio_mcp.peer.connection.Connection.{each}" for each in ("_read", "_dispatch", "_write")}


def nurseries(task: trio.lowlevel.Task) -> Iterator[list[trio.lowlevel.Task]]:
    """The tasks of each nursery below a task."""
    for nursery in task.child_nurseries:
        yield list(nursery.child_tasks)
        for child in nursery.child_tasks:
            yield from nurseries(child)


def connections() -> list[list[str]]:
    """The names of the tasks in each nursery that has a reader, a dispatcher and a writer."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    names = [[each.name for each in tasks] for tasks in nurseries(root)]
    return [each for each in names if set(each) >= TASKS]


@pytest.mark.requirement("A0")
async def test_calls_are_tasks_beside_the_three_of_their_connection() -> None:
    async with serving(registry_of(wait)) as (client, _):
        first = await client.start("wait", seconds=100)
        await client.start("wait", seconds=100)
        await wait_all_tasks_blocked()
        (names,) = connections()
        assert names.count("Tool wait") == 2

        await client.cancel(first)
        await wait_all_tasks_blocked()
        (names,) = connections()
        assert names.count("Tool wait") == 1
    assert connections() == []


@pytest.mark.requirement("A0", "D1")
async def test_both_sides_of_a_connection_in_memory_have_that_shape() -> None:
    async with connect(registry_of(wait)) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "wait", {"seconds": 100})
        await wait_all_tasks_blocked()
        assert sorted(names.count("Tool wait") for names in connections()) == [0, 1]
        nursery.cancel_scope.cancel()
    assert connections() == []
