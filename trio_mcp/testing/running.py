"""Running tests where no other plugin does."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import trio


def run_test(test: Callable[..., Awaitable[object]], arguments: Mapping[str, Any]) -> None:
    """Run a test in Trio."""
    trio.run(partial(test, **arguments), strict_exception_groups=True)
