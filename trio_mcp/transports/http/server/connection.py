"""One connection of a client: requests in, responses out, one after the other.

A single task reads, parses and runs the app; a request costs no task of its own. A second task
(`_listen`) is there only while the client's disconnect must be noticed at once: when a
request has run for a moment (see `watch`), or when the app itself waits for the disconnect. It
reads ahead in place of the first, into the same buffer; there is never more than one reader.

One cancel scope holds all of it. Whatever ends a connection early (a deadline, a disconnect, a
refusal) cancels that scope; what is left to say is said after it. That the client has sent its
last byte counts as a disconnect while a response is due, although it might still be reading:
otherwise a client that waits looks like one that has gone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Final, Literal

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.transports.http.server.asgi import Message, Scope, base_scope
from trio_mcp.transports.http.server.body import Body, body_of
from trio_mcp.transports.http.server.head import Head, HeadReader
from trio_mcp.transports.http.server.pipe import pipe_over
from trio_mcp.transports.http.server.response import Refused, Response, ResponseError
from trio_mcp.transports.http.server.service import LISTEN_AFTER, Service
from trio_mcp.wire.shares import network_of

logger = logger_of("trio_mcp.http")

_WRITE_BYTES: Final = 64 * 1024
"""So many bytes are to be written within one `write_timeout`."""


_Wait = Literal["nothing", "head", "idle", "body", "grace"]
"""What a connection waits for from its client. An enum's members are slow to find."""

_TOO_LATE: Final[dict[_Wait, str]] = {
    "head": "The head of the request did not come in time.",
    "body": "The body of the request did not come in time.",
}


