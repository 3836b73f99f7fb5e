"""What was logged and measured goes out before a server ends."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from typing import Any, Final

_PROVIDERS: Final = {
    "opentelemetry.trace": "get_tracer_provider",
    "opentelemetry.metrics": "get_meter_provider",
    "opentelemetry._logs": "get_logger_provider",
}
"""Where the application may have what exports its telemetry, once it has imported that."""


def flush_logs() -> None:
    """Flush all handlers of the log."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in loggers:
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            with suppress(Exception):  # its file is closed, say, or there is no room
                handler.flush()


def flush_process(seconds: float) -> None:
    """Flush logs, and what OpenTelemetry has not exported, of a process that is about to end.

    It blocks, for at most so many seconds: an exporter may wait for a server that is gone, and a
    handler for its reader.
    """
    thread = threading.Thread(target=_flush, args=(seconds,), daemon=True)
    thread.start()
    thread.join(seconds)


def _flush(seconds: float) -> None:
    flush_logs()
    for module, getter in _PROVIDERS.items():
        if module in sys.modules:
            provider: Any = getattr(sys.modules[module], getter)()
            if hasattr(provider, "force_flush"):  # only the one of the SDK has anything to export
                provider.force_flush(int(seconds * 1000))
