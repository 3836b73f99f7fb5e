"""Answers of several pages, put into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urljoin, urlsplit

from attrs import evolve, field, frozen, validators

from trio_mcp.compose.openapi.responses import Answer, next_link
from trio_mcp.public import public_in
from trio_mcp.wire.jsonrpc import Json, encode

_LONGEST: Final = 2000
_MISSING: Final = object()


@public_in("trio_mcp.compose.openapi")
@frozen(kw_only=True)
class Pages:
    """How the pages of a service's answers follow each other.

    Without `cursor`, a page names the next one in its `Link` header (RFC 8288). The paths are names
    and indices in a JSON value, joined by dots, such as `data.-1.id`.

    Args:
        limit: How many pages are put together for one call.
        items: The path of the list in a page; by default the page is the list.
        cursor: The path of what the next request needs.
        parameter: The query parameter that takes it.
        more: The path of a value that says whether there is another page, if there is one.

    Raises:
        ValueError: There is a `cursor` without a `parameter`, or `limit` is not positive.

    Example:
        >>> Pages(limit=5, items="data", cursor="data.-1.id", parameter="starting_after").limit
        5
    """

    limit: int = field(default=1, validator=[validators.instance_of(int), validators.ge(1)])
    items: str | None = None
    cursor: str | None = None
    parameter: str | None = None
    more: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.cursor is None) != (self.parameter is None):
            raise ValueError("Pages: cursor and parameter belong together")

    def after(self, answer: Answer) -> dict[str, str] | None:
        """Return the query parameters of the next page; `None` if no page follows."""
        if self.cursor is None:
            return _linked(answer)
        try:
            value = answer.json()
        except (ValueError, TypeError):
            return None
        cursor = _at(value, self.cursor)
        goes_on = self.more is None or _at(value, self.more) is True
        if not goes_on or cursor is _MISSING or cursor in (None, ""):
            return None
        text = cursor if isinstance(cursor, str) else encode(cursor)[:-1].decode()
        return {str(self.parameter): text} if len(text) <= _LONGEST else None

    def joined(self, answers: list[Answer]) -> Answer:
        """Join pages into one; if they are not lists, return the first one."""
        whole = answers[0].json()
        items = self._items(whole)
        if items is None:
            return answers[0]
        for answer in answers[1:]:
            items += self.items_of(answer) or []
        return evolve(answers[0], body=encode(whole)[:-1], headers=answers[-1].headers)

    def items_of(self, answer: Answer) -> list[Any] | None:
        """Return the list in an answer; `None` if it is not a page at all."""
        try:
            return self._items(answer.json())
        except (ValueError, TypeError):
            return None

    def _items(self, value: Json) -> list[Any] | None:
        found = value if self.items is None else _at(value, self.items)
        return found if isinstance(found, list) else None


def _linked(answer: Answer) -> dict[str, str] | None:
    """Return the query of the next page by the `Link` header, if that is at the same host."""
    link = next_link(answer.headers)
    if link is None:
        return None
    try:
        target = urlsplit(urljoin(str(answer.url), link))
    except ValueError:
        return None
    here = urlsplit(str(answer.url))
    if (target.scheme, target.netloc) != (here.scheme, here.netloc):
        return None
    # The path stays ours: services call the same thing by different paths.
    return dict(parse_qsl(target.query[:_LONGEST], keep_blank_values=True))


def _at(value: Json, path: str) -> Any:
    for step in path.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return _MISSING
    return value


def changed(after: Mapping[str, str], before: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of the next page that the query of this one does not have."""
    known = set(parse_qsl(before, keep_blank_values=True))
    return ((name, value) for name, value in after.items() if (name, value) not in known)
