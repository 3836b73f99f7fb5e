"""The frontmatter of a SKILL.md: YAML, read as the JSON that it stands for.

YAML has more than JSON, and its two versions differ on what a plain word is. Here it is the core
schema of YAML 1.2: `yes` and `2024-01-31` are texts, as they are written. What JSON has no place
for is refused. Aliases are followed, as long as the whole stays small.

Servers read what their authors wrote, clients what a stranger did. So the time and the memory that
it takes are bounded.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any, Final

from trio_mcp.extras import needing

LONGEST: Final = 64 * 1024
"""Characters of the longest frontmatter that is read."""
_MOST_VALUES: Final = 10_000
_DEEPEST: Final = 64

_FENCED: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_TAG: Final = "tag:yaml.org,2002:"
_CORE: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
"""What a plain word may be, beside text (YAML 1.2.2, 10.3.2)."""


def frontmatter_of(data: bytes) -> dict[str, Any]:
    """Read the frontmatter of a SKILL.md. It may take some tenths of a second: use a thread.

    Raises:
        ValueError: There is none that can be read; the text says what to do.
        ImportError: PyYAML is not installed.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    fenced = _FENCED.match(text, 0, LONGEST)
    if fenced is None:
        raise ValueError(
            f'it must begin with YAML between two lines "---", of {LONGEST:,} characters at most'
        )
    yaml, loader = _yaml()
    try:
        node = yaml.compose(fenced["yaml"], Loader=loader)
        value = _Reader().value_of(node, 0) if node else {}
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "some character is not allowed"
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 2}" if mark else ""
        raise ValueError(f"its YAML cannot be read: {problem}{line}") from None
    if not isinstance(value, dict):
        raise ValueError("its YAML must be a mapping, with a name and a description")
    return value


@cache
def _yaml() -> tuple[Any, Any]:
    """Return PyYAML, and a loader with the core schema. Only its nodes are used."""
    with needing("the frontmatter of skills", "skills"):
        import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  # replaces those of YAML 1.1
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            # Each level makes PyYAML slower for all that follows, up to half a second.
            if self.depth > _DEEPEST:
                raise ValueError("its YAML is nested too deeply")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    for name, pattern in _CORE.items():
        Loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{pattern})\Z"), [None])
    return yaml, Loader


class _Reader:
    """Makes JSON of nodes. What an alias stands for counts each time."""

    def __init__(self) -> None:
        self.left = _MOST_VALUES

    def value_of(self, node: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
            raise ValueError("its YAML is too large, once its aliases are followed")
        kind = node.tag.removeprefix(_TAG)
        if kind == "map" and node.id == "mapping":
            return self._mapping_of(node, depth)
        if kind == "seq" and node.id == "sequence":
            return [self.value_of(item, depth + 1) for item in node.value]
        if node.id != "scalar" or kind not in ("str", *_CORE):
            raise ValueError(f"JSON has nothing for {node.tag!r:.100}; write it as text, in quotes")
        return self._scalar_of(kind, node.value)

    def _mapping_of(self, node: Any, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise ValueError("the keys of its YAML must be texts")
            name = self._scalar_of("str", key.value)
            if name in found:
                raise ValueError(f"its YAML has the key {name!r:.100} twice")
            found[name] = self.value_of(value, depth + 1)
        return found

    def _scalar_of(self, kind: str, text: str) -> Any:
        self.left -= len(text) // 100  # a text that is repeated by aliases
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind in ("int", "float"):
            number = _number_of(kind, text)
            if not abs(number) <= sys.float_info.max:  # so NaN is none, nor a longer integer
                raise ValueError(f"JSON has no number {text:.100}; write it in quotes")
            return number
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair is not a character") from None
        return text


def _number_of(kind: str, text: str) -> int | float:
    if kind == "float":
        return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))
    # Not int(text, 0), which refuses zeros in front.
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON. To Python, `True` is 1, and to JSON it is not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)
