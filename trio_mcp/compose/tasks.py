"""Tasks of servers elsewhere, for the callers whose calls they were.

A task belongs to the caller that began it. So it has an id of ours, which leads to its server and
to its id there, and which is good for that caller alone.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

import trio
from attrs import frozen

from trio_mcp.client.extension import ClientExtension
from trio_mcp.compose.calls import owner_of
from trio_mcp.loggers import logger_of
from trio_mcp.registry import Context
from trio_mcp.registry.extension import ExtensionMethod, ExtensionRequest, ExtensionSubscription
from trio_mcp.server.extension import ExtensionServing, ServerExtension
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.errors import INVALID_PARAMS, McpError, ToolError
from trio_mcp.wire.extensions import TASKS
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import Method
from trio_mcp.wire.shares import one_that_goes

logger = logger_of("trio_mcp.compose")

_METHODS: Final = tuple(
    Method(name=name, target="taskId", era="modern", repeatable=True)
    for name in ("tasks/get", "tasks/update", "tasks/cancel")
)
_FINAL: Final = ("completed", "failed", "cancelled")
_SHORTEST: Final = 0.1
_LONGEST: Final = 60.0
"""Seconds between two questions of how a task is doing, whatever its server says."""

Send = Callable[[str, dict[str, Json]], Awaitable[dict[str, Json]]]
"""Sends a request about a task to its server, and returns the result."""


class KnowsTasks(ClientExtension):
    """Declares to a server that this side supports tasks (a `ClientExtension`)."""

    identifier = TASKS
    era = "modern"

    def methods(self) -> Sequence[Method]:
        return _METHODS


@frozen
class _Task:
    """A task of a server elsewhere."""

    id: str
    principal: str | None
    """For whom alone it is good."""
    owner: str
    """To whose share it counts."""
    send: Send
    busy: ClassVar = False


class PassedTasks(ServerExtension):
    """Passes requests about tasks on to the servers that have them.

    Args:
        limit: How many tasks are known at most. Then the owner who has the most loses the oldest.
    """

    identifier = TASKS
    era = "modern"

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._tasks: dict[str, _Task] = {}
        self._followed: set[tuple[ExtensionServing, str]] = set()

    def adopt(self, result: Mapping[str, Json], context: Context, send: Send) -> dict[str, Json]:
        """Return a server's result for a caller, with an id of ours for its task."""
        owner = owner_of(context)
        if len(self._tasks) >= self._limit:
            evicted = one_that_goes(owner, self._tasks.values())
            del self._tasks[next(id for id, task in self._tasks.items() if task is evicted)]
        id = secrets.token_hex(16)
        self._tasks[id] = _Task(str(result.get("taskId")), context.principal, owner, send)
        return {**result, "taskId": id}

    # -- what it adds ---------------------------------------------------------------------

    def methods(self) -> Sequence[ExtensionMethod]:
        return [ExtensionMethod(row=row, handler=self._pass_on) for row in _METHODS]

    def subscriptions(self) -> Sequence[ExtensionSubscription]:
        return [
            ExtensionSubscription(
                key="taskIds",
                notification="notifications/tasks",
                params=self._told,
                accept=self._accept,
            )
        ]

    @asynccontextmanager
    async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[ExtensionServing]:
        yield serving

    async def _pass_on(self, request: ExtensionRequest) -> dict[str, Json]:
        id = request.params.get("taskId")
        task = self._find(id, request.principal)
        kept = {key: value for key, value in request.params.items() if key != "_meta"}
        result = await task.send(request.method, {**kept, "taskId": task.id})
        return {**result, "taskId": id} if "taskId" in result else result

    def _find(self, id: Json, principal: str | None) -> _Task:
        """Find a task of a caller's. The error is the same whether it exists or not."""
        task = self._tasks.get(id) if isinstance(id, str) else None
        if task is None or task.principal != principal:
            why = "Task not found: it never was, is not yours, or has expired"
            raise McpError(INVALID_PARAMS, why)
        return task

    # -- following --------------------------------------------------------------------------

    async def _accept(self, request: ExtensionRequest, ids: Sequence[str]) -> Collection[str]:
        known, caller = self._tasks, request.principal
        mine = [id for id in ids if id in known and known[id].principal == caller]
        serving: ExtensionServing = request.state
        for id in mine:
            if (serving, id) not in self._followed:
                self._followed.add((serving, id))
                serving.nursery.start_soon(self._follow, serving, id)
        return mine

    async def _told(self, request: ExtensionRequest, id: str | None) -> dict[str, Json] | None:
        try:
            task = self._find(id, request.principal)
            return {**await task.send("tasks/get", {"taskId": task.id}), "taskId": id}
        except (McpError, ToolError):
            return None

    async def _follow(self, serving: ExtensionServing, id: str) -> None:
        """Poll a task until it has ended, or no client wants to know, and report each change."""
        last: Any = None
        try:
            while id in self._tasks and serving.is_watched("taskIds", id):
                task = self._tasks[id]
                try:
                    now = await task.send("tasks/get", {"taskId": task.id})
                except ToolError:  # its server is away, and may come back
                    await trio.sleep(_LONGEST)
                    continue
                seen = (now.get("status"), now.get("lastUpdatedAt"), now.get("statusMessage"))
                if seen != last:
                    last = seen
                    serving.changed("taskIds", id)
                if now.get("status") in _FINAL:
                    break
                await trio.sleep(_pause(now.get("pollIntervalMs")))
        except McpError as error:
            logger.debug("A task is not followed any more: %s", error)
        finally:
            self._followed.discard((serving, id))


def _pause(milliseconds: Json) -> float:
    wanted = milliseconds if is_number(milliseconds) else 1000
    return min(max(wanted / 1000, _SHORTEST), _LONGEST)