class Connection:
    """A connection and its state."""

    def __init__(self, service: Service, stream: trio.abc.Stream) -> None:
        self.service: Final = service
        self.limits: Final = service.limits
        self.buffer: Final = bytearray()
        self.changed: Final = trio.lowlevel.ParkingLot()
        """Where tasks wait until bytes have come, the client has left or a response ended."""
        self.eof = False
        self.ended = False
        """No further request is answered, and what still runs is cancelled."""
        self._watch = service.watch
        self._stream = stream
        self._pipe = pipe_over(stream)
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._heads = HeadReader(self.limits.max_header_bytes, self.limits.max_headers)
        self._wait: _Wait = "head"
        self._read_deadline = inf
        self._write_deadline = inf
        self._reading = False
        self._writing = False
        self._following = False  # the rest of what was written without waiting
        self._listening = False
        self._head: Head | None = None  # of the current request
        self._body: Body | None = None  # of the current or the last request
        self._exchange: Exchange | None = None  # while the app runs
        self._torn = False  # a response was written in part
        self._last_words: Refused | None = None
        self._base_scope = base_scope(stream, service.root_path)
        self._scoped: Head | None = None  # of which there is all but the headers in it
        client = self._base_scope["client"]
        self.owner: Final = "" if client is None else network_of(client[0])
        """Who has it, as far as the address tells."""
        service.enter(self)

    # Its life --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer requests until the connection ends, for whatever reason, and close it."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    await self._serve()
                    self.end()
            self._nursery = None
            self._read_deadline = self._write_deadline = inf
            with trio.move_on_after(self.limits.linger_timeout):
                await self._part()
        except* trio.BrokenResourceError:
            pass  # the client left while it was being served or seen off
        except* Exception:
            logger.exception("A connection failed.")
        finally:
            self._nursery = None
            self.service.leave(self)
            await trio.aclose_forcefully(self._stream)

    @property
    def idle(self) -> bool:
        """No request runs on it, and nothing of the next one has come."""
        return self._wait in ("idle", "head") and not self.buffer

    @property
    def busy(self) -> bool:
        """Whether a request runs on it, or may be coming: all but the time between two requests."""
        return self._wait != "idle" or bool(self.buffer)

    def drop(self) -> None:
        """End it at once, without a word: there is no room for it."""
        self._torn = True
        self.end()

    def end(self) -> None:
        """Answer no further request, and cancel what still runs."""
        self.ended = True
        self._scope.cancel()

    def refuse(self, refused: Refused) -> None:
        logger.debug("Refused with status %d: %s", refused.status, refused.reason)
        self.service.counters.refused += 1
        self._say_at_last(refused)
        self.end()

    def _say_at_last(self, words: Refused) -> None:
        if self._exchange is None or not self._exchange.response.begun:
            self._last_words = words

    async def _serve(self) -> None:
        try:
            self._read_within(self.limits.header_timeout, "head")
            await self._pipe.open()
            while (head := await self._next_head()) is not None:
                self._head = head
                service = self.service
                if self in service.waiting and head.path not in service.always_served:
                    await service.wait_for_room(self)
                if not await self._answer(head):
                    return
                self._head = None
                if self.buffer:
                    await trio.lowlevel.checkpoint()  # so that a pipeline leaves others their turn
                else:
                    self._read_within(self.limits.idle_timeout, "idle")
        except Refused as refused:
            self.refuse(refused)

    async def _part(self) -> None:
        """Say what is left to say, and close so that the client gets to read it."""
        if self._torn:
            return
        if self._last_words is not None:
            with_body = self._head is None or self._head.method != "HEAD"
            words = self._last_words.response(self.service.date_line(), with_body=with_body)
            await self._pipe.send(memoryview(words))
            self.service.counters.bytes_out += len(words)
        unread = self.buffer or (self._body is not None and not self._body.complete)
        if self._last_words is not None or unread:
            # Closing a socket that still has input would have the kernel throw away what the
            # client has not read yet.
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while not self.eof:
                self.buffer.clear()
                await self.fill()
        await self._pipe.close()

    @property
    def leaving(self) -> bool:
        """Whether it ends with the request that it is answering."""
        service = self.service
        return service.stopping or service.wanted > 0 or self in service.waiting

    # Requests --------------------------------------------------------------------------------

    async def _next_head(self) -> Head | None:
        while True:
            if self.buffer:
                head = self._heads.take(self.buffer)
                if head is not None:
                    self._read_freely()
                    return head
                if self._wait != "head":
                    self._read_within(self.limits.header_timeout, "head")
            if self.eof:
                return None
            await self.fill()

    async def _answer(self, head: Head) -> bool:
        exchange = Exchange(self, head, body_of(head.length, self.service.max_body_bytes))
        self.service.counters.requests += 1
        self._exchange = exchange
        self._body = exchange.body
        self._watch.soon()
        try:
            if not await self._run_app(exchange, head) or not self._may_go_on(exchange):
                return False
            return exchange.body.complete or await exchange.drain()
        finally:
            self._exchange = None
            response = exchange.response
            if self._torn or (response.begun and not response.complete):
                self._torn = True  # and the client must see that
                if response.ended_by_close:
                    self._pipe.tear()

    async def _run_app(self, exchange: Exchange, head: Head) -> bool:
        try:
            await self.service.app(self._scope_of(head), exchange.receive, exchange.send)
        except Exception as error:
            self._app_failed(exchange, head, error)
            return False
        except BaseExceptionGroup as group:
            errors, rest = group.split(Exception)
            if errors is not None:
                self._app_failed(exchange, head, errors)
            try:
                raise rest or group from None
            finally:
                del errors, rest  # a frame that refers to what passes through it makes a cycle
        if not exchange.response.complete and not self.eof and not self.ended:
            early = ResponseError("the app returned before its response was complete")
            self._app_failed(exchange, head, early)
        return exchange.response.complete

    def _may_go_on(self, exchange: Exchange) -> bool:
        no = not exchange.response.keep_alive or self._torn or self.eof or self.ended
        return not no and not self.leaving

    def _app_failed(self, exchange: Exchange, head: Head, error: BaseException) -> None:
        gone = self.eof or self.ended
        level = logging.INFO if gone else logging.ERROR
        when = " after its client had left" if gone else ""
        logger.log(level, "%s %r failed%s.", head.method, head.path, when, exc_info=error)
        self.service.counters.failed += 1
        if not gone:
            self._say_at_last(Refused(500, "The server failed to answer this request."))

    def _scope_of(self, head: Head) -> Scope:
        if head is not self._scoped:
            self._scoped = head
            self._base_scope.update(
                http_version=head.http_version,
                method=head.method,
                path=head.path,
                raw_path=head.raw_path,
                query_string=head.query,
            )
        return {**self._base_scope, "headers": head.headers.copy()}  # which the app may change

    # Reading ---------------------------------------------------------------------------------

    async def fill(self) -> None:
        """Wait until there is more in the buffer, or the client has left.

        It may return for nothing, when the task that did the reading is cancelled: who needs
        more bytes calls it again.
        """
        if self._reading:
            await self.changed.park()
            return
        self._reading = True
        try:
            data = await self._pipe.receive()
        finally:
            self._reading = False
            if self.changed:
                self.changed.unpark_all()
        if data:
            self.buffer.extend(data)
            self.service.counters.bytes_in += len(data)
        else:
            self._client_left()

    async def fill_within(self, seconds: float) -> None:
        self._read_within(seconds, "body")
        try:
            await self.fill()
        finally:
            if self._wait == "body":
                self._read_freely()

    def listen(self) -> None:
        """Read ahead for the rest of the request, so that a disconnect is noticed at once."""
        if not self._listening and self._should_listen() and self._nursery is not None:
            self._listening = True
            self._nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        try:
            while self._should_listen():
                await self.fill()
        finally:
            self._listening = False

    def _should_listen(self) -> bool:
        exchange = self._exchange
        if exchange is None or exchange.response.complete or self.eof:
            return False
        return len(self.buffer) < self.limits.max_pipelined_bytes

    def _client_left(self) -> None:
        """Tell the app that the client has left, or cancel it if it does not listen."""
        self.eof = True
        exchange = self._exchange
        if exchange is None or exchange.response.complete:
            return
        if exchange.listening:
            self._read_within(self.limits.disconnect_grace, "grace")
            self.changed.unpark_all()
        else:
            self.end()

    # Writing ---------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Write everything. Nothing happens if the client has left.

        Raises:
            trio.BusyResourceError: Another task is writing.
            ResponseError: A write before this one was cancelled in its middle.

        No checkpoint if it can be written at once. Cancelled, it leaves open how much was
        written, and the connection can be used no more.
        """
        while self._following:
            await self.changed.park()
        if self._writing:
            raise trio.BusyResourceError("another task is sending on this connection")
        if self.eof or self.ended:
            await trio.lowlevel.checkpoint()
            return
        if self._torn:
            raise ResponseError("an earlier part of the response was not written to its end")
        try:
            sent = self._pipe.send_nowait(data)
            self.service.counters.bytes_out += sent
            if sent < len(data):
                await self._write_rest(memoryview(data)[sent:])
        except trio.BrokenResourceError:
            self._torn = True
            self._client_left()
            await trio.lowlevel.checkpoint()

    def write_nowait(self, data: bytes) -> bool:
        """Write something if that takes no waiting, and return whether it did.

        If only a part of it fits, it is written as well: the rest follows, before anything else.
        """
        if self._writing or self._following or self._torn or self.eof or self.ended:
            return False
        try:
            sent = self._pipe.send_nowait(data)
        except trio.BrokenResourceError:
            self._torn = True
            self._client_left()
            return False
        self.service.counters.bytes_out += sent
        if 0 < sent < len(data):
            assert self._nursery is not None  # as long as the app runs
            self._following = True
            self._nursery.start_soon(self._follow_with, memoryview(data)[sent:])
        return sent > 0

    async def _follow_with(self, data: memoryview) -> None:
        try:
            await self._write_rest(data)
        except trio.BrokenResourceError:
            self._client_left()
        finally:
            self._following = False
            self.changed.unpark_all()

    async def _write_rest(self, data: memoryview) -> None:
        self._writing = self._torn = True
        try:
            while data:
                piece = data[:_WRITE_BYTES]
                self._write_deadline = self._watch.within(self.limits.write_timeout)
                await self._pipe.send(piece)
                self.service.counters.bytes_out += len(piece)
                data = data[len(piece) :]
            self._torn = False
        finally:
            self._writing = False
            self._write_deadline = inf

    # Deadlines -------------------------------------------------------------------------------

    def _read_within(self, seconds: float, wait: _Wait) -> None:
        self._wait = wait
        self._read_deadline = self._watch.within(seconds)

    def _read_freely(self) -> None:
        self._wait = "nothing"
        self._read_deadline = inf

    def look(self, now: float) -> float:
        """See if a deadline has passed or a listener is needed; returns when to look again."""
        due = min(self._read_deadline, self._write_deadline)
        if due <= now:
            self._too_late(self._wait if self._read_deadline <= now else "nothing")
            return inf
        exchange = self._exchange
        if exchange is None or self._listening or exchange.response.complete or self.eof:
            return due
        if exchange.looked_at:
            self.listen()
        exchange.looked_at = True
        return min(due, now + LISTEN_AFTER)

    def _too_late(self, wait: _Wait) -> None:
        self._read_deadline = self._write_deadline = inf
        if wait in _TOO_LATE and not self.idle:
            self.refuse(Refused(408, _TOO_LATE[wait]))
        else:
            self.end()


_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    """A request that is being answered."""

    # How each one begins. Most of it stays so until the end.
    _body_told = False
    _waited = 0.0  # seconds that were spent waiting for the body
    listening = 0
    """How many tasks wait in `receive`, and would get a disconnect."""
    looked_at = False

    def __init__(self, connection: Connection, head: Head, body: Body) -> None:
        self._connection = connection
        self._head = head
        self._expects_continue = head.expects_continue
        self.body = body
        self.response = Response(head.method, head.http_version)

    def take_body(self) -> bytes | None:
        """Take all of the body in place of `receive`, if it has come: mostly with the head."""
        body, buffer = self.body, self._connection.buffer
        if self._body_told or body.remaining is None or body.remaining > len(buffer):
            return None
        self._body_told = True
        return body.take(buffer)

    async def receive(self) -> Message:
        """Wait for a piece of the body, and after it for the client to leave.

        Returns:
            `http.request` with what there is of the body, as soon as there is something; after
            the last piece `http.disconnect`, once the client has left or the response is
            complete.

        Cancelled while it waits, nothing is lost.
        """
        if self._body_told:
            return await self._disconnect()
        body, buffer = self.body, self._connection.buffer
        try:
            data = body.take(buffer)
            while not data and not body.complete:
                if self._connection.eof or self.response.complete:
                    return await self._disconnect()
                await self._more_body()
                data = body.take(buffer)
        except Refused as refused:
            self._connection.refuse(refused)
            return await self._disconnect()
        self._body_told = body.complete
        return {"type": "http.request", "body": data, "more_body": not body.complete}

    async def _more_body(self) -> None:
        if self._expects_continue:
            self._expects_continue = False
            if not self.response.begun:
                await self._connection.write(_CONTINUE)
        self.listening += 1
        try:
            await self.wait_for_body()
        finally:
            self.listening -= 1

    async def wait_for_body(self) -> None:
        limits = self._connection.limits
        began = trio.current_time()
        left = limits.body_timeout + self.body.received / limits.min_body_rate - self._waited
        try:
            await self._connection.fill_within(min(left, limits.body_timeout))
        finally:
            self._waited += trio.current_time() - began

    async def _disconnect(self) -> Message:
        connection = self._connection
        self.listening += 1
        try:
            await trio.lowlevel.checkpoint()
            while not (connection.eof or self.response.complete or connection.ended):
                connection.listen()
                await connection.changed.park()
        finally:
            self.listening -= 1
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send the start of the response, or a piece of its body.

        Once the client has left, nothing happens.

        Raises:
            ResponseError: The message is not due, or breaks the rules of HTTP.
            trio.BusyResourceError: Another task is sending.

        Cancelled, it leaves open how much was written, and the connection ends.
        """
        response, connection = self.response, self._connection
        kind = message["type"]
        if kind == "http.response.start":
            response.start(message["status"], message.get("headers", ()))
            return
        if kind != "http.response.body":
            raise ResponseError(f"a message of type {kind!r} cannot be sent")
        data, more = message.get("body", b""), message.get("more_body", False)
        if type(data) is not bytes:
            data = bytes(memoryview(data))
        if not response.begun:
            response.keep_alive = self._may_continue()
        out = response.body(data, more, connection.service.date_line())
        if out:
            await connection.write(out)
        if more:
            await trio.lowlevel.checkpoint()
        elif self.listening:
            connection.changed.unpark_all()

    async def respond(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Send a whole response, whose length need not be among the headers.

        It is what `send` does with two messages, and raises the same.
        """
        response, connection = self.response, self._connection
        response.keep_alive = self._may_continue()
        date = connection.service.date_line()
        await connection.write(response.whole(status, headers, body, date))
        if self.listening:
            connection.changed.unpark_all()

    def send_nowait(self, data: bytes) -> bool:
        """Send a piece of a body that has begun, if that takes no waiting; returns whether it did.

        It is the second half of `send`, for an app that has thousands of streams.
        """
        response = self.response
        if not response.is_stream:
            return False
        return self._connection.write_nowait(response.body(data, True, b""))

    def _may_continue(self) -> bool:
        connection, body = self._connection, self.body
        if not self._head.keep_alive or connection.leaving:
            return False
        if body.complete:
            return True
        if self._expects_continue:  # the body may never be sent
            return False
        return body.remaining is None or body.remaining <= connection.limits.max_drain_bytes

    async def drain(self) -> bool:
        """Read what the app has not read of the body, and return whether it came to an end.

        A body that is refused does not: its request has been answered, and gets no other answer.
        """
        connection, body, buffer = self._connection, self.body, self._connection.buffer
        with suppress(Refused):
            left = connection.limits.max_drain_bytes - len(body.take(buffer))
            while not body.complete and left >= 0 and not connection.eof:
                await self.wait_for_body()
                left -= len(body.take(buffer))
        return body.complete
