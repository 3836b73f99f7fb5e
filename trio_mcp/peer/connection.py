"""A JSON-RPC connection: a nursery with a reader, a dispatcher, a writer, and tasks for calls.

The reader waits for lines. Each is made a message and dispatched, as `Inbound` decides: what can be
answered at once is answered at once, in order; what takes time becomes a call in one of the
`CallTasks`. The reader does that by itself, up to the first line that takes waiting. This one, and
what comes after it, goes to the dispatcher, which waits while the reader reads on, so that the end
of the input is noticed. A call that comes alone begins in the reader's task. If it waits, the task
is the call's from then on, and another one reads. The writer sends whatever is ready.

Memory channels join the three, and they are bounded: who cannot put anything into one waits. The
dispatcher goes on while all slots for calls are taken, because a cancellation may come next; it
pauses only when too much waits to be run or to be written. While requests of our own are open it
does not pause because too much waits to be run: the response that a running call needs may come
next. Then it refuses what would have to wait.

The side that asks reads on while its output is full (`reads_on`). Otherwise both sides could wait
forever, each for the other one to read: one with requests, one with responses. A response asks for
nothing more.

The connection ends when the input ends, when the output breaks, or when `stop` is called. Then
calls get some grace, are cancelled and answered, and what is answered is written for a bounded
time. Nothing outlives `run`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final

import trio
from attrs import frozen

from trio_mcp.loggers import logger_of
from trio_mcp.peer.call_tasks import CallTasks
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Handler, Inbound, InboundRequest, Slots
from trio_mcp.peer.lines import IO_ERRORS, LineTransport, OutgoingLines, SendNowait, decoded
from trio_mcp.peer.requests import OutgoingRequests
from trio_mcp.peer.runner import Runner
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.threads import SHORT_JSON, is_large
from trio_mcp.wire.answers import Answer, Reply, Result, id_of_message, reply_line
from trio_mcp.wire.framing import Frame, Oversized
from trio_mcp.wire.jsonrpc import (
    Id,
    Json,
    Message,
    Request,
    Response,
    answer_oversized,
    decode,
    megabytes,
)
from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp")

EOF: Final = "EOF"
OUTPUT_CLOSED: Final = "output closed"
STOPPED: Final = "stopped"

_RESPONSES_AT_ONCE: Final = 32
_REPLY_BYTES: Final = 1024
"""What a reply counts for besides its bytes, while it waits to be written."""
_STANDSTILL: Final = 0.5
"""Seconds without progress after which the end of the input counts, whatever is pending."""


@frozen
class _Rest:
    """Frames that are not dispatched yet, and what has to be waited for before."""

    wait: Callable[[], Awaitable[object]]
    frames: list[Frame]


class Connection(ReplyChannel):
    """One connection, whichever side of it we are.

    Args:
        transport: Where lines come from and go to. `run` does not close it.
        shared_slots: Slots of which each call needs one as well.
        other_side: What the other side is called in the log.
        on_line: Shown each line as it comes.
        on_drain: Called when the connection stops taking requests.
        on_stuck: Called with the labels of calls that ignore their cancellation, after everything
            else has been done. Trio cannot abandon a task: without it, `run` waits for them.
        has_hung_up: Tells whether the input has ended, even if something is left in it.
        is_read_no_more: Tells whether the output is closed at its other end.
        is_held: Whether to dispatch nothing before `begin` is called.
        reads_on: Whether it reads on while the other side reads nothing, as who asks has to. What
            it answers at once meanwhile is bounded, too.
        send_nowait: The transport's way to send without waiting, if it has one.
    """

    cannot_ask = None

    def __init__(
        self,
        transport: LineTransport,
        handler: Handler,
        limits: Limits,
        *,
        shared_slots: Slots | None = None,
        other_side: str = "Client",
        on_line: Callable[[bytes], None] | None = None,
        on_drain: Callable[[], None] = lambda: None,
        on_stuck: Callable[[list[str]], None] = lambda labels: None,
        has_hung_up: Callable[[], bool] | None = None,
        is_read_no_more: Callable[[], bool] | None = None,
        is_held: bool = False,
        reads_on: bool = False,
        send_nowait: SendNowait | None = None,
    ) -> None:
        self.id = secrets.token_hex(8)
        self._transport = transport
        self._limits = limits
        self._other_side = other_side
        self._on_line = on_line
        self._on_drain = on_drain
        self._on_stuck = on_stuck
        slots = Slots(limits.max_concurrent_calls, shared_slots)
        self._changed = trio.lowlevel.ParkingLot()  # less waits, or nothing is open
        self._runner = Runner(limits.cancel_timeout)
        self._lines = OutgoingLines(limits.max_outgoing_bytes, send_nowait)
        self._replied = 0  # bytes of what was replied at once since there was room
        self._max_replied = limits.max_outgoing_bytes if reads_on else 0
        # Rendezvous: what comes in is bounded by the chunk that is dispatched and the next one.
        self._put_frames, self._frames = trio.open_memory_channel[_Rest | None](0)
        self._reading: trio.CancelScope | None = None  # while the reader reads
        self._writing = trio.CancelScope(shield=True)
        self._has_hung_up = has_hung_up
        self._is_read_no_more = is_read_no_more
        self._read_until = inf  # when the input ended
        self._rests = 0  # which the dispatcher has, or is about to get
        self._pause = trio.CancelScope()  # in which the dispatcher waits, if it has to
        self._begun = trio.Event()
        if not is_held:
            self._begun.set()
        self._ending = trio.Event()
        self._dispatched = trio.Event()  # everything that was read
        self.requests = self._make_requests(self._lines)
        """Our own requests to the other side."""
        self._inbound = Inbound(
            handler,
            slots,
            self.requests.respond,
            partial(_look_again, self._changed, self._runner),
            partial(_is_full, self.requests, limits.max_waiting_bytes),
        )
        self.ended_by = EOF
        """What ends it: `EOF`, `output closed` or `stopped`."""

    def _make_requests(self, lines: OutgoingLines) -> OutgoingRequests:
        return OutgoingRequests(lines)

    # -- life -----------------------------------------------------------------------------

    async def run(self, *background: Callable[[], Awaitable[object]]) -> None:
        """Serve the connection until it ends.

        Args:
            *background: What else to run meanwhile; it is cancelled at the end.

        Cancelled, it cancels its calls without answering them, still writes what was answered
        for at most `Limits.flush_timeout` seconds, and raises `trio.Cancelled`.
        """
        async with trio.open_nursery() as nursery:
            self._calls = CallTasks(nursery, self._runner.run_in_call_task)
            self._read_on()
            for task in (self._dispatch, self._write, *background):
                nursery.start_soon(task)
            for watch in (self._runner.watch, self.requests.watch):
                nursery.start_soon(watch)
            sent, stuck = self._lines.sent, []
            try:
                await self._ending.wait()
                sent = self._lines.sent
                stuck = await self._drain()
            finally:
                self._end(STOPPED)  # if it was cancelled, this is how its waiters come to know
                await self._flush()
                self._lines.close()
                self._inbound.close_waiting()  # they may wait for slots that others give back
                nursery.cancel_scope.cancel()
                self._writing.cancel()
            logger.info(
                "%s disconnected (%s), flushed %d responses, dropped %d responses",
                self._other_side,
                self.ended_by,
                self._lines.sent - sent,
                self._lines.dropped,
                extra={"connection_id": self.id},
            )
            if stuck:
                self._on_stuck(stuck)

    def begin(self) -> None:
        """Dispatch what is read, if that was held."""
        self._begun.set()

    def stop(self) -> None:
        """Take no more requests, let running calls finish within the grace, and end `run`."""
        self._end(STOPPED)

    def stop_at_once(self) -> None:
        """The same, without a grace."""
        self.stop()
        self._inbound.cancel_all()

    def _end(self, how: str) -> None:
        if not self._ending.is_set():
            self.ended_by = how
            self._ending.set()
            if self._reading is not None:
                self._reading.cancel()
            self._pause.cancel()
            self._inbound.draining = True
            self.requests.end(how)

    async def _drain(self) -> list[str]:
        self._on_drain()
        grace, now = 0.0, trio.current_time()
        if self.ended_by == STOPPED:
            grace = self._limits.shutdown_grace
        elif self.ended_by == EOF:  # which may be noticed late
            grace = max(0.0, min(self._read_until, now) + self._limits.eof_grace - now)
        return await self._runner.drain(self._inbound, grace)

    async def _flush(self) -> None:
        # Shielded, because what was answered counts, however the connection ends; and bounded.
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + self._limits.flush_timeout
            await self._dispatched.wait()  # after `stop` there may be more of what was read
            await self._lines.wait_empty()

    # -- the three tasks ------------------------------------------------------------------

    async def _read(self, scope: trio.CancelScope) -> None:
        """Read until the input ends, or until a call needs the task: then another one reads on."""
        rest: _Rest | None = None
        with scope:
            while frames := await self._receive():
                if self._rests or not self._begun.is_set():
                    rest = _Rest(self._until_ready, frames)
                else:  # there is mostly nothing to wait for, and the dispatcher may sleep
                    self._calls.hold()
                    rest = self._dispatch_nowait(frames)
                    is_alone = len(self._inbound) == 1 and rest is None
                    reads_on = not self._ending.is_set()  # else a call in here would be cancelled
                    call = self._calls.release(takes_one=is_alone and reads_on)
                    if call is not None:
                        frames = []
                        self._reading = None  # what ends the reading must not end the call
                        if not await self._calls.begin_here(call, self._read_on):
                            return  # it was left to the call
                        del call
                        self._reading = scope
                        if self._ending.is_set():
                            scope.cancel()
                if rest is not None:
                    self._rests += 1
                    await self._put_frames.send(rest)
                    rest = None
                frames = []  # an idle connection keeps nothing of what it read
        self._read_until = now = trio.current_time()
        self._pause.deadline = now + self._standstill
        with self._put_frames:
            if rest is not None:  # it was stopped with these in its hands: all of it is answered
                await self._put_frames.send(rest)

    def _read_on(self) -> None:
        """Have a task read, or another one than before."""
        self._reading = scope = trio.CancelScope()
        if self._ending.is_set():
            scope.cancel()
        self._calls.start_task(self._read, scope)

    async def _receive(self) -> list[Frame]:
        try:
            frames = await self._transport.receive()
        except trio.ClosedResourceError:  # which was our own doing
            return []
        except trio.BrokenResourceError as error:
            self._log(logging.WARNING, f"read error: {error.__cause__ or error!r}")
            return []
        if not frames:
            self._log(logging.INFO, "end of input")
        return frames

    def _log(self, level: int, what: str) -> None:
        logger.log(level, "%s: %s", self._other_side, what, extra={"connection_id": self.id})

    async def _dispatch(self) -> None:
        try:
            async for rest in self._frames:
                while rest is not None:
                    await rest.wait()
                    rest = self._dispatch_nowait(rest.frames)
                self._rests -= 1
            self._end(EOF)  # the reader has left the channel, and what it brought has been seen to
        finally:
            self._dispatched.set()

    def _dispatch_nowait(self, frames: list[Frame]) -> _Rest | None:
        """Dispatch frames until there is something to wait for.

        Returns:
            What is left, and what to wait for before; `None` if there is neither.
        """
        lines, inbound, limits = self._lines, self._inbound, self._limits
        max_batch, max_values = limits.max_batch, limits.max_message_values
        max_waiting = limits.max_waiting_bytes
        others = 0  # than calls: mostly responses, and each wakes who waits for it
        rest = iter(frames)
        for frame in rest:
            if not isinstance(frame, bytes) or (len(frame) >= SHORT_JSON and is_large(frame)):
                return _Rest(partial(self._take_long, frame), [*rest])
            is_call = self._take(decode(frame, max_batch, max_values), frame)
            if inbound.waiting_bytes > max_waiting or (
                lines.full and self._replied >= self._max_replied
            ):
                return _Rest(self._until_ready, [*rest])
            if not is_call:
                others += 1
                if others == _RESPONSES_AT_ONCE and (left := [*rest]):
                    # What those send next is on its way before the rest is seen to. Otherwise each
                    # side would be idle for as long as the other one works.
                    return _Rest(trio.lowlevel.checkpoint, left)
        return None

    async def _write(self) -> None:
        with self._writing:
            try:
                await self._lines.write_to(self._transport)
            except IO_ERRORS:
                self._end(OUTPUT_CLOSED)

    async def _pause_for(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Dispatch nothing more until something has happened, or the connection ends.

        It may never happen, for instance because the other side reads nothing. So once the input
        has ended, and nothing was written for a while, the connection ends.
        """
        while not self._ending.is_set():
            sent = self._lines.sent
            # To look around now and then: at its two ends, and for requests of ours (`_relief`).
            self._pause = trio.CancelScope(deadline=trio.current_time() + self._standstill)
            with self._pause:
                await ready()
                return
            if (
                self._is_read_no_more is not None and self._is_read_no_more()
            ):  # which a write would say, but there is nothing to write
                self._end(OUTPUT_CLOSED)
            elif self._lines.sent == sent and (self._read_until < inf or self._hung_up()):
                self._end(EOF)

    @property
    def _standstill(self) -> float:
        return max(_STANDSTILL, self._limits.eof_grace)

    def _hung_up(self) -> bool:
        if self._has_hung_up is None or not self._has_hung_up():
            return False
        self._log(logging.INFO, "end of input, which is not read to its end")
        return True

    async def _until_ready(self) -> None:
        """Wait until anything may be dispatched."""
        if not self._begun.is_set():
            await self._pause_for(self._begun.wait)
        await self._pause_for(self._relief)

    async def _relief(self) -> None:
        """Wait until less is pending."""
        if self._replied >= self._max_replied:
            await self._lines.wait_for_room()
            self._replied = 0
        while self._inbound.waiting_bytes > self._limits.max_waiting_bytes and not self.requests:
            await self._changed.park()

    # -- what comes in --------------------------------------------------------------------

    def _take(self, message: Message | None, line: bytes) -> bool:
        """Deal with a message. Returns whether it became a call that runs, and nothing else."""
        if self._on_line is not None:
            self._on_line(line)
        if isinstance(message, Request):  # most of them, by the shortest way
            admitted = self._inbound.admit(message, self, len(line))
            if isinstance(admitted, InboundRequest):
                self._start(admitted)
                return admitted.waiting_in is None
            self._reply(message.id, admitted)
        elif isinstance(message, Response):
            message.size = len(line)
            self.requests.respond(message)
        elif message is not None:
            self._take_other(message, line)
        return False

    async def _take_long(self, frame: Frame) -> None:
        """Deal with a frame that is long, or too long, and wait until there may be more."""
        if isinstance(frame, bytes):
            self._take(await decoded(frame, self._limits), frame)
        elif isinstance(frame, Oversized):
            self._take_other(answer_oversized(frame), frame.head)
        else:
            logger.warning("Request exceeded size limit: %s", megabytes(frame.size))
        await self._until_ready()

    def _take_other(self, message: Message, line: bytes) -> None:
        opened, reply = self._inbound.take(message, self, line)
        for request in opened:
            self._start(request)
        if reply is not None:
            self._reply(id_of_message(message), reply)

    def _reply(self, id: Id, reply: Reply) -> None:
        """Reply at once, whether there is room or not."""
        line = reply_line(id, reply)
        if not self._lines.full:
            self._replied = 0
        self._replied += len(line) + _REPLY_BYTES
        self._lines.put_nowait(line)

    def _start(self, request: InboundRequest) -> None:
        if request.has_slots or request.long_lived:
            if request.relay is None or not request.relay(self):
                self._calls.start_soon(request)
        elif request.waiting_in is not None:
            request.start = self._start
        else:  # it was cancelled in the queue, so there is nothing to run
            self.finish(request, request.unfinished())

    # -- for requests that need no task (a `Carrier`) --------------------------------------

    @property
    def now(self) -> Callable[[], float]:
        return self._runner.now

    @property
    def is_full(self) -> bool:
        return self._lines.full

    def finish(self, request: InboundRequest, answer: Answer | None) -> None:
        self._inbound.answer(request, answer)
        if request.reply is not None:
            self._lines.put_nowait(reply_line(request.id, request.reply))
        self._inbound.close(request)

    def run_in_task(self, request: InboundRequest) -> None:
        self._calls.start_soon(request)

    # -- the way back ---------------------------------------------------------------------

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        if reply is not None and overdue:  # there may be no task that could wait for room
            self._lines.put_nowait(reply_line(id, reply))
        elif reply is not None:
            await self._lines.put(reply_line(id, reply))

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        lines = self._lines
        if lines.full:
            return False
        if reply is not None:
            line = reply.line(id) if isinstance(reply, Result) else reply_line(id, reply)
            if lines.pending or len(self._inbound) > 1:  # others may come, and share a write
                lines.put_nowait(line)
            else:
                lines.send_nowait(line)
        return True

    async def send_notification(self, line: bytes) -> None:
        await self._lines.put(line)

    def offer_notification(self, line: bytes) -> bool:
        if self._lines.full:
            return False
        self._lines.put_nowait(line)
        return True

    def send_notification_nowait(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    async def send_request(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        return await self.requests.send(method, params, TimeLimit(deadline))


def _is_full(requests: OutgoingRequests, limit: int, waiting: int) -> bool:
    """Whether what would have to wait for a slot is refused."""
    return waiting > limit and bool(requests)


def _look_again(changed: trio.lowlevel.ParkingLot, runner: Runner) -> None:
    if changed:
        changed.unpark_all()
    runner.look_again()  # a request that never ran may have been the last one
