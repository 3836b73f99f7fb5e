"""Tasks on the server's side: the extension, and its methods."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, Final

import trio
from attrs import Attribute, define, field

from trio_mcp import McpError
from trio_mcp.background import background_nursery
from trio_mcp.checks import bound, check_number
from trio_mcp.extending import (
    ExtensionMethod,
    ExtensionRequest,
    ExtensionServing,
    ExtensionSubscription,
    ServerExtension,
    offload,
)
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.extensions.tasks.kept import Bound, Found, KeptTasks, NoRoom, NoTask, owner_key
from trio_mcp.extensions.tasks.options import CANCEL, CHANGED, FILTER, GET, TASKS, UPDATE
from trio_mcp.extensions.tasks.options import TaskOptions as Options
from trio_mcp.extensions.tasks.record import Record
from trio_mcp.extensions.tasks.run import INTERNAL_ERROR, Host
from trio_mcp.extensions.tasks.slots import Slots
from trio_mcp.extensions.tasks.worker import Worker
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.store.errors import StoreError, StoreFull
from trio_mcp.store.exact import dumps
from trio_mcp.store.opening import check_store, opened
from trio_mcp.store.protocol import StoreLike

logger = logger_of("trio_mcp.tasks")

INVALID_PARAMS: Final = -32602
TOO_MANY: Final = -32000
_ID_BYTES: Final = 16
_ID: Final = re.compile(rf"[0-9a-f]{{{2 * _ID_BYTES}}}")

_MOST_ANSWERED: Final = 2 * 1024 * 1024
"""Bytes of answers in one update: they are read again with the record, on every occasion."""

_LOOK: Final = 60.0
"""Seconds after which it is seen whether a task has subscribers still."""

_may_continue: ContextVar[bool] = ContextVar("may_continue", default=False)


class _Continue(BaseException):  # no `except Exception` of the author's is meant
    """The tool goes on as a task."""


@public_in("trio_mcp.extensions.tasks")
async def continue_as_task() -> None:
    """Go on as a task, where the tool is declared with `TaskOptions(at_once=False)`.

    Until then the call is an ordinary one, which may also end without having become a task. The
    task runs the tool from its beginning. What was asked so far is answered from memory then, so
    ask first, call this, and begin the work after it.

    Where there cannot be a task, because the client has not declared the extension or because there
    is one already, this does nothing. Do not catch what it raises, nor call it in a nursery.

    Example:
        >>> async def convert(context: Context) -> str:
        ...     kind = await context.elicit("Into what?", str)
        ...     await continue_as_task()
        ...     return await work_for_an_hour(kind.value)
    """
    await trio.lowlevel.checkpoint()
    if _may_continue.get():
        raise _Continue


@define(eq=False)
class _Serving:
    """The state of one registry while it is served."""

    kept: KeptTasks
    worker: Worker
    serving: ExtensionServing
    nursery: trio.Nursery
    followed: set[str] = field(factory=set)


def _is_share(_: object, attribute: Attribute[Any], value: Any) -> None:
    check_number(attribute.alias or "", value)
    if value > 1:
        raise ValueError(f"{attribute.alias} is a part of 1, so at most 1, not {value!r}")


@public_in("trio_mcp.extensions.tasks")
@define(eq=False, repr=False, kw_only=True)
class Tasks(ServerExtension):
    """Lets calls of tools outlive their connection, and their process (SEP-2663).

    A tool that is registered with `task=True` (or `task=TaskOptions(...)`) runs as a task if its
    client has declared the extension, and as ever if not. Tasks are of the modern era only.

    Args:
        store: Where tasks are kept: a path or URL, as for `open_store`, or a store that is open.
            Without one they are in the store that the instances of the server share, by
            `serve_http(store=...)` or as workers; if it shares none, in memory, and end with the
            process. Processes that share a store, and serve registries of the same name, share the
            tasks.
        ttl: Seconds for which a task is kept, from its creation; `inf` forever. It is ended when
            they have passed.
        poll_interval: Seconds for which a client waits before it asks again for a task's state.
        max_running: How many tasks run at once in this process; three quarters of them may be one
            owner's. Those that wait for answers do not count.
        max_queued: How many tasks may be unfinished, in all processes; further ones are refused.
        max_result_bytes: The largest result, as JSON. A larger one fails the task.
        max_kept_bytes: Bytes of calls, answers and results that are kept, of all tasks, and 1.5 KiB
            more for each; half of them of those that are made in a time of `ttl`. Beyond that,
            further tasks and answers are refused, and tasks whose results have no room fail.
        owner_share: The part of `max_queued` and `max_kept_bytes` that one owner may have: a
            principal, or without tokens an address. Over stdio and within a process there is but
            one owner, who may have all.
        lease: Seconds after which the tasks of a process that died are run by another one, or fail.
            A process that is stopped for longer loses its tasks.

    Raises:
        ValueError: A number is not what it must be; the message says what that is.
        TypeError: The store is none.

    Example:
        >>> registry = Registry("films", extensions=[Tasks(store="sqlite:///tasks.db")])
        >>> @registry.tool(task=True)
        ... async def render(film: str) -> str:
        ...     return await an_hour_of_work(film)
    """

    identifier = TASKS
    era = "modern"
    wraps = ("tools/call",)
    result_types = ("task",)

    _store: StoreLike | None = field(default=None, repr=False)
    _ttl: float = field(default=86_400.0, validator=bound())
    _poll_interval: float = field(default=1.0, validator=bound(finite=True))
    _max_running: int = field(default=16, validator=bound(whole=True, finite=True))
    _max_queued: int = field(default=1000, validator=bound(whole=True))
    _max_result_bytes: int = field(default=8 * 1024 * 1024, validator=bound(whole=True))
    _max_kept_bytes: int = field(default=1024 * 1024 * 1024, validator=bound(whole=True))
    _owner_share: float = field(default=0.1, validator=_is_share)
    _lease: float = field(default=30.0, validator=bound(finite=True))

    def __attrs_post_init__(self) -> None:
        if self._store is not None:
            check_store(self._store)

    # -- what it adds --------------------------------------------------------------------------

    def methods(self) -> Sequence[ExtensionMethod]:
        handlers = {GET: self._get, UPDATE: self._update, CANCEL: self._cancel}
        return [ExtensionMethod(row=row, handler=handler) for row, handler in handlers.items()]

    def subscriptions(self) -> Sequence[ExtensionSubscription]:
        return [
            ExtensionSubscription(
                key=FILTER, notification=CHANGED, params=self._details, accept=self._accept
            )
        ]

    def check_option(self, kind: str, name: str, value: Any) -> Options:
        """Take `True` or options, on a tool."""
        if kind == "tool" and value is True:
            return Options()
        if kind == "tool" and isinstance(value, Options):
            return value
        raise ValueError(f"only tools are tasks, with True or TaskOptions(...), not {value!r:.60}")

    @asynccontextmanager
    async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[_Serving]:
        async with opened(self._store_for(serving)) as store:
            # Not the nursery of `serving`: what runs there would outlive the store.
            async with background_nursery() as nursery:
                kept = KeptTasks(
                    store,
                    serving.registry.name,
                    Bound.shared(self._max_queued, self._owner_share),
                    Bound.shared(self._max_kept_bytes / 2, self._owner_share),
                    lambda status: serving.count("tasks", status=status),
                )
                host = Host(
                    kept,
                    serving,
                    Slots(self._max_running),
                    lease=self._lease,
                    pause=self._poll_interval,
                    most_bytes=self._max_result_bytes,
                )
                worker = Worker(host, nursery)
                nursery.start_soon(worker.run)
                nursery.start_soon(host.new_runs.watch)
                yield _Serving(kept, worker, serving, nursery)

    @property
    def shares(self) -> bool:  # type: ignore[override]  # of most, it is an attribute
        """Whether tasks are in the store of the server."""
        return self._store is None

    def _store_for(self, serving: ExtensionServing) -> StoreLike:
        if self._store is None:
            return serving.store or "memory:"
        if serving.store is not None and str(self._store).lower().startswith("memory:"):
            raise ValueError(
                "with Tasks(store='memory:'), other instances and workers do not know the tasks: "
                "leave the store out, so that they are in the one that is shared"
            )
        return self._store

    # -- calls ------------------------------------------------------------------------------

    async def around(
        self, request: ExtensionRequest, proceed: Callable[[], Awaitable[dict[str, Any]]]
    ) -> Mapping[str, Any]:
        """Answer a call with a task, if its tool is one and its client knows of tasks."""
        options: Options | None = request.option
        if options is None:
            return await proceed()
        if request.settings is None:
            if options.required:
                request.require()
            return await proceed()
        if not options.at_once:
            result = await _until_it_continues(proceed)
            if result is not None:
                return result
        return await self._create(request, options)

    async def _create(self, request: ExtensionRequest, options: Options) -> dict[str, Any]:
        state: _Serving = request.state
        now, ttl = time.time(), self._ttl if options.ttl is None else options.ttl
        record = Record(
            id=secrets.token_hex(_ID_BYTES),
            owner=request.principal,
            created=now,
            updated=now,
            ttl=None if ttl == inf else ttl,
            poll_interval=self._poll_interval,
            answers=dict(request.answers),
        )
        call = KeptCall.of(request, options)
        owner = owner_key(request.principal or request.context.client_address or "")
        host = state.worker.host
        lease = self._lease if await host.slots.take_soon(owner) else None
        made = None
        try:
            made = await state.kept.create(record, call, owner, lease=lease)
        except NoRoom as error:
            raise McpError(TOO_MANY, str(error)) from None
        except StoreFull as error:
            raise _unavailable("There is no room for another task", error) from None
        except StoreError as error:
            raise _unavailable("The task cannot be stored now", error) from None
        finally:
            if lease is not None and made is None:
                host.slots.release(owner)
        claim, found = made
        run = state.worker.leave if lease is None else state.worker.begin
        run(claim, call, found)
        return record.seed()

    # -- methods ----------------------------------------------------------------------------

    async def _get(self, request: ExtensionRequest) -> dict[str, Any]:
        return (await _find(request, request.params.get("taskId"))).record.details()

    async def _update(self, request: ExtensionRequest) -> dict[str, Any]:
        answers = request.params.get("inputResponses")
        if not isinstance(answers, dict):
            raise McpError(INVALID_PARAMS, "Invalid params: inputResponses must be an object")
        if len(await offload(dumps, answers)) > _MOST_ANSWERED:
            text = f"Invalid params: inputResponses has more than {_MOST_ANSWERED:,} bytes"
            raise McpError(INVALID_PARAMS, text)
        return await _move(request, lambda kept, id: kept.answer(id, answers, time.time()))

    async def _cancel(self, request: ExtensionRequest) -> dict[str, Any]:
        return await _move(request, lambda kept, id: kept.cancel(id, time.time()))

    # -- subscriptions ----------------------------------------------------------------------

    async def _accept(self, request: ExtensionRequest, ids: Sequence[str]) -> Collection[str]:
        """Accept the caller's own tasks, and no others."""
        state: _Serving = request.state
        mine = []
        for id in dict.fromkeys(ids):
            try:
                found = await _find(request, id)
            except McpError as error:
                if error.code != INVALID_PARAMS:
                    raise
            else:
                mine.append(id)
                if id not in state.followed:
                    state.followed.add(id)
                    state.nursery.start_soon(_follow, state, id, found.version)
        return mine

    async def _details(self, request: ExtensionRequest, id: str | None) -> dict[str, Any] | None:
        try:
            return (await _find(request, id)).record.details()
        except McpError:
            return None


