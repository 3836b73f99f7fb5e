"""Tasks on the client's side: following those of calls, and finding tasks by their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

import trio

from trio_mcp import CallResult, Client, McpError
from trio_mcp.errors import CannotReach, ClientError, ConnectionLost, HttpError, ProtocolError
from trio_mcp.extending import ClientExtension, Method, PendingCall, offload
from trio_mcp.extensions.tasks.info import TaskInfo
from trio_mcp.extensions.tasks.options import CANCEL, CHANGED, FILTER, GET, TASKS, UPDATE
from trio_mcp.public import public_in

_LAST_WORD: Final = 5.0
"""Seconds that it may take to cancel a task on the server."""

_OUTAGE: Final = 60.0
"""Seconds for which a server over HTTP may be away, such as to be restarted."""

_MOST_STREAMS: Final = 32
"""Tasks that are subscribed to at once: over HTTP each takes a connection, and others only poll."""

_MOST_ASKED: Final = 1024 * 1024
"""Characters of the names of all questions of one task; each counts as `_EACH` more."""
_EACH: Final = 64

Ask = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
Report = Callable[[TaskInfo], None]

_starting: ContextVar[bool] = ContextVar("starting", default=False)


@public_in("trio_mcp.extensions.tasks")
class TasksClient(ClientExtension):
    """Has the server make tasks of calls that take long (SEP-2663). Make one for each connection.

    `Client.call_tool` returns the final result, as ever: it polls the task as often as the server
    wants, hears of its changes, and has your `Handlers` answer the task's questions. `tool_timeout`
    is for calls that are not tasks; a task may take any time, unless the call has a `timeout`. If
    the call is cancelled, the task is.

    While it is connected, this object finds tasks by their ids, such as after a restart.

    Args:
        on_created: Called with the id of each task, and the name of its tool, before anything else
            is done with it: keep them if you want to find the tasks after a crash. It must not
            wait.

    Example:
        >>> tasks = TasksClient()
        >>> async with connect("https://films.example/mcp", extensions=[tasks]) as client:
        ...     film = await client.call_tool("render", {"film": "Metropolis"})
        ...     id = (await tasks.start("render", {"film": "M"})).id
        ...     other = await tasks.result(id)
    """

    identifier = TASKS
    era = "modern"
    subscriptions = (FILTER,)

    def __init__(self, *, on_created: Callable[[str, str], object] | None = None) -> None:
        self.result_types = {"task": ("tools/call",)}
        self._on_created = on_created
        self._client: Client | None = None
        self._listeners: dict[str, list[_Listener]] = {}
        self._streams: set[object] = set()

    # -- what it adds ----------------------------------------------------------------------------

    def methods(self) -> Sequence[Method]:
        return [GET, UPDATE, CANCEL]

    def notifications(self) -> Mapping[str, Callable[[dict[str, Any]], object]]:
        return {CHANGED: self._hear}

    @asynccontextmanager
    async def lifespan(self, client: Client) -> AsyncIterator[None]:
        self._client = client
        try:
            yield
        finally:
            self._client = None

    async def finish(self, call: PendingCall, result: dict[str, Any]) -> dict[str, Any]:
        task = TaskInfo.from_wire(result)
        if self._on_created is not None:
            self._on_created(task.id, str(call.params.get("name")))
        if _starting.get():
            return result

        async def ask(questions: Mapping[str, Any]) -> dict[str, Any]:
            try:
                return await call.answer(questions)
            except Exception:  # the caller gets it, and the result is not wanted any more
                await self._give_up(task.id)
                raise

        try:
            return (await self._follow(task, ask, _reporter(call))).final()
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled, perhaps within a nursery, as a group
                await self._give_up(task.id)
            raise

    # -- for users ------------------------------------------------------------------------------

    async def start(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> TaskInfo:
        """Call a tool, and do not wait for its result if it is a task.

        Args:
            name: The tool's name.
            arguments: Its arguments.
            meta: What to put into the request's `_meta`.

        Returns:
            The task. If the server has not made one, but answered at once, its `id` is empty and
            its `outcome` is the result.

        Raises:
            McpError: The server refused.
            ClientError: As for `Client.request`.

        If cancelled, so is the request, but there may be a task already.
        """
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
        if meta is not None:
            params["_meta"] = dict(meta)
        token = _starting.set(True)
        try:
            wire = await self._connected().request("tools/call", params)
        finally:
            _starting.reset(token)
        if wire.get("resultType") == "task":
            return TaskInfo.from_wire(wire)
        return TaskInfo(id="", status="completed", outcome=wire)

    async def get(self, id: str) -> TaskInfo:
        """Return the state of a task. A server over HTTP may be away meanwhile, for up to a minute.

        Raises:
            McpError: There is no such task (`-32602`), or it has expired.
            ClientError: As for `Client.request`.
        """
        waited = trio.current_time()
        while True:
            try:
                wire = await self._connected().request(GET.name, {"taskId": id})
            except (CannotReach, ConnectionLost, HttpError) as error:
                refused = isinstance(error, HttpError) and error.status < 500
                if refused or trio.current_time() - waited > _OUTAGE:
                    raise
                await trio.sleep(1)
            else:
                return TaskInfo.from_wire(wire)

    async def wait(self, id: str) -> TaskInfo:
        """Wait until a task has ended, as `result` does, and return its last state.

        Raises:
            McpError: There is no such task (`-32602`).
            ClientError: As for `Client.request`.
        """
        return await self._follow(await self.get(id), self._connected().answer, None)

    async def result(self, id: str) -> CallResult:
        """Wait for the result of a task. What it asks is answered by the `Handlers`.

        Raises:
            McpError: The task has failed or was cancelled, or there is none (`-32602`).
            ProtocolError: Its result is not one of a tool.
            ClientError: As for `Client.request`.

        If cancelled, the task goes on.
        """
        task = await self.wait(id)
        try:
            return await offload(CallResult.from_wire, task.final())
        except ValueError as error:
            raise ProtocolError(f"the result of task {id:.100} is not MCP: {error}") from None

    async def cancel(self, id: str) -> None:
        """Have the server end a task. If it has ended already, nothing happens.

        Raises:
            McpError: There is no such task (`-32602`).
            ClientError: As for `Client.request`.
        """
        await self._connected().request(CANCEL.name, {"taskId": id})

    # -- following --------------------------------------------------------------------------

    def _connected(self) -> Client:
        if self._client is None:
            raise RuntimeError(
                "no server with tasks is connected: give this object to connect(extensions=[...]), "
                f"and see whether {TASKS!r} is in client.extensions"
            )
        return self._client

    async def _follow(self, task: TaskInfo, ask: Ask, tell: Report | None) -> TaskInfo:
        """Wait for the end of a task, asking each of its questions once."""
        asked, size = set[str](), 0
        client = self._connected()
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(self._listening(task.id))
            if not task.is_final and len(self._streams) < _MOST_STREAMS:
                await self._subscribe(stack, task.id)
                task = await self.get(task.id)  # it may have changed before that
            while not task.is_final:
                if tell is not None:
                    tell(task)
                fresh = {key: task.questions[key] for key in task.questions if key not in asked}
                if fresh:
                    asked.update(fresh)
                    size += sum(len(key) + _EACH for key in fresh)
                    if size > _MOST_ASKED:
                        await self._give_up(task.id)
                        raise ProtocolError(f"task {task.id:.100} asks without end")
                    answers = await ask(fresh)
                    params: dict[str, Any] = {"taskId": task.id, "inputResponses": answers}
                    await client.request(UPDATE.name, params)
                update = None if fresh else await listener.wait(task.poll_interval)
                task = update or await self.get(task.id)
        return task

    async def _subscribe(self, stack: AsyncExitStack, id: str) -> None:
        """Subscribe to a task, if the server has subscriptions."""
        mark = object()
        self._streams.add(mark)
        stack.callback(self._streams.discard, mark)
        with suppress(McpError, ClientError):  # without one, polling must do
            await stack.enter_async_context(self._connected().subscribe(extensions={FILTER: [id]}))

    @contextmanager
    def _listening(self, id: str) -> Iterator[_Listener]:
        listener = _Listener()
        self._listeners.setdefault(id, []).append(listener)
        try:
            yield listener
        finally:
            self._listeners[id].remove(listener)
            if not self._listeners[id]:
                del self._listeners[id]

    def _hear(self, params: dict[str, Any]) -> None:
        id = params.get("taskId")
        listeners = self._listeners.get(id) if isinstance(id, str) else None
        if listeners:
            task = TaskInfo.from_wire(params)
            for listener in listeners:
                listener.hear(task)

    async def _give_up(self, id: str) -> None:
        """Cancel a task, if the server can be reached."""
        with trio.move_on_after(_LAST_WORD, shield=True):
            with suppress(McpError, ClientError):
                await self.cancel(id)


class _Listener:
    def __init__(self) -> None:
        self._update: TaskInfo | None = None
        self._heard = trio.lowlevel.ParkingLot()

    def hear(self, task: TaskInfo) -> None:
        self._update = task
        self._heard.unpark_all()

    async def wait(self, seconds: float) -> TaskInfo | None:
        """Wait for news; return `None` when so many seconds have passed."""
        with trio.move_on_after(seconds):
            while self._update is None:
                await self._heard.park()
        update, self._update = self._update, None
        return update


def _reporter(call: PendingCall) -> Report | None:
    """Make a function that reports a task's progress; its messages, counted, where it has none."""
    on_progress = call.on_progress
    if on_progress is None:
        return None
    count, last = 0, None

    def tell(task: TaskInfo) -> None:
        nonlocal count, last
        newest = task.progress or task.message
        if newest not in (None, last):
            count, last = count + 1, newest
            on_progress(*(task.progress or (count, None, task.message)))

    return tell
