"""URI templates (RFC 6570), read backwards: from a URI to the values of the variables.

The RFC says how a template and values make a URI, and leaves the way back to others. Here a URI
matches if expanding the template can give it, and the values are those that do. Where several
would, a fixed rule decides (see `UriTemplate`); templates that leave nothing to go by are refused
when they are parsed, with a word on how to write them instead.

Parsing turns a template into the groups and pieces of `uri_search`, which does the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NoReturn

from attrs import field, frozen

from trio_mcp.registry.uri_search import (
    LONGEST_URI,
    PARAMETERS,
    QUERY,
    RESERVED,
    UNRESERVED,
    Group,
    Piece,
    Values,
    one_value,
    pairs,
    read_uri,
    search,
    segments,
)
from trio_mcp.schema.sentences import cut

__all__ = ["UriTemplate"]


@frozen
class UriTemplate:
    """A URI template to match URIs against.

    All operators of RFC 6570 are there: `{x}`, `{+path}`, `{#part}`, `{.suffix}`, `{/segment}`,
    `{;parameter}`, `{?query}` and `{&more}`, with several variables each, and lists with
    `{/rest*}`, `{?tag*}`, `{&tag*}` and `{;tag*}`. `{x:3}` is not: the rest of the value is gone.

    - `{x}` and `{+x}` take one character at least: nothing would be the same as no value. All
      others may be left out altogether, and then are not among the values. Of several variables
      in one expression the last ones may be missing; those of `{?…}`, `{&…}` and `{;…}` are told
      by their names, in any order. Other names do not match.
    - `{x}` holds no reserved character (`/`, `:`, `@` …) unless it is encoded, `{+x}` any. But a
      `?` begins the query and a `#` the fragment wherever the template has one, and likewise
      `{;…}` and `{&…}` begin at the first `;` and `&`. Values in a query may hold what ends none
      of them: `at=10:30` is as good as `at=10%3A30`.
    - Where values could be told apart in more than one way, everything optional is rather there
      than not, and then the later variable is the shorter one: from `a.tar.gz`, `{name}.{suffix}`
      takes `a.tar` and `gz`.

    Attributes:
        text: The template.
        variables: The names of its variables, in order.
    """

    text: str
    variables: tuple[str, ...]
    _scheme: int = field(repr=False, eq=False)  # the length of "scheme:", or 0
    _prefix: str = field(repr=False, eq=False)  # what comes before all groups
    _groups: tuple[Group, ...] = field(repr=False, eq=False)

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Read a template.

        Raises:
            ValueError: It is no template, or cannot be read backwards; the message says where
                and what to write instead.

        Example:
            >>> UriTemplate.parse("note://{year}/{title}{?draft}").variables
            ('year', 'title', 'draft')
        """
        if len(text) > LONGEST_URI:
            raise ValueError(
                f"a URI template has {LONGEST_URI} characters at most, not {len(text)}; "
                "no URI that is longer is looked at"
            )
        parts = list(_parts(text))
        names = _names(text, parts)
        _check_rows(text, parts)
        _check_ends(text, parts)
        _check_once(text, parts)
        groups = [_group(part, parts[index + 1 :]) for index, part in enumerate(parts)]
        prefix = groups.pop(0).pieces[0].lead if isinstance(parts[0], _Literal) else ""
        scheme = _SCHEME.match(prefix)
        if scheme:
            prefix = prefix[: scheme.end()].lower() + prefix[scheme.end() :]
        return cls(text, names, scheme.end() if scheme else 0, prefix, tuple(groups))

    def match(self, uri: str) -> Values | None:
        """The values with which the template makes this URI.

        Text outside of variables must be the same, apart from the case of the scheme and of the
        digits of escapes. Letters beyond ASCII may stand in the URI as they are.

        The time that it takes is bounded by the length of the template times that of the URI.

        Returns:
            The values that are there, decoded: strings, and lists of strings for variables with
            a `*`. A value may hold anything but NUL, a `/` from `%2F` and `..` among them: to
            decide what it may mean is up to the caller. `None` if the URI does not match, is no
            URI, is longer than 8 KiB, or holds encoded bytes that are no UTF-8.

        Example:
            >>> UriTemplate.parse("note://{year}/{title}{?draft}").match("note://2024/a%20b")
            {'year': '2024', 'title': 'a b'}
        """
        text = read_uri(uri)
        if text is None:
            return None
        if self._scheme:
            text = text[: self._scheme].lower() + text[self._scheme :]
        if not text.startswith(self._prefix):
            return None
        found = search(self._groups, text, len(self._prefix))
        if found is None:
            return None
        return {name: found[name] for name in self.variables if name in found}


