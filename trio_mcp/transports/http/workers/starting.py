"""Where the program starts workers: whether it can, and what they share."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from trio_mcp.system.capabilities import POLLS

_AGAIN = {"": "the interactive interpreter", "-c": "python -c", "-": "a program on stdin"}


def check_workers(number: int, own_process: bool, listeners: object) -> None:
    """Make sure that there can be workers.

    Raises:
        ValueError: There cannot; the message says why, and what to do.
    """
    if number < 1:
        raise ValueError(f"workers must be 1 or more, not {number}")
    if not POLLS:
        raise ValueError("there are no workers on Windows; start several servers at other ports")
    if not own_process:
        raise ValueError(
            "workers are processes that run this whole program again, so it must be the server's "
            "own: serve_http(..., workers=..., own_process=True)"
        )
    if listeners is not None:
        raise ValueError("workers share what serve_http opens; give host and port, or unix_socket")
    kind = _AGAIN.get(sys.argv[0] if sys.argv else "")
    if kind is not None or not sys.executable:
        raise ValueError(
            f"workers run this program again, and {kind or 'this interpreter'} cannot be; "
            "put it into a file, or use trio-mcp serve --workers"
        )
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("workers are looked after by the main thread; call serve_http there")


@contextmanager
def shared_settings(private_store: bool) -> Iterator[dict[str, object]]:
    """What workers are to share during the block: a store too, if they have none yet."""
    if not private_store:
        yield {"folder": None, "store": None}
        return
    # What a worker may still be removing, or writing when it was killed, is no reason to fail.
    with tempfile.TemporaryDirectory(prefix="trio-mcp-", ignore_cleanup_errors=True) as folder:
        yield {"folder": folder, "store": os.path.join(folder, "store.db")}
