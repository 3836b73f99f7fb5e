"""Changing one value in the text of a JSON document, and nothing else of it.

The document is parsed to find where values begin and end; then pieces of text are inserted or
replaced, so the order of keys, the notation of numbers, indentation and comments stay. Comments are
replaced by as many spaces before parsing, so that positions are the same in both texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from trio_mcp.cli.failures import Failure
from trio_mcp.wire.jsonrpc import Json

# Strings and comments may lack their ends, or each would be looked for as often as one may begin.
_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*[}\]])', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_INDENTED: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class BrokenJson(Failure):
    """The document is invalid; the text says where."""


def _refuse(constant: str) -> float:
    raise BrokenJson(f"it is not JSON: {constant} is no number")


# `float` takes any number of digits.
_DECODER: Final = json.JSONDecoder(parse_int=float, parse_constant=_refuse)


@frozen
class Member:
    """Where a member's key begins, and where its value begins and ends."""

    key: str
    at: int
    begin: int
    end: int


class Document:
    """The text of a JSON object."""

    def __init__(self, text: str, *, comments: bool = False) -> None:
        self.text = text if text.strip() else "{}\n"
        self._comments = comments
        self._parse()

    def get(self, path: Sequence[str]) -> Json:
        value = self.value
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def set(self, path: Sequence[str], value: Json) -> None:
        """Set a value, and make missing objects on the way to it."""
        start = self._skip(0)
        for depth, key in enumerate(path):
            if self._plain[start] != "{":
                raise BrokenJson(
                    f"{'.'.join(path[:depth])} is not an object ({self._where(start)})"
                )
            members = self._members(start)
            found = [member for member in members if member.key == key]
            if not found:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._insert(start, members, key, value)
                return
            start = found[-1].begin  # of equal keys, the last one counts
        member = found[-1]
        self._replace(member.begin, member.end, self._written(value, self._indent_at(member.at)))

    def remove(self, path: Sequence[str]) -> None:
        """Remove a value; if its keys stand there several times, all that they stand for."""
        while (found := self._find(self._skip(0), path)) is not None:
            inside, members, at = found
            if at + 1 < len(members):
                self._replace(members[at].at, members[at + 1].at, "")
            elif at:
                self._replace(members[at - 1].end, members[at].end, "")
            else:
                self._replace(inside + 1, self._end_of(inside) - 1, "")

    def _find(self, start: int, path: Sequence[str]) -> tuple[int, list[Member], int] | None:
        """Return where the object that has a value begins, its members, and which of them it is."""
        key, *rest = path
        members = self._members(start) if self._plain[start] == "{" else []
        for at, member in enumerate(members):
            if member.key == key:
                found = self._find(member.begin, rest) if rest else (start, members, at)
                if found is not None:
                    return found
        return None

    def _parse(self) -> None:
        self._plain = _blank(_COMMENT, self.text) if self._comments else self.text
        if self._comments:
            self._plain = _blank(_TRAILING_COMMA, self._plain)
        try:
            self.value = _DECODER.decode(self._plain)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise BrokenJson(f"it is not JSON: {error.msg} ({where})") from None
        except RecursionError:
            raise BrokenJson("it is nested too deeply") from None
        if not isinstance(self.value, dict):
            raise BrokenJson("it is not a JSON object")

    def _end_of(self, begin: int) -> int:
        return _DECODER.raw_decode(self._plain, begin)[1]

    def _members(self, start: int) -> list[Member]:
        members = []
        at = self._skip(start + 1)
        while self._plain[at] != "}":
            key, after = _DECODER.raw_decode(self._plain, at)
            begin = self._skip(self._skip(after) + 1)
            end = self._end_of(begin)
            members.append(Member(key, at, begin, end))
            at = self._skip(end)
            if self._plain[at] == ",":
                at = self._skip(at + 1)
        return members

    def _insert(self, start: int, members: list[Member], key: str, value: Json) -> None:
        close = self._end_of(start) - 1
        last = len(self.text[:close].rstrip())  # after a comment too, if there is one
        own_line = "\n" in self.text[start:close] or not (members or self._on_one_line)
        indent = self._indent_at(members[-1].at if members else start)
        if not members:
            indent += self._unit()
        lead = f"{self._newline()}{indent}" if own_line else " " if members else ""
        tail = ""
        if own_line and "\n" not in self.text[last:close]:
            tail = f"{self._newline()}{self._indent_at(start)}"
        written = f"{json.dumps(key, ensure_ascii=False)}: {self._written(value, indent)}"
        pieces = [self.text[:last], lead, written, tail, self.text[close if tail else last :]]
        if members:
            before = members[-1].end
            comma = "" if "," in _blank(_COMMENT, self.text[before:close]) else ","
            pieces[0] = f"{self.text[:before]}{comma}{self.text[before:last]}"
        self.text = "".join(pieces)
        self._parse()

    def _replace(self, begin: int, end: int, written: str) -> None:
        self.text = f"{self.text[:begin]}{written}{self.text[end:]}"
        self._parse()

    @property
    def _on_one_line(self) -> bool:
        return bool(self.value) and "\n" not in self.text.strip()

    def _written(self, value: Json, indent: str) -> str:
        if self._on_one_line:
            return json.dumps(value, ensure_ascii=False)
        text = json.dumps(value, ensure_ascii=False, indent=self._unit())
        return text.replace("\n", f"{self._newline()}{indent}")

    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _unit(self) -> str:
        found = _INDENTED.search(self._plain)
        return found[1] if found else "  "

    def _indent_at(self, at: int) -> str:
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._plain, at)
        return found.end() if found else at

    def _where(self, at: int) -> str:
        before = self.text[:at]
        return f"line {before.count(chr(10)) + 1}, column {at - before.rfind(chr(10))}"


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace matches by spaces; strings and newlines stay."""

    def blanked(found: re.Match[str]) -> str:
        piece = found[0]
        return piece if piece.startswith('"') else re.sub(r"[^\r\n]", " ", piece)

    return pattern.sub(blanked, text)