# Parts ----------------------------------------------------------------------------------------


@frozen
class _Literal:
    at: int  # where it begins, counted from 1
    text: str  # as read_uri returns it


@frozen
class _Expression:
    at: int
    operator: str
    lists: dict[str, bool]  # its variables, and whether they have a *


_Part = _Literal | _Expression

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PART: Final = re.compile(r"\{([^{}]*)\}|([^{}]+)|[{}]")
_GOOD_LITERAL: Final = re.compile(
    r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})*+"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_OPERATORS: Final = "+#./;?&"
_LIST_OPERATORS: Final = ("/", ";", "?", "&")


def _refuse(text: str, at: int, reason: str) -> NoReturn:
    raise ValueError(f"the URI template {cut(text)} is wrong at character {at}: {reason}")


def _parts(text: str) -> Iterator[_Part]:
    for part in _PART.finditer(text):
        at = part.start() + 1
        expression, literal = part.groups()
        if literal is not None:
            yield _literal(text, at, literal)
        elif expression is not None:
            yield _expression(text, at, expression)
        else:
            _refuse(
                text,
                at,
                f"this {part[0]} has no counterpart; variables are written {{name}}, and braces "
                "that mean themselves %7B and %7D",
            )


def _literal(text: str, at: int, literal: str) -> _Literal:
    good = _GOOD_LITERAL.match(literal)
    end = good.end() if good else 0
    if end < len(literal):
        _refuse(text, at + end, f"{literal[end]!r} cannot stand in a URI; percent-encode it")
    read = read_uri(literal)
    if read is None:
        _refuse(
            text,
            at,
            "what is percent-encoded here is no UTF-8, NUL, or too long, and never matches",
        )
    return _Literal(at, read)


def _expression(text: str, at: int, body: str) -> _Expression:
    if not body:
        _refuse(text, at, "{} names no variable; write {name}")
    if body[0] in "=,!@|":
        _refuse(text, at, f"RFC 6570 gives the operator {body[0]!r} no meaning; leave it out")
    operator = body[0] if body[0] in _OPERATORS else ""
    lists: dict[str, bool] = {}
    for variable in body[len(operator) :].split(","):
        name = variable.removesuffix("*")
        exploded = name != variable
        if ":" in name:
            _refuse(
                text,
                at,
                f"{{{body}}} keeps only the beginning of a value, and the rest cannot be found "
                f"again; write {{{operator}{name.partition(':')[0]}}}",
            )
        if not _NAME.fullmatch(name):
            _refuse(
                text,
                at,
                f"{cut(name)} is no name for a variable; use letters from A to Z, digits and _, "
                "with dots in between, and commas between names",
            )
        if name in lists:
            _refuse(text, at, f"{name} occurs twice in {{{body}}}; give each variable its own name")
        if operator == "/" and True in lists.values():
            _refuse(text, at, f"in {{{body}}} nothing tells where the list ends; put it last")
        if exploded and operator not in _LIST_OPERATORS:
            _refuse(
                text,
                at,
                f"{{{body}}} is no list that can be told from a plain value; write "
                f"{{+{name}}} for a value with slashes, or for a list {{/{name}*}}, {{?{name}*}}, "
                f"{{&{name}*}} or {{;{name}*}}",
            )
        lists[name] = exploded
    return _Expression(at, operator, lists)


