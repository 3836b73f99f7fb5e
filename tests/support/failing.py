"""System calls that fail in the ways in which they can, one at a time.

`Failing` stands in the place of `os` or of a socket's methods in one module of ours, and has the
n-th of the calls that it sees fail, or do less than it was asked. What is tried out is run again and
again, with a later call each time, until it has made all its calls unharmed. So no call is missed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import pytest
from attrs import frozen


@frozen
class Failure:
    """One way in which a call can fail.

    Args:
        name: What it is called.
        code: The error, or `None` for a call that does only a part of what it was asked.
        lasting: Whether each call after it fails as well.
    """

    name: str
    code: int | None
    lasting: bool = False

    @property
    def passes(self) -> bool:
        """Whether it is no failure, but something that happens all the time."""
        return self.code in (None, errno.EAGAIN)


READ_FAILURES: Final = (
    Failure("short", None, True),
    Failure("EAGAIN", errno.EAGAIN),
    *(Failure(errno.errorcode[code], code, True) for code in (errno.EIO, errno.ECONNRESET)),
    Failure("ENOMEM", errno.ENOMEM, True),
)
WRITE_FAILURES: Final = (
    Failure("short", None, True),
    Failure("EAGAIN", errno.EAGAIN),
    *(
        Failure(errno.errorcode[code], code, True)
        for code in (errno.EPIPE, errno.ECONNRESET, errno.ENOSPC, errno.EIO, errno.ENOMEM)
    ),
)
FAILURES: Final = {
    "read": READ_FAILURES,
    "recv": READ_FAILURES,
    "write": WRITE_FAILURES,
    "send": WRITE_FAILURES,
}
"""By the call. EINTR is none of them: Python calls again by itself (PEP 475)."""


class Failing:
    """Has the n-th call fail.

    Args:
        call: Its name.
        at: Which of them, from 0 on; those before it succeed.
        failure: How it fails.
    """

    def __init__(self, call: str, at: int, failure: Failure) -> None:
        self.call = call
        self.struck = False
        self._left = at
        self._failure = failure

    def __call__(self, real: Any, target: int, what: Any, *more: Any) -> Any:
        """Make a call, or have it fail."""
        self._left -= 1
        if self._left == -1 or (self._left < 0 and self._failure.lasting):
            self.struck = True
            if self._failure.code is not None:
                raise OSError(self._failure.code, os.strerror(self._failure.code))
            what = min(what, 500) if isinstance(what, int) else what[: (len(what) + 1) // 2]
        return real(target, what, *more)


class _System:
    """A module, one of whose functions may fail."""

    def __init__(self, module: ModuleType, failing: Failing) -> None:
        self._module = module
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._module, name)
        if name != self._failing.call:
            return real
        return lambda *arguments: self._failing(real, *arguments)


@contextmanager
def failing_calls(module: ModuleType, failing: Failing) -> Iterator[None]:
    """Have calls of `os` that a module of ours makes fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "os", _System(os, failing))
        yield


class FailingSocket:
    """A socket, one of whose methods may fail."""

    def __init__(self, sock: Any, failing: Failing) -> None:
        self._sock = sock
        self._failing = failing

    def __enter__(self) -> FailingSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._sock, name)
        if name != self._failing.call:
            return real
        return lambda *arguments: self._failing(
            lambda _, *rest: real(*rest), self._sock.fileno(), *arguments
        )
