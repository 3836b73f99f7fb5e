"""Tasks of several instances: the store of the server is theirs, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import client_of, http_client
from tests.store.contents import values_of
from tests.transports.http.fleet import fleet
from tests.transports.http.support import Host
from trio_mcp import http_app
from trio_mcp.errors import LifespanError
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("M2", "K3")


async def ask(host: Host, method: str, id: str, **params: Any) -> Any:
    """Ask an instance about a task."""
    return await http_client(host, id).request(method, {"taskId": id, **params})


async def ended(host: Host, id: str) -> Any:
    while (answer := await ask(host, "tasks/get", id))["result"]["status"] == "working":
        pass
    return answer["result"]


async def test_a_task_is_known_at_all_instances() -> None:
    async with fleet(make) as those:
        here, there, elsewhere = those.hosts
        task = (await http_client(here).call("add", a=1, b=2))["result"]
        found = await ended(there, task["taskId"])
        assert found["result"]["structuredContent"] == 3
        asking = (await http_client(there).call("paint", thing="door"))["result"]["taskId"]
        while not (shown := await ask(here, "tasks/get", asking))["result"].get("inputRequests"):
            pass
        blue = {"action": "accept", "content": {"value": "blue"}}
        answers = dict.fromkeys(shown["result"]["inputRequests"], blue)
        await ask(elsewhere, "tasks/update", asking, inputResponses=answers)
        found = await ended(here, asking)
        assert found["result"]["content"][0]["text"] == "door is blue"


async def test_a_task_is_cancelled_from_any_instance() -> None:
    gate = Gate()
    async with fleet(lambda: make(gate)) as those:
        task = (await http_client(those.hosts[0]).call("wait"))["result"]["taskId"]
        await gate.has_begun(1)
        assert (await ask(those.hosts[1], "tasks/cancel", task))["result"]["resultType"]
        await gate.has_ended(1)
        assert (await ended(those.hosts[2], task))["status"] == "cancelled"


async def test_a_store_of_its_own_goes_first() -> None:
    store = MemoryStore()
    async with fleet(lambda: make(store=store)) as those:
        task = (await http_client(those.hosts[0]).call("add", a=1, b=2))["result"]["taskId"]
        assert (await ended(those.hosts[1], task))["status"] == "completed"
        assert [key for key in values_of(store) if key.endswith(task)]
        assert not [key for key in values_of(those.store) if key.endswith(task)]


async def test_tasks_of_one_process_are_not_served_by_several() -> None:
    app = http_app(make(store="memory:"), store=MemoryStore())
    with pytest.raises(LifespanError, match="leave the store out"):
        async with app.running():
            pass


async def test_what_was_opened_without_the_store_is_not_served_with_it() -> None:
    registry = make()
    app = http_app(registry, store=MemoryStore())
    async with registry.running():
        with pytest.raises(RuntimeError, match="give it a store of its own"):
            async with app.running():
                pass
    async with make(store=MemoryStore()).running():  # it has one
        pass


async def test_what_is_served_beside_it_does_not_share_its_store() -> None:
    ours = TasksClient()
    async with fleet(make) as those, client_of(make(name="others"), ours):
        task = (await ours.start("add", {"a": 1, "b": 2})).id
        assert (await ours.result(task)).text == "3"
        assert not [key for key in values_of(those.store) if key.endswith(task)]
