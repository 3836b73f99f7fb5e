"""One request and its response, as the app sees them: ASGI's `receive` and `send`."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import trio

from trio_mcp.transports.http.server.asgi import Message
from trio_mcp.transports.http.server.body import Body
from trio_mcp.transports.http.server.head import Head
from trio_mcp.transports.http.server.limits import HttpLimits
from trio_mcp.transports.http.server.response import Refused, Response, ResponseError
from trio_mcp.transports.http.server.service import Service

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Carrier(Protocol):
    """The connection that carries an exchange."""

    eof: bool

    @property
    def service(self) -> Service: ...

    @property
    def limits(self) -> HttpLimits: ...

    @property
    def buffer(self) -> bytearray: ...

    @property
    def changed(self) -> trio.lowlevel.ParkingLot: ...

    @property
    def ended(self) -> bool: ...

    @property
    def leaving(self) -> bool: ...

    def listen(self) -> None: ...

    def refuse(self, refused: Refused) -> None: ...

    async def write(self, data: bytes) -> None: ...

    async def fill_within(self, seconds: float) -> None: ...


class Exchange:
    """A request that is being answered."""

    # How each one begins. Most of it stays so until the end.
    _body_told = False
    _waited = 0.0  # seconds that were spent waiting for the body
    listening = 0
    """How many tasks wait in `receive`, and would get a disconnect."""
    looked_at = False

    def __init__(self, connection: Carrier, head: Head, body: Body) -> None:
        self._connection = connection
        self._head = head
        self._expects_continue = head.expects_continue
        self.body = body
        self.response = Response(head.method, head.http_version)

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
