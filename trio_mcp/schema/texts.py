"""Types whose values travel as text of some format: how they are named, written and read.

They are known by name, so that nothing is imported to be recognised.
"""

import pathlib
import re
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen


@frozen(eq=False, repr=False)
class TextType:
    """A type whose values travel as text."""

    format: str
    words: str
    """What such a text is called in sentences."""

    write: Callable[[Any], str] = str

    read: Callable[[Any, str], Any] = lambda kind, text: kind(text)
    """Makes a value of the type that it is given first; raises `ValueError` or the like."""


def text_type(kind: Any) -> TextType | None:
    """How values of a class, or of one that it is derived from, travel as text."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, pathlib.PurePath):
        return _BY_NAME["trio.Path"]
    names = (f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__)
    return next((_BY_NAME[name] for name in names if name in _BY_NAME), None)


def _read_decimal(kind: Any, text: str) -> Any:
    number = kind(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _read_url(kind: Any, text: str) -> Any:
    import urllib.parse

    parsed: Any = urllib.parse.urlsplit(text)
    return parsed if isinstance(parsed, kind) else urllib.parse.urlparse(text)


_DURATION: Final = (  # compiled by the first one: no start waits for it
    r"(-?)P(?=.)(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,6})?)S)?)?"
)


def _read_duration(kind: Any, text: str) -> Any:
    found = re.fullmatch(_DURATION, text[:_LONGEST_DURATION], re.ASCII)
    if found is None or len(text) > _LONGEST_DURATION:
        raise ValueError(text)
    sign, *numbers = found.groups()
    names = ("weeks", "days", "hours", "minutes")
    whole = {name: int(each or 0) for name, each in zip(names, numbers, strict=False)}
    duration = kind(**whole, seconds=float(numbers[-1] or 0))
    return -duration if sign else duration


def _write_duration(duration: Any) -> str:
    sign = "-" if duration.days < 0 else ""
    duration = abs(duration)
    minutes, seconds = divmod(duration.seconds, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0") if duration.microseconds else ""
    parts = (duration.days, "D"), (minutes // 60, "H"), (minutes % 60, "M")
    days, *times = (f"{number}{unit}" if number else "" for number, unit in parts)
    time = "".join(times) + (f"{seconds}{fraction}S" if seconds or fraction else "")
    return f"{sign}P{days}T{time}" if time else f"{sign}P{days or 'T0S'}"


_LONGEST_DURATION: Final = 100
_MOMENT: Final = (
    lambda moment: str(moment.isoformat()),
    lambda kind, text: kind.fromisoformat(text),
)
_URL: Final = TextType("uri", "a URI", lambda url: str(url.geturl()), _read_url)

_BY_NAME: Final = {
    "datetime.datetime": TextType(
        "date-time", "a date and time such as 2024-05-31T12:30:00Z", *_MOMENT
    ),
    "datetime.date": TextType("date", "a date such as 2024-05-31", *_MOMENT),
    "datetime.time": TextType("time", "a time such as 12:30:00", *_MOMENT),
    "datetime.timedelta": TextType(
        "duration", "a duration such as PT1H30M", _write_duration, _read_duration
    ),
    "uuid.UUID": TextType("uuid", "a UUID"),
    "decimal.Decimal": TextType("decimal", "a decimal number in a string", read=_read_decimal),
    "ipaddress.IPv4Address": TextType("ipv4", "an IPv4 address"),
    "ipaddress.IPv6Address": TextType("ipv6", "an IPv6 address"),
    "urllib.parse.ParseResult": _URL,
    "urllib.parse.SplitResult": _URL,
    "trio.Path": TextType("path", "a path"),
}

WORDS: Final = {text.format: text.words for text in _BY_NAME.values()}
"""What a text is called in sentences, by the `format` in its schema."""