async def _until_it_continues(
    proceed: Callable[[], Awaitable[dict[str, Any]]],
) -> dict[str, Any] | None:
    token = _may_continue.set(True)
    try:
        return await proceed()
    except _Continue:
        return None
    finally:
        _may_continue.reset(token)


async def _find(request: ExtensionRequest, id: Any) -> Found:
    """Find a task of the caller's. For any other the answer is that there is none."""
    if not isinstance(id, str):
        raise McpError(INVALID_PARAMS, "Invalid params: taskId must be a string")
    state: _Serving = request.state
    none = McpError(INVALID_PARAMS, "Task not found: it never was, is not yours, or has expired")
    if not _ID.fullmatch(id):
        raise none
    try:
        found = await state.kept.find(id)
    except NoTask:
        raise none from None
    except StoreError as error:
        raise _unavailable("The task cannot be looked up now", error) from None
    if found.record.owner != request.principal:
        raise none
    return found


async def _move(
    request: ExtensionRequest, write: Callable[[KeptTasks, str], Awaitable[None]]
) -> dict[str, Any]:
    """Move a task of the caller's on, and acknowledge the request."""
    record = (await _find(request, request.params.get("taskId"))).record
    state: _Serving = request.state
    try:
        await write(state.kept, record.id)
    except NoTask:
        pass  # its time was over between the two; it needs nothing more
    except NoRoom as error:
        raise McpError(TOO_MANY, str(error)) from None
    except StoreError as error:
        raise _unavailable("The task cannot be changed now", error) from None
    return {}


