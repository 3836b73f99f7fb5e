"""What is tried with a client: it calls a tool of a server, and leaves."""

import json
from collections.abc import Awaitable, Callable
from time import perf_counter


async def tell(call: Callable[[], Awaitable[object]]) -> None:
    """Call, and print what became of it, and after how many seconds."""
    begun = perf_counter()
    try:
        await call()
        became = "the result"
    except Exception:
        became = "an error"
    print(json.dumps({"became": became, "seconds": perf_counter() - begun}), flush=True)
