"""What to install when a package of an extra is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def needing(what: str, *extras: str) -> Iterator[None]:
    """Import what an extra brings.

    Raises:
        ModuleNotFoundError: It is missing; the message says what to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(advice(what, *extras), name=error.name) from None


def check_extra(package: str, what: str, *extras: str) -> None:
    """Raise as `needing` if a package is missing, without importing it."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(advice(what, *extras), name=package)


def advice(what: str, *extras: str) -> str:
    return f"{what} needs more packages: pip install 'trio-mcp[{','.join(extras)}]'"
