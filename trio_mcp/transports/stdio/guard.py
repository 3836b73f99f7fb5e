"""One direction of a stream: used by one task at a time, and never after closing."""

import trio


class Guard:
    """Refuses a second task and a closed stream; wrap every operation in ``with guard``.

    Args:
        use: What the stream is used for, as error messages name it.
    """

    def __init__(self, use: str) -> None:
        self.closed = False
        self._busy = False
        self._use = use

    def __enter__(self) -> None:
        self.check_open()
        if self._busy:
            raise trio.BusyResourceError(f"another task is using this stream to {self._use}")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False

    @property
    def idle(self) -> bool:
        """Whether the stream could be used now: it is open, and no task uses it."""
        return not (self.closed or self._busy)

    def check_open(self) -> None:
        """Raise `trio.ClosedResourceError` if the stream has been closed."""
        if self.closed:
            raise trio.ClosedResourceError("this stream is closed")
