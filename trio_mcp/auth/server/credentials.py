"""What a request brings to be let in, and how it is told that it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import define

Header = tuple[bytes, bytes]


@define
class Credentials:
    """What a request brings, as far as it matters here."""

    method: str
    urls: Callable[[], Collection[str]]
    """Makes its URL, in the forms in which the client may know it."""
    query: str
    authorization: str | None
    proof: str | None


class Denied(Exception):
    """A request that is not let in.

    Args:
        status: The status code.
        message: What to do about it, for the caller.
        headers: Those of the response.
        is_guess: Whether it came with a token or a proof that somebody may have made up.
    """

    def __init__(
        self, status: int, message: str, headers: list[Header], *, is_guess: bool = False
    ) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.headers = headers
        self.is_guess = is_guess
