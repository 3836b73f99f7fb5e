"""Innermost: the author's function, on the Trio thread if it is async, else in a worker thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from trio_mcp.layers.call import Call, Handler
from trio_mcp.layers.concurrency import HeldSlots


def function(entry: Any) -> Handler:
    """Make the handler that calls the function of an entry.

    Cancelled, a worker thread is left to itself, so blocking code does not hold up its caller. It
    goes on until it returns, and its result is dropped; until then it keeps its slots.
    """
    takes_call = getattr(entry.function, "forward", None)
    if takes_call is not None:
        forward: Handler = takes_call
        return forward
    if not entry.is_async:
        return partial(_run_in_thread, entry.function, entry.context_parameter, entry.slots)
    run, parameter = entry.function, entry.context_parameter
    if parameter is None:
        return lambda call: run(**call.arguments)
    return lambda call: run(**{**call.arguments, parameter: call.make_context()})


def _run_in_thread(run: Any, parameter: str | None, slots: Any, call: Call) -> Awaitable[Any]:
    arguments = call.arguments
    if parameter is not None:
        arguments = {**arguments, parameter: call.make_context()}
    # A partial would take one with defaults apart: Python 3.13 looks into subclasses as well.
    return in_worker(lambda: run(**arguments), call, slots, asks=parameter is not None)


def in_worker(
    run: Callable[[], Any], call: Call, slots: Any = None, *, asks: bool
) -> Awaitable[Any]:
    """Run a plain function of the author's in a worker thread.

    Args:
        run: The function.
        call: The call that it is part of.
        slots: Bounds how many run at the same time, besides what bounds all threads.
        asks: Whether it may ask the caller something; others have its slots meanwhile.
    """
    limiter = call.exchange.threads
    if slots is not None or asks:
        threads = limiter or trio.to_thread.current_default_thread_limiter()
        limiter = HeldSlots(threads) if slots is None else HeldSlots(slots.limiter, threads)
        call.exchange.lends(limiter)
    return trio.to_thread.run_sync(
        run,
        abandon_on_cancel=True,  # a thread cannot be stopped; its caller need not wait for it
        limiter=limiter,
    )
