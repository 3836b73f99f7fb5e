"""Parsing without the garbage collector, which would find none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from looking, while much is made and nothing thrown away.

    It would look at the same new lists and objects over and over while they become more. Where
    there are many, that takes five times as long as to parse them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
