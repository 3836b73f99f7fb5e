"""A JSON-RPC connection: a nursery with a reader, a writer, and a task for each call.

The reader cuts the input into messages and deals with each as it comes: what can be answered at
once is answered at once, in order; what takes time becomes a call. So many calls run at the same
time, further ones wait in a queue, and the reader goes on reading, because a cancellation may
come next. It pauses only when too much waits to be run or to be written.

A call has one cancel scope, with its deadline. Whatever ends the call (its result, an error, the
deadline, the peer's cancellation, the end of the connection), there is one place that takes its
answer and hands it to the writer.

The connection ends when the input ends, when the output breaks, or when `stop` is called. Then
calls get some grace, are cancelled and answered, and what is answered is written for a bounded
time. Nothing outlives `run`.
"""

import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, Protocol

import trio

from trio_mcp.peer.asking import Asking
from trio_mcp.peer.exchange import BatchAnswer, Call, Cause, Exchange, SteadyBack
from trio_mcp.peer.outbox import Outbox, SendNowait
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_REQUEST, McpError
from trio_mcp.wire.framing import Frame, LineDecoder, Oversized
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Json,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    error_line,
)
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.oversize import answer_oversized, megabytes

logger = logging.getLogger("trio_mcp")

_CHUNK_BYTES: Final = 65536
_LEAST_CALL_BYTES: Final = 1024
"""A waiting call counts at least this much, for what it occupies besides its message."""

_DUPLICATE: Final = McpError(INVALID_REQUEST, "Invalid request: this id is already in use")
_STOPPING: Final = McpError(INTERNAL_ERROR, "Server is shutting down")
_IO_ERRORS: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class Handler(Protocol):
    """Who deals with what comes in on one connection."""

    def begin(self, request: Request, in_batch: bool) -> bytes | Call:
        """Answer a request at once, or return the call that will."""

    def notified(self, notification: Notification) -> None:
        """Take note of a notification."""

    def malformed(self, message: Malformed, line: bytes) -> bytes | None:
        """Return the answer to what is no message, if it deserves one."""


