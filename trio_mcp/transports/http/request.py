"""One HTTP request, seen through ASGI, and the two ways to answer it: a body, or a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Final

from attrs import define, field

from trio_mcp.transports.http.bodies import SHORT, Bodies, LongBody, NoRoom
from trio_mcp.transports.http.request_head import head_of
from trio_mcp.transports.http.server.asgi import (
    CANCELS,
    CONNECTION,
    AsgiApp,
    Message,
    Receive,
    Scope,
    Send,
    direct_exchange,
)
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import UNKNOWN_ID, Json, encode, error_line
from trio_mcp.wire.sse import KEEP_ALIVE, encode_event

if TYPE_CHECKING:
    from trio_mcp.auth.authorization import Authorization

Header = tuple[bytes, bytes]

_NOT_MODIFIED: Final = 304
JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream"

_STREAM_HEADERS: Final[list[Header]] = [
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


Pieces = deque[bytes]
"""What is sent, in bounded pieces, so that memory is given back while a slow client reads."""

Body = bytes | Pieces
"""The body of a response: in one piece, if it is short."""

_PIECE_BYTES: Final = 256 * 1024


def pieces_of(data: bytes, left_out: int = 0) -> Pieces:
    """Cut what is to be sent, but for some bytes at its end. There is one piece at least."""
    size = len(data) - left_out
    if size <= _PIECE_BYTES:
        return deque((data[:size],))
    places = range(0, size, _PIECE_BYTES)
    return deque(data[at : min(at + _PIECE_BYTES, size)] for at in places)


def body_of(line: bytes) -> Body:
    """Make the body that is a message, of its line."""
    return line[:-1] if len(line) <= _PIECE_BYTES else pieces_of(line, 1)


def event_of(line: bytes, id: str | None = None) -> Pieces:
    """Cut the event that carries a message. The line's newline does not matter."""
    if len(line) <= _PIECE_BYTES:
        return Pieces((encode_event(line.rstrip(b"\n"), id=id, event="message"),))
    # Copied once: within a message there are no line ends, each of which would need a field.
    head = encode_event(b"", id=id, event="message").removesuffix(b"\n\n")
    return Pieces((head, *pieces_of(line, line.endswith(b"\n")), b"\n\n"))


@define(eq=False)
class Refusal(Exception):
    """A request that is refused on the level of HTTP.

    Args:
        message: What to do about it.
        headers: Further headers of the response.
        body: The body, if it is not just an error with that message.
        reason: What metrics call it, if the status does not say all.
    """

    status: int
    message: str
    headers: Iterable[Header] = field(default=(), repr=False)
    body: bytes = field()
    reason: str = field(kw_only=True)

    @body.default
    def _write_error(self) -> bytes:
        return error_line(UNKNOWN_ID, McpError(INVALID_REQUEST, self.message))[:-1]

    @reason.default
    def _say_why(self) -> str:
        return HTTPStatus(self.status).phrase.lower()


def no_session() -> Refusal:
    why = "There is no such session (any more); send initialize again."
    return Refusal(404, why, reason="no session")


def no_stream() -> Refusal:
    return Refusal(400, "There is no stream with that Last-Event-ID, or not any more.")


def stopping() -> Refusal:
    return Refusal(503, "The server is stopping.", [(b"retry-after", b"10")], reason="stopping")


class Disconnected(Exception):
    """The client has left."""


