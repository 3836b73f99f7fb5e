"""A Trio run and an event loop, each in its own thread, and what crosses from one to the other.

Functions are posted in either direction. What waits for the other side is known here, so that the
end of either side can let go of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, Final

import trio

Message = Callable[[], object]


class Mailbox:
    """Functions to be called in another thread, in order, with one wake-up for each burst."""

    def __init__(self, wake: Callable[[Message], object]) -> None:
        self._wake = wake
        self._messages: deque[Message] = deque()
        self._is_woken = False

    def put(self, message: Message) -> None:
        """Add a function. If the other side has ended, it is dropped."""
        self._messages.append(message)
        if not self._is_woken:  # looked at after the append, as `empty` looks for more at the end
            self._is_woken = True
            with suppress(RuntimeError):
                self._wake(self.empty)

    def empty(self) -> None:
        """Call all that were added. None of these functions may raise.

        At the end, when nothing runs there, two threads may do this at a time.
        """
        self._is_woken = False
        while (message := self._take()) is not None:
            message()

    def _take(self) -> Message | None:
        try:
            return self._messages.popleft()
        except IndexError:
            return None


class LoopWaker(trio.abc.Instrument):
    """Wakes an event loop: from within a Trio run, once before the run waits.

    Each wake-up hands the interpreter over to the loop's thread, so what tasks have to tell it
    goes there together.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_within = False
        self._empty: Message | None = None

    def wake(self, empty: Message) -> None:
        if self._is_within:
            self._empty = empty
        else:
            self._loop.call_soon_threadsafe(empty)

    def begin(self) -> None:
        """Wait with each wake-up for the run that this is called in, until `end`."""
        self._is_within = True
        trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        empty, self._empty = self._empty, None
        if empty is not None:
            with suppress(RuntimeError):  # the loop may have ended
                self._loop.call_soon_threadsafe(empty)

    def end(self) -> None:
        """Wait no more: the run has ended."""
        self._is_within = False
        self.before_io_wait(0)


class Crossing:
    """Both directions between a Trio run and an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_copy = False
        """Whether this process is a fork of the one that has the threads."""
        self._token: trio.lowlevel.TrioToken | None = None
        self._to_trio = Mailbox(self._wake_trio)
        self.waker: Final = LoopWaker(loop)
        self._to_loop = Mailbox(self.waker.wake)
        self.is_over = False
        """Whether one of the threads has ended."""
        self.is_orphan = False
        """Whether its loop runs no more, so that nothing can be expected of it (`give_up`)."""
        self.waiting: Final[set[Any]] = set()
        """On Trio's side, the calls that wait for asyncio (`LoopCall`)."""
        self.cancelled: Final[set[Any]] = set()
        """Those of them that were cancelled."""
        self.is_ending = False
        """Whether the end of the loop is not to wait for what is cancelled."""

    # -- asyncio's side -------------------------------------------------------------------

    def post(self, message: Message) -> None:
        """Call a function in the Trio run, soon. It must not raise."""
        if self.is_over or not self.is_copy:
            self._to_trio.put(message)
        if self.is_over:  # looked at after that, as what ends empties it again when it is over
            self._to_trio.empty()

    def future(self) -> asyncio.Future[None]:
        return self._loop.create_future()

    def create_task(self, work: Coroutine[Any, Any, None], context: Context) -> asyncio.Task[None]:
        return self._loop.create_task(work, context=context)

    # -- Trio's side ----------------------------------------------------------------------

    def start_soon(self, nursery: trio.Nursery, task: Callable[[], Awaitable[object]]) -> bool:
        """Start a task in a nursery of the run; return false if that is closed."""
        if self.is_over:  # so this is called in some other thread, and Trio would say nothing clear
            return False
        try:
            nursery.start_soon(task)
        except RuntimeError:
            return False
        return True

    def tell(self, message: Message) -> None:
        """Call a function in the event loop, soon. It must not raise."""
        self._to_loop.put(message)

    def give_up(self) -> None:
        """Take the loop to have ended, and what waits for it to have failed."""
        self.is_orphan = True
        for call in list(self.waiting):
            call.give_up()

    def prepare_end(self) -> None:
        """Have the end of the loop not wait for what was cancelled, or is from now on."""
        self.is_ending = True
        for call in self.cancelled:
            self.tell(call.detach)

    async def let_go(self, patience: float) -> None:
        """Wait so many seconds for what was cancelled in asyncio, and then no longer."""
        ignoring = set(self.cancelled)
        if ignoring:
            await trio.sleep(patience)
        for call in ignoring & self.cancelled:
            call.let_go()

    def _wake_trio(self, empty: Message) -> None:
        token = self._token
        if token is not None:
            token.run_sync_soon(empty)


current_crossing: Final[trio.lowlevel.RunVar[Crossing | None]] = trio.lowlevel.RunVar(
    "trio_mcp.aio", None
)
"""In a Trio run that has an event loop beside it: the way there."""


asgi_scope: Final[ContextVar[Mapping[str, Any] | None]] = ContextVar("asgi_scope", default=None)
"""In a request that an ASGI server has brought: its scope."""


def resolve(future: asyncio.Future[None]) -> None:
    """Finish a future, unless it was cancelled meanwhile."""
    if not future.done():
        future.set_result(None)


async def settled(future: asyncio.Future[None]) -> None:
    """Wait for a future that is bound to be done soon; raise a cancellation only then."""
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