def _names(text: str, parts: Iterable[_Part]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for part in parts:
        if isinstance(part, _Literal):
            continue
        for name in part.lists:
            if name in names:
                _refuse(text, part.at, f"{name} occurs twice; give each variable its own name")
            names[name] = None
    if not names:
        raise ValueError(
            f"the URI template {cut(text)} has no variables; "
            "write some as {name}, or use it as a URI, without a template"
        )
    return tuple(names)


# What cannot be read backwards ----------------------------------------------------------------


def _check_rows(text: str, parts: Iterable[_Part]) -> None:
    """Refuse rows of expressions, with no text between them, that nothing keeps apart."""
    row: dict[str, str] = {}  # their operators, with the last variable of each
    for part in parts:
        if isinstance(part, _Literal):
            row = {}
            continue
        names = list(part.lists)
        rival = None
        if row and part.operator in ("", "+"):
            rival = next(reversed(row.values()))
        elif part.operator in row:
            rival = row[part.operator]
        elif "+" in row and part.operator == "/" and part.lists[names[-1]]:
            rival = row["+"]
        if rival:
            _refuse(
                text,
                part.at,
                f"nothing tells where {rival} ends and {names[0]} begins; put some text between "
                f"them, or join them as in {{{part.operator}a,b}}",
            )
        row[part.operator] = names[-1]


def _check_ends(text: str, parts: Sequence[_Part]) -> None:
    """Refuse what would be taken for a part of the expression before."""
    for index, part in enumerate(parts):
        if isinstance(part, _Literal) or part.operator not in _ENDS:
            continue
        ends, advice = _ENDS[part.operator]
        for later in parts[index + 1 :]:
            mark = later.text[0] if isinstance(later, _Literal) else later.operator
            if mark not in ends:
                _refuse(text, later.at, f"after {{{part.operator}…}} {advice}")
            if isinstance(later, _Literal):
                break


def _check_once(text: str, parts: Iterable[_Part]) -> None:
    """Refuse a second beginning of the query or of the parameters."""
    begun: set[str] = set()
    for part in parts:
        if isinstance(part, _Literal):
            begun.update({"?"}.intersection(part.text))
        elif part.operator in begun:
            _refuse(text, part.at, _BEGUN[part.operator])
        else:
            begun.update(_BEGUN.keys() & {part.operator})


_TO_THE_FRAGMENT: Final = (
    {"#"},
    "nothing but a fragment can follow; put other text and variables before it, and all variables "
    "of the query into it",
)
_ENDS: Final = {
    "#": (set[str](), "nothing can follow; put it last"),
    "?": _TO_THE_FRAGMENT,
    "&": _TO_THE_FRAGMENT,
    ";": (set("/?#&:@!$'()*+[]"), "nothing tells where this begins; put a / between them"),
}
_BEGUN: Final = {
    "?": "the query has begun already; go on with {&…}",
    ";": "{;…} can stand in one place only; put all its variables there",
}


# Groups ---------------------------------------------------------------------------------------


@frozen
class _Values:
    """How the values of an expression are written that are not told by their names."""

    lead: str
    between: str
    all_reserved: bool
    """Whether they may hold what is reserved, but for what begins a later part."""
    optional: bool


_UNNAMED: Final = {
    "": _Values("", ",", all_reserved=False, optional=False),
    "+": _Values("", ",", all_reserved=True, optional=False),
    "#": _Values("#", ",", all_reserved=True, optional=True),
    ".": _Values(".", ".", all_reserved=False, optional=True),
    "/": _Values("/", "/", all_reserved=False, optional=True),
}

_NAMED: Final = {";": (";", PARAMETERS), "?": ("&", QUERY), "&": ("&", QUERY)}
"""What stands between values that are told by their names, and their alphabet."""


def _group(part: _Part, later: Iterable[_Part]) -> Group:
    if isinstance(part, _Literal):
        return Group((Piece(part.text),))
    if part.operator in _NAMED:
        separator, alphabet = _NAMED[part.operator]
        read = partial(pairs, part.lists, separator)
        return Group((Piece(part.operator, alphabet, read=read),), optional=True)
    values = _UNNAMED[part.operator]
    alphabet = _all_but(later) if values.all_reserved else UNRESERVED
    leads = [values.lead] + [values.between] * (len(part.lists) - 1)
    pieces = tuple(
        _piece(lead, alphabet, name, exploded, 0 if values.optional else 1)
        for lead, (name, exploded) in zip(leads, part.lists.items(), strict=True)
    )
    return Group(pieces, values.optional)


def _piece(lead: str, alphabet: str, name: str, exploded: bool, least: int) -> Piece:
    if exploded:
        return Piece(lead, alphabet + "/", least, partial(segments, name))
    return Piece(lead, alphabet, least, partial(one_value, name))


def _all_but(later: Iterable[_Part]) -> str:
    """All characters but those that begin what comes later in the template."""
    begin: set[str] = set()
    for part in later:
        begin |= (
            {"?", "#"}.intersection(part.text)
            if isinstance(part, _Literal)
            else {"?", "#", "&", ";"}.intersection(part.operator)
        )
    return "".join(each for each in RESERVED if each not in begin)
