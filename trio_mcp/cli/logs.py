"""Where the log of a server goes: to stderr, as text or as one JSON object a line."""

import logging
import sys
from typing import Final, Literal

import orjson

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LogFormat = Literal["text", "json"]

_FIELDS: Final = (
    *("tool", "resource", "prompt", "completion"),
    *("outcome", "duration", "request_id", "connection_id", "status"),
)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and what is known of a call."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as JSON; durations are in seconds."""
        entry = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {key: getattr(record, key) for key in _FIELDS if hasattr(record, key)}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


def configure(level: LogLevel, style: LogFormat) -> None:
    """Send the log of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    if style == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
