"""What is said to a client whose request is not answered by the app."""

from typing import Final

from trio_mcp.transports.http.server.response import status_line


class Refused(Exception):
    """A request is not answered by the app; its connection ends with a few plain words."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status: Final = status
        self.reason: Final = reason

    def response(self, date: bytes, *, with_body: bool) -> bytes:
        body = self.reason.encode() + b"\n"
        head = (
            b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"connection: close\r\n%b\r\n"
        ) % (status_line(self.status), len(body), date)
        return head + body if with_body else head
