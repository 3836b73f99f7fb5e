"""YAML as the JSON that it stands for, safe against hostile documents.

It is built from PyYAML's events: PyYAML's own loaders follow nesting by recursion, and the one in C
overruns the stack. Plain words are read as YAML 1.2 has them: `no` and `2024-01-31` are
texts, and keys are texts always. Aliases are shared, so a value may hold itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from trio_mcp.wire.jsonrpc import Json

_DEEPEST: Final = 200
_LONGEST_NUMBER: Final = 400
_WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(
    r"(?P<int>[-+]?[0-9]+)|(?P<octal>0o[0-7]+)|(?P<hex>0x[0-9a-fA-F]+)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_MERGE: Final = "<<"


class YamlError(ValueError):
    """It is not YAML, or JSON has nothing for it. The text says where."""


def load(data: bytes) -> Json:
    """Read the first document of a stream. Without PyYAML, this raises `ModuleNotFoundError`."""
    import yaml

    builder = _Builder()
    try:
        for event in yaml.parse(data, Loader=getattr(yaml, "CLoader", yaml.Loader)):
            if builder.take(type(event).__name__, event):
                break
    except (yaml.YAMLError, YamlError) as error:
        mark = getattr(error, "problem_mark", None)
        why = str(error) if isinstance(error, YamlError) else "it is not YAML"
        raise YamlError(f"{why} (line {mark.line + 1})" if mark else why) from None
    return builder.root


class _Builder:
    """Builds a value of events."""

    def __init__(self) -> None:
        self.root: Json = None
        self._open: list[tuple[Any, str | None]] = []
        """What is being filled, and under which key the next value goes."""
        self._anchors: dict[str, Json] = {}

    def take(self, kind: str, event: Any) -> bool:
        """Take an event; return whether the document is complete."""
        if kind == "ScalarEvent":
            container, key = self._open[-1] if self._open else (None, None)
            is_key = isinstance(container, dict) and key is None
            self._add(event, event.value if is_key else _scalar(event))
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            value: Any = {} if kind == "MappingStartEvent" else []
            self._add(event, value)
            self._open.append((value, None))
            if len(self._open) > _DEEPEST:
                raise YamlError(f"it is nested more than {_DEEPEST} levels deep")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._open.pop()
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise YamlError("it has an alias of nothing")
            self._put(self._anchors[event.anchor])
        return kind == "DocumentEndEvent"

    def _add(self, event: Any, value: Json) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        self._put(value)

    def _put(self, value: Json) -> None:
        if not self._open:
            self.root = value
            return
        container, key = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif key is None:
            if not isinstance(value, str):
                raise YamlError("it has a key that is not text")
            self._open[-1] = container, value
        else:
            self._open[-1] = container, None
            if key != _MERGE:
                container[key] = value
                return
            for mapping in value if isinstance(value, list) else [value]:
                for name, member in list(mapping.items()) if isinstance(mapping, Mapping) else ():
                    container.setdefault(name, member)


def _scalar(event: Any) -> Json:
    """Return the value of a word: a text if it is quoted or looks like nothing else."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text, 0, _LONGEST_NUMBER) if text[0] in "+-.0123456789" else None
    if number is None or len(text) > _LONGEST_NUMBER:
        return text
    if number["int"]:
        return int(text)
    if number["octal"] or number["hex"]:
        return int(text, 0)
    value = float(text)
    return value if math.isfinite(value) else text
