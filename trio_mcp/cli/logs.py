"""A server's log on stderr, as text or as one JSON object a line."""

import logging
import sys
from datetime import datetime
from textwrap import indent
from typing import Any, Final, Literal

from attrs import frozen
from cyclopts import Parameter

from trio_mcp.loggers import current_call, harmless
from trio_mcp.telemetry import current_ids
from trio_mcp.wire import codec

_OF_EVERY_RECORD: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
)


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: with its call, and all that it was given as `extra`.

    Durations are in seconds.
    """

    names_calls = True

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone()
        entry = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= current_ids() | current_call()
        entry |= {key: value for key, value in vars(record).items() if key not in _OF_EVERY_RECORD}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return harmless(codec.dumps(entry, str, codec.ANY_KEYS).decode())


class TextFormatter(logging.Formatter):
    """Formats a record as text, in which a traceback is indented: no message in it looks as one."""

    def formatException(self, ei: Any) -> str:
        return indent(harmless(super().formatException(ei), lines=True), "  ")


@Parameter(name="*")
@frozen(kw_only=True)
class LogOptions:
    """What is logged, and how."""

    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    """The least important messages that are logged to stderr."""
    log_format: Literal["text", "json"] = "text"
    """Readable text, or one JSON object a line."""

    def configure(self) -> None:
        handler = logging.StreamHandler(sys.stderr)
        text = TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        handler.setFormatter(JsonFormatter() if self.log_format == "json" else text)
        logging.basicConfig(level=self.log_level.upper(), handlers=[handler])
