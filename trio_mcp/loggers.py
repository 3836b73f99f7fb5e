"""What clients and servers say, where it is quoted: in logs and on terminals, it does nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from attrs import frozen

_SYMBOLS: Final = {
    **{code: 0x2400 + code for code in range(32)},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), 0x2028, 0x2029), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""Symbols for control characters, including those that end lines or reverse text."""
_SYMBOLS_IN_LINES: Final = {code: _SYMBOLS[code] for code in _SYMBOLS if chr(code) not in "\n\t"}


running_call: Final[ContextVar[Callable[[], dict[str, Any]] | None]] = ContextVar(
    "trio_mcp_running_call", default=None
)
"""Tells of the call that runs here, where the log wants to know (`layers.naming`)."""


def current_call() -> dict[str, Any]:
    """Return what identifies the call that runs here, and who has made it; nothing without one."""
    fields = running_call.get()
    return {} if fields is None else fields()


def harmless(text: str, *, lines: bool = False) -> str:
    r"""Replace what a log or a terminal would obey by symbols; `lines` leaves breaks and tabs.

    Example:
        >>> harmless("done\nERROR \x1b[31mforged")
        'done␊ERROR ␛[31mforged'
    """
    return text if text.isprintable() else text.translate(_SYMBOLS_IN_LINES if lines else _SYMBOLS)


def logger_of(name: str) -> logging.Logger:
    """Return a logger whose records obey nothing that they quote.

    Names, messages and errors come from others, who may put into them line breaks that forge lines
    of the log, and sequences that a terminal obeys. They are logged as symbols.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_make_harmless)
    return logger


def all_handlers() -> list[logging.Handler]:
    """Return the handlers of all loggers that there are."""
    known = (logging.root, *logging.root.manager.loggerDict.values())
    loggers = [logger for logger in known if isinstance(logger, logging.Logger)]
    return [handler for logger in loggers for handler in logger.handlers]


def _make_harmless(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_quoted, record.args))
    return True


def _quoted(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else _Quoted(value)


@frozen(eq=False, repr=False)
class _Quoted:
    """A value as a record shows it, made when the record is written."""

    value: Any

    def __str__(self) -> str:
        return harmless(str(self.value))

    def __repr__(self) -> str:
        return harmless(repr(self.value))