def _unavailable(text: str, error: Exception) -> McpError:
    logger.error("%s: %s", text, error)
    return McpError(INTERNAL_ERROR, f"{text}; try again later")


async def _follow(state: _Serving, id: str, version: int) -> None:
    """Notify subscribers of a task's changes, whichever process runs it.

    That is until its end, or until all of them have left, which is seen now and then.
    """
    last: int | None = version
    try:
        while last is not None and state.serving.is_watched(FILTER, id):
            last = await _report(state, id, last)
    except NoTask:
        pass
    except StoreError as error:  # its clients still ask how it is
        logger.warning("Task %s is not followed any more: %s", id, error)
    finally:
        state.followed.discard(id)


async def _report(state: _Serving, id: str, version: int) -> int | None:
    """Notify subscribers of changes, as long as there are some.

    Returns:
        The version that they know; `None` once the task has ended.

    Raises:
        NoTask: Its time is over.
        StoreError: The store cannot be used.
    """
    async with state.kept.store.watch(state.kept.key("task", id)) as news:
        while state.serving.is_watched(FILTER, id):
            found = await state.kept.find(id)
            if found.version != version:
                version = found.version
                state.serving.changed(FILTER, id)
            if found.record.is_final:
                return None
            with trio.move_on_after(min(found.ttl, _LOOK)):
                await news.wait()
    return version