class HttpRequest:
    """A request that is being answered.

    Args:
        scope: Its scope in ASGI, and the functions that go with it.
        receive: Waits for a part of it.
        send: Sends a part of the response.
        app: The app that answers it.
        id: Tells it from all other requests, at any instance, in the log.
    """

    # How each one begins. Most of it stays so until the end.
    client_address: str = ""
    """The address or network that it came from, behind all trusted proxies."""
    authorization: Authorization | None = None
    """What the token that it came with allows; `None` where no token is needed."""
    principal: str | None = None
    owner: str = ""
    """To whose share of anything it counts: the principal, or without one its address."""
    deadline: float = inf
    """When its token is good no more, by Trio's clock."""
    bodies: Bodies | None = None
    """What bounds long bodies, where clients may send any."""
    long_body: LongBody | None = None
    """What its own holds of that."""
    answer_headers: tuple[Header, ...] = ()
    started: bool = False
    status: int = 0
    on_cut: Callable[[], None] | None = None
    """Has its calls answered soon, when its server cancels it (see `ending_in_order`)."""
    _is_stream: bool = False
    _is_ended: bool = False  # if it is a stream

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, app: object, id: str = ""
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.id = id
        self._direct = direct_exchange(receive, send)
        extensions = scope.get("extensions") or {}
        self.cancels: Final = CANCELS in extensions
        """Whether it is cancelled when its client leaves, by who has brought it."""
        head, headers = head_of(scope, extensions.get(CONNECTION, {}), app)
        self.head: Final = head
        self.method: Final = head.method
        self.path: Final = head.path
        """The path below the place where the app is mounted."""
        self.peer: Final = head.peer
        self.headers: Final = headers
        """The headers; of a repeated one, all values with commas between."""

    def authorize(self, authorization: Authorization) -> None:
        """Note what its token allows."""
        self.authorization, self.deadline = authorization, authorization.deadline
        self.principal = self.owner = authorization.principal

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def take_body(self) -> bytes | None:
        """Take all of the body, if it has come with the head; its length is not bounded here."""
        return None if self._direct is None else self._direct.take_body()

    async def body(self, limit: int, taken: bytes | None = None) -> bytes:
        """Read the body.

        Args:
            limit: How many bytes it may have.
            taken: What `take_body` has given.

        Raises:
            Refusal: It is longer than `limit` bytes (413), or there is no room for it (429).
            Disconnected: The client left.
        """
        piece, more = self.take_body() if taken is None else taken, False
        if piece is None:
            length = self.headers.get(b"content-length", b"")
            if length.isdigit() and (len(length) > 18 or int(length) > limit):
                raise _too_large(limit)
            piece, more = _piece_in(await self.receive(), 0, limit)
        elif len(piece) > limit:
            raise _too_large(limit)
        size = len(piece)
        if not more and size <= SHORT:  # as it nearly always is
            return piece
        pieces = [piece]
        while more and (size <= SHORT or self.bodies is None):
            piece, more = _piece_in(await self.receive(), size, limit)
            pieces.append(piece)
            size += len(piece)
        if size > SHORT and self.bodies is not None:
            body = self.long_body = LongBody(self.bodies, self.owner)
            try:
                with body.receiving():
                    body.grow(size)
                    while more:
                        piece, more = _piece_in(await self.receive(), size, limit)
                        pieces.append(piece)
                        size += len(piece)
                        body.grow(size)
            except NoRoom:
                raise _no_room() from None
        return b"".join(pieces)  # which copies nothing if there is only one

    def count_body(self, size: int) -> None:
        """Have its body hold room although it is short, for calls that outlast this request.

        Raises:
            Refusal: There is no room for it (429).
        """
        if self.long_body is None and self.bodies is not None:
            self.long_body = LongBody(self.bodies, self.owner)
            try:
                self.long_body.grow(size)
            except NoRoom:
                raise _no_room() from None

    def leave_long_body(self) -> None:
        """Hold no room for its body any more."""
        body = self.take_long_body()
        if body is not None:
            body.leave()

    def take_long_body(self) -> LongBody | None:
        """Return what its body holds; the caller has to let go of it."""
        body, self.long_body = self.long_body, None
        return body

    def respond(
        self,
        status: int,
        body: Body = b"",
        content_type: bytes = JSON,
        headers: Iterable[Header] = (),
    ) -> Awaitable[None]:
        """Answer with a body. Pieces are taken out as they are sent."""
        if self._direct is not None and body.__class__ is bytes and 0 < len(body) <= _PIECE_BYTES:
            self.started, self.status = True, status
            fields = (*headers, (b"content-type", content_type), *self.answer_headers)
            return self._direct.respond(status, fields, body)
        pieces = pieces_of(body) if isinstance(body, bytes) else body
        return self._respond_in_pieces(status, pieces, content_type, headers)

    async def _respond_in_pieces(
        self, status: int, pieces: Pieces, content_type: bytes, headers: Iterable[Header]
    ) -> None:
        head = list(headers)
        length = sum(map(len, pieces))
        if status != _NOT_MODIFIED:  # which would speak of the body that it does not have
            head.append((b"content-length", b"%d" % length))
        if length:
            head.append((b"content-type", content_type))
        await self._start(status, head)
        while len(pieces) > 1:
            await self.send_raw(pieces.popleft())
        await self._put({"type": "http.response.body", "body": pieces.popleft()})

    async def hand_to(self, app: AsgiApp) -> None:
        """Have another app answer it."""

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.started, self.status = True, message["status"]
            await self._put(message)

        await app(self.scope, self.receive, send)

    async def respond_json(self, value: Json, status: int = 200) -> None:
        await self.respond(status, encode(value)[:-1])

    async def start_stream(self, headers: Iterable[Header] = ()) -> None:
        self._is_stream = True
        await self._start(200, [*_STREAM_HEADERS, *headers])
        await self.send_raw(b"")

    async def send_event(self, line: bytes, *, id: str | None = None) -> None:
        """Send a message as an event. The line's newline does not matter."""
        # Its type goes without saying, but some clients take no event for one that has none.
        await self.send_pieces(event_of(line, id))

    def offer_event(self, line: bytes) -> bool:
        """Send a message as an event of a stream that has begun, if that takes no waiting.

        Returns:
            Whether it did.
        """
        if self._direct is None or not self._is_stream or len(line) > _PIECE_BYTES:
            return False
        return self._direct.send_nowait(encode_event(line.rstrip(b"\n"), event="message"))

    async def send_id(self, id: str) -> None:
        """Send an event without a message, so that the client has an id to come back with."""
        await self.send_raw(encode_event(b"", id=id))

    async def end_stream(self) -> None:
        await self._put({"type": "http.response.body", "body": b""})
        self._is_ended = True

    async def send_comment(self) -> None:
        """Send what clients ignore, so that no proxy on the way takes the stream for dead."""
        await self.send_raw(KEEP_ALIVE)

    async def send_pieces(self, pieces: Pieces) -> None:
        """Send a part of the stream, and let go of each piece when it is sent."""
        while pieces:
            await self.send_raw(pieces.popleft())

    async def send_raw(self, data: bytes) -> None:
        await self._put({"type": "http.response.body", "body": data, "more_body": True})

    async def _start(self, status: int, headers: list[Header]) -> None:
        self.started, self.status = True, status
        head = [*headers, *self.answer_headers]
        await self._put({"type": "http.response.start", "status": status, "headers": head})

    async def cut_short(self) -> None:
        """End a response that is not complete, if that can be done in good order."""
        if not self.started:
            refused = stopping()
            await self.respond(refused.status, refused.body, headers=refused.headers)
        elif self._is_stream and not self._is_ended:
            await self.end_stream()

    async def _put(self, message: Message) -> None:
        try:
            await self.send(message)
        except OSError as error:  # by which ASGI servers say so
            raise Disconnected from error

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


Methods = Mapping[str, Callable[[HttpRequest], Awaitable[None]]]
"""What answers requests that the guard has let pass, by their methods.

They raise a `Refusal` for what cannot be answered as it is, `Disconnected` when the client has
left, and a `StoreError` when other instances have to be asked or told, and cannot be.
"""


def _piece_in(message: Message, size: int, limit: int) -> tuple[bytes, bool]:
    """Return what follows in a body after so many bytes, and whether there is more."""
    if message["type"] != "http.request":
        raise Disconnected
    piece = message.get("body", b"")
    if size + len(piece) > limit:
        raise _too_large(limit)
    return piece, message.get("more_body", False)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"The body of a request may have {limit} bytes at most.")


def _no_room() -> Refusal:
    return Refusal(
        429,
        "There is no room for so many long requests at a time; try again.",
        [(b"retry-after", b"1")],
        reason="long bodies",
    )
