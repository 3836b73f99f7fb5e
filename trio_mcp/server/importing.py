"""Serving that begins while a module is imported, which is hardly ever meant.

A file that ends with a bare `trio.run(serve, registry)` serves when it is imported: by a test that
hangs, a command line that serves on stdio what it was to serve over HTTP.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from trio_mcp.loggers import logger_of

logger = logger_of("trio_mcp")

_refused: Final = ContextVar("_refused", default=False)


class ServedByImport(RuntimeError):
    """A module that is imported for its registry serves it by itself."""


@contextmanager
def serving_refused() -> Iterator[None]:
    """Refuse to serve for the length of a block, in which modules are imported."""
    token = _refused.set(True)
    try:
        yield
    finally:
        _refused.reset(token)


def check_import() -> None:
    """Warn if what is about to be served is being imported.

    Raises:
        ServedByImport: It is imported within `serving_refused`.
    """
    module = _imported_module()
    if module is not None:
        told = (
            f"{module} serves while it is imported; put that under "
            '`if __name__ == "__main__":`, or it serves when it is imported'
        )
        if _refused.get():
            raise ServedByImport(told)
        logger.warning("%s", told)


def _imported_module() -> str | None:
    """The module whose import leads to here, if one does."""
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_code.co_name == "<module>" and "importlib" in frame.f_back.f_code.co_filename:
            return str(frame.f_globals.get("__name__"))
        frame = frame.f_back
    return None
