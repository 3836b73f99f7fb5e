"""Operations that are not offered, which no argument of another one may lead to.

A variable of a path is quoted, so that it stays in its segment. But many frameworks, such as those
on ASGI and WSGI, decode a path before they look where it leads: `/users/5%2Fkeys` is
`/users/{id}/keys` there. And for `/users/{id}`, `me` leads to `/users/me`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final
from urllib.parse import unquote

from attrs import frozen

from trio_mcp.compose.openapi.operations import VARIABLE, Operation
from trio_mcp.errors import ToolError

_ANY: Final = "{}"

Segments = tuple[str, ...]
"""A path without its slashes, of which servers merge some; in a template, with `{}` for values."""


@frozen(eq=False)
class Reachable:
    """The paths that are not offered to which arguments of an operation could lead.

    Args:
        own: The operation's path.
        others: The paths, each with whether it is closer to what both fit than the operation's.
    """

    own: Segments = ()
    others: Sequence[tuple[Segments, bool]] = ()

    def check(self, path: str) -> None:
        """Raise `ToolError` if a path with arguments in it is that of an operation left out."""
        if not self.others:
            return
        segments = _segments(unquote(path))
        is_own = _fits(self.own, segments)
        for other, is_closer in self.others:
            if (is_closer or not is_own) and _fits(other, segments, is_closer):
                raise ToolError("The arguments would lead to another operation, which is left out")


class LeftOut:
    """The operations of a document that are not offered."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._paths: defaultdict[str, list[Segments]] = defaultdict(list)
        for operation in operations:
            self._paths[operation.method].append(_template(operation))

    def reachable(self, operation: Operation) -> Reachable:
        """Return those to which arguments of an operation could lead."""
        own = _template(operation)
        fixed = next((place for place, each in enumerate(own) if _ANY in each), len(own))
        others = [
            (other, _is_closer(other, own))
            for other in self._paths[operation.method]
            if fixed < len(own) and all(map(_fits_segment, other[:fixed], own[:fixed]))
        ]
        return Reachable(own, others)


def _segments(path: str) -> Segments:
    return tuple(filter(None, path.split("/")))


def _template(operation: Operation) -> Segments:
    path = operation.path.partition("#")[0].partition("?")[0]
    return _segments(unquote(VARIABLE.sub(_ANY, path)))


def _is_closer(other: Segments, own: Segments) -> bool:
    """Whether a router prefers the one path for what both fit: it says more where they differ."""
    said = ((_said(theirs), _said(ours)) for theirs, ours in zip(other, own, strict=False))
    return next((theirs > ours for theirs, ours in said if theirs != ours), False)


def _said(segment: str) -> float:
    return len(segment) if _ANY in segment else inf


def _fits(template: Segments, path: Segments, with_more: bool = False) -> bool:
    """Whether a path is one of a template, whose last value may have slashes in it."""
    if with_more and _ANY in template[-1]:
        path = path[: len(template)]
    return len(template) == len(path) and all(map(_fits_segment, template, path))


def _fits_segment(template: str, text: str) -> bool:
    first, *others = template.split(_ANY)
    if not others:
        return template == text
    at = len(first)
    for piece in others[:-1]:  # each value has a character at least
        found = text.find(piece, at + 1)
        if found < 0:
            return False
        at = found + len(piece)
    has_room = len(text) > at + len(others[-1])
    return has_room and text.startswith(first) and text.endswith(others[-1])