class Connection(SteadyBack):
    """One connection over a byte stream.

    Args:
        stream: Where bytes come from and go to. `run` does not close it.
        handler: Who answers.
        limits: The bounds to keep.
        send_nowait: The stream's way to send without waiting, if it has one.
        other_side: What the other side is called in the log.
        on_line: Shown each line as it comes.
        on_drain: Called when the connection stops taking requests.
        on_stuck: Called with the labels of calls that ignore their cancellation, after everything
            else has been done. Trio cannot abandon a task: without it, `run` waits for them.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        handler: Handler,
        limits: Limits,
        *,
        send_nowait: SendNowait | None = None,
        other_side: str = "Client",
        on_line: Callable[[bytes], None] | None = None,
        on_drain: Callable[[], None] = lambda: None,
        on_stuck: Callable[[list[str]], None] = lambda labels: None,
    ) -> None:
        self.id = secrets.token_hex(4)
        self._stream = stream
        self._handler = handler
        self._limits = limits
        self._other_side = other_side
        self._on_line = on_line
        self._on_drain = on_drain
        self._on_stuck = on_stuck
        self._outbox = Outbox(limits.max_outgoing_bytes, send_nowait)
        self._open: dict[str | int, Exchange] = {}
        self._waiting: OrderedDict[str | int, Exchange] = OrderedDict()
        self._waiting_bytes = 0
        self._free_slots = limits.max_concurrent_calls
        self._changed = trio.lowlevel.ParkingLot()  # less waits, or nothing is open
        self._watcher = trio.lowlevel.ParkingLot()
        self._deadline_moved = self._look_again  # one object for all exchanges
        self._watcher_wakes = inf
        self._reading = trio.CancelScope()
        self._writing = trio.CancelScope(shield=True)
        self.asking = Asking(self._outbox)
        """Our own requests to the other side."""
        self._now = 0.0  # when the chunk came that is being dealt with
        self._draining = False
        self.ended_by = "EOF"
        """What ends it: `EOF`, `output closed` or `stopped`."""

    # -- life -----------------------------------------------------------------------------

    async def run(self, *beside: Callable[[], Awaitable[object]]) -> None:
        """Serve the connection until it ends.

        Args:
            *beside: What else to run meanwhile; it is cancelled at the end.

        Cancelled, it cancels its calls without answering them, still writes what was answered
        for at most `Limits.flush_timeout` seconds, and raises `trio.Cancelled`.
        """
        async with trio.open_nursery() as io:
            io.start_soon(self._write)
            io.start_soon(self._watch_deadlines)
            io.start_soon(self.asking.watch)
            for each in beside:
                io.start_soon(each)
            try:
                async with trio.open_nursery() as self._calls:
                    with self._reading:
                        await self._read()
                    self.asking.end(self.ended_by)
                    before = self._outbox.sent
                    await self._drain()
            finally:
                self._draining = True
                self.asking.end(self.ended_by)
                await self._flush()
                self._writing.cancel()
                io.cancel_scope.cancel()
        logger.info(
            "%s disconnected (%s), flushed %d responses, dropped %d responses",
            self._other_side,
            self.ended_by,
            self._outbox.sent - before,
            self._outbox.dropped,
            extra={"connection_id": self.id},
        )

    def stop(self) -> None:
        """Take no more requests, let running calls finish within the grace, and end `run`."""
        self._end("stopped")

    def _end(self, why: str) -> None:
        if not self._draining:
            self._draining = True
            self.ended_by = why
            self._reading.cancel()

    async def _drain(self) -> None:
        self._draining = True
        self._on_drain()
        grace = {
            "EOF": self._limits.eof_grace,
            "stopped": self._limits.shutdown_grace,
        }.get(self.ended_by, 0.0)
        for exchange in list(self._open.values()):
            if exchange.call.long_lived:
                self._cancel(exchange, Cause.SHUTDOWN)
        if await self._idle_within(grace):
            return
        for exchange in list(self._open.values()):
            self._cancel(exchange, Cause.SHUTDOWN)
        if await self._idle_within(self._limits.cancel_patience):
            return
        stuck = [each for each in self._open.values() if not each.answered]
        for exchange in stuck:
            self._answer_for(exchange)
        await self._flush()
        self._outbox.close()  # those who still wait for room in it give up
        labels = [each.call.label for each in stuck if each.id in self._open]
        if labels:
            self._on_stuck(labels)

    async def _idle_within(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            while self._open:
                await self._changed.park()
        return not self._open

    async def _flush(self) -> None:
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + self._limits.flush_timeout
            await self._outbox.wait_empty()

    async def _write(self) -> None:
        with self._writing:
            try:
                await self._outbox.write_to(self._stream)
            except _IO_ERRORS:
                self._end("output closed")

    # -- reading --------------------------------------------------------------------------

    async def _read(self) -> None:
        decoder = LineDecoder(self._limits.max_message_bytes)
        chunk: bytes | bytearray = b"\n"
        while chunk:
            try:
                chunk = await self._stream.receive_some(_CHUNK_BYTES)
            except _IO_ERRORS:
                chunk = b""
            self._now = trio.current_time()
            for frame in decoder.feed(chunk) if chunk else decoder.close():
                self._accept(frame)
                if self._outbox.full or self._waiting_bytes > self._limits.max_waiting_bytes:
                    await self._relief()
            self._answers_are_ready()

    async def _relief(self) -> None:
        """Wait until less is pending."""
        await self._outbox.wait_for_room()
        while self._waiting_bytes > self._limits.max_waiting_bytes:
            await self._changed.park()

    def _accept(self, frame: Frame) -> None:
        if isinstance(frame, bytes):
            if self._on_line is not None:
                self._on_line(frame)
            message = decode(frame, self._limits.max_batch)
            if isinstance(message, Request):  # most of them, by the shortest way
                self._on_request(message, len(frame), None)
            elif isinstance(message, Response):
                self._on_response(message)
            elif message is not None:
                self._dispatch(message, frame)
        elif isinstance(frame, Oversized):
            self._dispatch(answer_oversized(frame), frame.head)
        else:
            logger.warning("Request exceeded size limit: %s", megabytes(frame.size))

    def _dispatch(self, message: Message, line: bytes, batch: BatchAnswer | None = None) -> None:
        if isinstance(message, Request):
            self._on_request(message, len(line), batch)
        elif isinstance(message, Notification):
            self._on_notification(message)
        elif isinstance(message, Malformed):
            self._deliver(self._handler.malformed(message, line), batch)
        elif isinstance(message, Batch):
            self._on_batch(message, line)
        else:
            self._on_response(message)

    def _on_batch(self, batch: Batch, line: bytes) -> None:
        if len(batch.messages) > self._limits.max_batch:
            why = f"Invalid request: a batch holds at most {self._limits.max_batch} messages"
            self._deliver(error_line(UNKNOWN_ID, McpError(INVALID_REQUEST, why)), None)
            return
        wanted = sum(1 for each in batch.messages if isinstance(each, Request | Malformed))
        answer = BatchAnswer(wanted)
        for message in batch.messages:
            self._dispatch(message, line, answer)

    def _on_request(self, request: Request, size: int, batch: BatchAnswer | None) -> None:
        if request.id in self._open:
            self._deliver(error_line(request.id, _DUPLICATE), batch)
        elif self._draining:
            self._deliver(error_line(request.id, _STOPPING), batch)
        else:
            answer = self._handler.begin(request, batch is not None)
            if isinstance(answer, bytes):
                self._deliver(answer, batch)
                return
            exchange = Exchange(
                request.id, answer, batch, size, back=self, on_deadline=self._deadline_moved
            )
            self._open[request.id] = exchange
            if self._free_slots or answer.long_lived:
                self._start(exchange)
            else:
                self._waiting[request.id] = exchange
                self._waiting_bytes += max(size, _LEAST_CALL_BYTES)

    def _on_notification(self, notification: Notification) -> None:
        if notification.method != "notifications/cancelled":
            self._handler.notified(notification)
            return
        id = notification.params.get("requestId")
        exchange = self._open.get(id) if id.__class__ in (str, int) else None
        if exchange is not None:
            logger.debug("Request cancelled by the peer: %s", exchange.call.label)
            self._cancel(exchange, Cause.PEER)
        else:  # it may be about a request of ours
            self._handler.notified(notification)

    def _on_response(self, response: Response) -> None:
        if not self.asking.answered(response):
            logger.debug("An answer came to no request of ours")

    # -- the way back (`Back`) ------------------------------------------------------------

    async def say(self, line: bytes) -> None:
        """Send a notification, once there is room."""
        if self._outbox.full:
            await self._outbox.put(line)
        else:
            self._outbox.put_nowait(line)
        self._outbox.wake()

    def say_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""
        self._outbox.put_nowait(line)
        self._outbox.wake()

    async def ask(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        """Send a request, and return its result. Raises as `Asking.ask` does."""
        return await self.asking.ask(method, params, deadline)

    def hang_up(self) -> None:
        """Do nothing: a connection that is given up does not come back."""

    # -- calls ----------------------------------------------------------------------------

    def _start(self, exchange: Exchange) -> None:
        call = exchange.call
        if not call.long_lived:
            self._free_slots -= 1
        exchange.started = self._now
        deadline = self._now + call.timeout
        exchange.scope = scope = trio.CancelScope(deadline=deadline)
        due = deadline + self._limits.cancel_patience
        if due < self._watcher_wakes:  # it stays so, or each short call would wake the watcher
            self._watcher_wakes = due
            self._watcher.unpark_all()
        self._calls.start_soon(self._run_call, exchange, scope, name=call.label)

    def _start_waiting(self) -> None:
        self._now = trio.current_time()
        while self._waiting and self._free_slots:
            id = next(iter(self._waiting))
            self._start(self._no_longer_waiting(id))

    def _no_longer_waiting(self, id: str | int) -> Exchange:
        exchange = self._waiting.pop(id)
        self._waiting_bytes -= max(exchange.size, _LEAST_CALL_BYTES)
        return exchange

    async def _run_call(self, exchange: Exchange, scope: trio.CancelScope) -> None:
        try:
            try:
                line = await exchange.call.run(exchange, scope)
            except Exception:  # a mistake of ours: it must not end the other calls
                logger.exception("Internal error in %s", exchange.call.label)
                line = error_line(exchange.id, McpError(INTERNAL_ERROR, "Internal error"))
            if not exchange.answered:
                exchange.answered = True
                if exchange.batch is not None:
                    line = exchange.batch.add(line)
                if line is not None:
                    if self._outbox.full:
                        await self._outbox.put(line)
                    else:
                        self._outbox.put_nowait(line)
        finally:
            if not exchange.call.long_lived:
                self._free_slots += 1
            self._close_call(exchange)
            self._answers_are_ready()

    def _close_call(self, exchange: Exchange) -> None:
        del self._open[exchange.id]
        if self._waiting:
            self._start_waiting()
            self._changed.unpark_all()
        elif not self._open:
            self._changed.unpark_all()

    def _answers_are_ready(self) -> None:
        """Write at once if no other answer is about to come, else let a few come together."""
        if self._open:
            self._outbox.wake()
        else:
            self._outbox.flush()

    def _cancel(self, exchange: Exchange, cause: Cause) -> None:
        exchange.cancel(cause)
        if cause is Cause.PEER:  # nobody waits for an answer, so there is none to wait for
            self._answer_for(exchange)
        if exchange.id in self._waiting:  # it never ran, so nobody else will answer it
            self._no_longer_waiting(exchange.id)
            self._answer_for(exchange)
            self._close_call(exchange)

    def _answer_for(self, exchange: Exchange) -> None:
        """Answer a call that does not do so itself."""
        if not exchange.answered:
            line = exchange.call.unfinished(exchange)
            exchange.answered = True
            self._deliver(line, exchange.batch)
            self._outbox.wake()

    def _deliver(self, line: bytes | None, batch: BatchAnswer | None) -> None:
        if batch is not None:
            line = batch.add(line)
        if line is not None:
            self._outbox.put_nowait(line)

    async def _watch_deadlines(self) -> None:
        """Answer calls that go on after their deadline although they were cancelled."""
        patience = self._limits.cancel_patience
        while True:
            with trio.move_on_at(self._watcher_wakes) as sleep:
                await self._watcher.park()
            if not sleep.cancelled_caught:
                continue
            now = trio.current_time()
            for exchange, scope in self._running():
                if scope.deadline + patience <= now:
                    logger.error("%s goes on after its time limit", exchange.call.label)
                    self._answer_for(exchange)
            deadlines = [scope.deadline for _, scope in self._running()]
            self._watcher_wakes = min(deadlines, default=inf) + patience

    def _look_again(self) -> None:
        """Have the watcher look at all deadlines."""
        self._watcher_wakes = -inf
        self._watcher.unpark_all()

    def _running(self) -> list[tuple[Exchange, trio.CancelScope]]:
        return [
            (each, each.scope)
            for each in self._open.values()
            if not each.answered and each.cause is None and each.scope is not None
        ]
