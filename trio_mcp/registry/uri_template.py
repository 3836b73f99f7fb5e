"""URI templates (RFC 6570), read backwards: from a URI to the values of the variables.

The RFC says how a template and values make a URI, and leaves the way back to others. Here a
template is one regular expression, compiled when a URI first comes near it. Of the RFC there is
what has one way back and is in use; the rest is refused when the template is read.

**Time.** However a URI is made, matching is linear in its length: no expression has two ways to
take the same text. A value after some text that the value before it could hold as well does not
hold that text. At most one value takes slashes, and it begins where only one place is possible; all
before it is an atomic group, which is not tried in another way once it has matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from typing import Final, NoReturn
from urllib.parse import quote, unquote_to_bytes

from attrs import define, field, frozen

from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.errors import SchemaError

LONGEST_URI: Final = 8192
"""Bytes in the longest URI that is looked at."""

Values = dict[str, str | list[str]]

_Reader = Callable[[str], Values | None]
"""Turns what a group of the expression has matched into variables; `None` if it cannot be them."""


@frozen(slots=False)  # a cached property would make each attribute slow to read
class UriTemplate:
    """A URI template to match URIs against.

    It is made of text and of `{x}`, `{+path}`, `{/segment}`, `{/rest*}`, `{?query}` and `{?tag*}`;
    all may have several variables, but only one of them may take slashes.

    - `{x}` and `{+x}` take one character at least. All others may be left out altogether, and then
      are not among the values. `{/…}` ends a path. The variables of `{?…}` end the template, and
      are known by their names, in any order; other names do not match.
    - `{x}` holds no reserved character (`/`, `:`, `@` …) unless it is encoded, `{+x}` any. But a
      `?` begins the query and a `#` the fragment wherever the template has one. Values in a query
      may hold what ends none of them: `at=10:30` is as good as `at=10%3A30`.
    - Where the text between two values could belong to the first one, the second one does not hold
      it: from `a.tar.gz`, `{name}.{suffix}` takes `a.tar` and `gz`.

    Attributes:
        text: The template.
        variables: The names of its variables, in order.
    """

    text: str
    variables: tuple[str, ...]
    _begin: str = field(repr=False, eq=False)  # the text before all variables, in lower case
    _expression: str = field(repr=False, eq=False)
    _readers: tuple[_Reader, ...] = field(repr=False, eq=False)  # one for each of its groups

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Read a template.

        Raises:
            SchemaError: It is not a template, or cannot be read backwards; the message says where
                and what to write instead.

        Example:
            >>> UriTemplate.parse("note://{year}/{title}{?draft}").variables
            ('year', 'title', 'draft')
        """
        if len(text) > LONGEST_URI:
            raise SchemaError(
                f"a URI template has {LONGEST_URI} characters at most, not {len(text)}; "
                "no URI that is longer is looked at"
            )
        writer = _Writer()
        try:
            parts = list(_parts(text))
            for index, part in enumerate(parts):
                writer.add(part, parts[index + 1 :])
        except _Mistake as mistake:
            at, reason = mistake.args
            what = f"the URI template {shorten(text)} is wrong at character {at}: {reason}"
            raise SchemaError(what) from None
        if not writer.names:
            raise SchemaError(
                f"the URI template {shorten(text)} has no variables; "
                "write some as {name}, or use it as a URI, without a template"
            )
        writer.end()
        begin = parts[0].text.lower() if isinstance(parts[0], _Literal) else ""
        return cls(text, tuple(writer.names), begin, "".join(writer.pieces), tuple(writer.readers))

    @classmethod
    def parse_or_ignore(cls, text: str) -> UriTemplate:
        """Read a template; make one without variables, which matches no URI, if that fails."""
        try:
            return cls.parse(text)
        except SchemaError:
            return cls(text, (), "", "(?!)", ())

    def match(self, uri: str) -> Values | None:
        """The values with which the template makes this URI.

        Text outside of variables must be the same, apart from the case of the scheme and of the
        digits of escapes. Letters beyond ASCII may stand in the URI as they are.

        Returns:
            The values that are there, decoded: strings, and lists of strings for variables with
            a `*`. A value may hold anything but NUL, a `/` from `%2F` and `..` among them: to
            decide what it may mean is up to the caller. `None` if the URI does not match, is no
            URI, is longer than 8 KiB, or holds encoded bytes that are not UTF-8.

        Example:
            >>> UriTemplate.parse("note://{year}/{title}{?draft}").match("note://2024/a%20b")
            {'year': '2024', 'title': 'a b'}
        """
        text = read_uri(uri)
        if text is None or text[: len(self._begin)].lower() != self._begin:
            return None
        match = self._compiled.fullmatch(text)
        if match is None:
            return None
        found: Values = {}
        for read, run in zip(self._readers, match.groups(), strict=True):
            values = {} if run is None else read(run)
            if values is None:
                return None
            found |= values
        return {name: found[name] for name in self.variables if name in found}

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._expression, re.DOTALL)


# URIs -----------------------------------------------------------------------------------------

_ESCAPED: Final = 0xE000  # the byte XY of %XY is the character 0xE000 + XY, which has no case
_ASCII: Final = r"A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;="
_WELL_FORMED: Final = re.compile(rf"(?:[{_ASCII}]++|%[0-9A-Fa-f]{{2}})*+")
_ESCAPE: Final = re.compile(r"%(..)")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def read_uri(uri: str) -> str | None:
    """A URI with one character for each escape; `None` if it is none, or too long.

    So no escape is cut in the middle, and `%2f` is the same as `%2F`. Letters beyond ASCII are
    taken for their percent-encoded UTF-8, as in an IRI (RFC 3987). What is encoded must be UTF-8
    as well, in total, and must not hold NUL.
    """
    return _read(uri) if len(uri) <= LONGEST_URI else None


@lru_cache(maxsize=4)
def _read(uri: str) -> str | None:  # all templates are asked for the same URI
    if not uri.isascii():
        try:
            uri = _BEYOND_ASCII.sub(lambda letters: quote(letters[0]), uri)
        except UnicodeEncodeError:  # half a surrogate pair
            return None
    if len(uri) > LONGEST_URI or not _WELL_FORMED.fullmatch(uri):
        return None
    if "%" not in uri:
        return uri
    try:
        if "\0" in unquote_to_bytes(uri).decode():
            return None
    except UnicodeDecodeError:
        return None
    return _ESCAPE.sub(lambda escape: chr(_ESCAPED + int(escape[1], 16)), uri)


def _decode(run: str) -> str:
    return run if run.isascii() else bytes(ord(letter) & 0xFF for letter in run).decode()


def _one_value(name: str, run: str) -> Values:
    return {name: _decode(run)}


def _segments(name: str, run: str) -> Values:
    return {name: [_decode(segment) for segment in run.split("/")]}


def _pairs(lists: Mapping[str, bool], run: str) -> Values | None:
    """Pairs `name=value` of a query, in any order; only lists may have several of a name."""
    found: dict[str, list[str]] = {}
    for pair in run.split("&"):
        name, _, value = pair.partition("=")
        if name not in lists or (name in found and not lists[name]):
            return None
        found.setdefault(name, []).append(_decode(value))
    return {name: values if lists[name] else values[0] for name, values in found.items()}


# The parts of a template ----------------------------------------------------------------------


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

_PART: Final = re.compile(r"\{([^{}]*)\}|([^{}]+)|[{}]")
_GOOD_LITERAL: Final = re.compile(rf"(?:[{_ASCII}]|[^\x00-\x7f]|%[0-9A-Fa-f]{{2}})*+")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_RFC_OPERATORS: Final = frozenset("+#./;?&=,!@|")
_POSSIBLE: Final = (
    "a template can have {x}, {+x} for a value with slashes, {/x} and the list {/x*} at the end of "
    "the path, and {?a,b} at its own end"
)


class _Mistake(Exception):
    """In a template: where, counted from 1, and what is wrong."""


def _parts(text: str) -> Iterator[_Part]:
    for part in _PART.finditer(text):
        at = part.start() + 1
        expression, literal = part.groups()
        if literal is not None:
            yield _literal(at, literal)
        elif expression is not None:
            yield _expression(at, expression)
        else:
            raise _Mistake(
                at,
                f"this {part[0]} has no counterpart; variables are written {{name}}, and braces "
                "that mean themselves %7B and %7D",
            )


def _literal(at: int, literal: str) -> _Literal:
    good = _GOOD_LITERAL.match(literal)
    end = good.end() if good else 0
    if end < len(literal):
        raise _Mistake(at + end, f"{literal[end]!r} cannot stand in a URI; percent-encode it")
    read = read_uri(literal)
    if read is None:
        raise _Mistake(
            at,
            "what is percent-encoded here is not UTF-8, NUL, or too long, and never matches",
        )
    return _Literal(at, read)


def _expression(at: int, body: str) -> _Expression:
    operator = body[:1] if body[:1] in _RFC_OPERATORS else ""
    lists: dict[str, bool] = {}
    for variable in body[len(operator) :].split(","):
        name = variable.removesuffix("*")
        exploded = name != variable
        is_list = exploded and operator in ("/", "?")
        if operator not in _OPERATORS or ":" in name or exploded != is_list:
            raise _Mistake(at, f"{{{body}}} has no one way back; {_POSSIBLE}")
        if not _NAME.fullmatch(name):
            raise _Mistake(
                at,
                f"{shorten(name)} is not a name for a variable; use letters from A to Z, digits "
                "and _, with dots in between, as in {name}, and commas between names",
            )
        if name in lists:
            raise _Mistake(at, f"{name} occurs twice; give each variable its own name")
        if operator == "/" and True in lists.values():
            raise _Mistake(at, f"in {{{body}}} nothing tells where the list ends; put it last")
        lists[name] = exploded
    return _Expression(at, operator, lists)


# The expression -------------------------------------------------------------------------------

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_OPERATORS: Final = ("", "+", "/", "?")


def _other_than(characters: str) -> str:
    return f"[^{re.escape(characters)}]" if characters else "."


def _begun_by(later: Iterable[_Part]) -> str:
    """Return the marks of query and fragment that a value with slashes leaves to later parts."""
    texts = [part.text if isinstance(part, _Literal) else part.operator for part in later]
    return "".join(mark for mark in "#?" if any(mark in text for text in texts))


@define
class _Writer:
    """Writes the regular expression of a template, part by part."""

    pieces: list[str] = field(factory=list)
    readers: list[_Reader] = field(factory=list)
    names: dict[str, None] = field(factory=dict)
    _literal: str = ""  # not written yet, as it depends on what follows
    _previous: str | None = None  # the last variable
    _taken: str = ""  # what it takes
    _wide: str | None = None  # the variable that takes slashes
    _ended: str = ""  # the operator after which little may follow
    _has_query: bool = False

    def add(self, part: _Part, later: Iterable[_Part]) -> None:
        mark = part.text[0] if isinstance(part, _Literal) else part.operator
        if self._ended == "?":
            raise _Mistake(part.at, "nothing can follow {?…}; put it last, with all variables")
        if self._ended == "/" and mark not in ("?", "#"):
            raise _Mistake(part.at, "only a query can follow {/…}; put it at the end of the path")
        if isinstance(part, _Literal):
            self._literal += part.text
            self._ended = ""
            self._has_query |= not {"?", "#"}.isdisjoint(part.text)
            return
        for name in part.lists:
            if name in self.names:
                raise _Mistake(part.at, f"{name} occurs twice; give each variable its own name")
            self.names[name] = None
        if part.operator == "/":
            self._path(part)
        elif part.operator == "?":
            self._query(part)
        else:
            taken = _other_than(_begun_by(later) if part.operator else _RESERVED)
            for index, name in enumerate(part.lists):
                self._literal += "," if index else ""
                self._value(part.at, name, taken, wide=bool(part.operator))

    def end(self) -> None:
        """Write the text that is left."""
        if not self.pieces and (scheme := _SCHEME.match(self._literal)):
            self.pieces.append(f"(?i:{re.escape(scheme[0])})")
            self._literal = self._literal[scheme.end() :]
        self.pieces.append(re.escape(self._literal))
        self._literal = ""

    def _value(self, at: int, name: str, taken: str, *, wide: bool) -> None:
        between, alone, shared = self._literal, taken, False
        if self._previous is not None:
            shared = bool(re.fullmatch(f"{self._taken}*", between))
            if not between:
                self._refuse_row(at, name, "put some text between them")
            if wide and self._wide is not None:
                self._refuse_row(at, name, "only one can take slashes")
            if wide and shared:
                self._refuse_row(at, name, "put a / between them")
        if shared:  # the last place is the only one: the text does not occur behind it
            again = f"(?!{re.escape(between)})"
            self.pieces.append(again.join(map(re.escape, between)))
            self._literal = ""
            alone = f"(?:{again}{taken})"
        else:
            self.end()
        if wide:
            self.pieces[:] = [f"(?>{''.join(self.pieces)})"]
            self._wide = name
        self.pieces.append(f"({alone}+)")
        self.readers.append(partial(_one_value, name))
        self._previous, self._taken = name, taken

    def _path(self, part: _Expression) -> None:
        first = next(iter(part.lists))
        if self._previous is not None and self._previous == self._wide and not self._literal:
            self._refuse_row(part.at, first, "put some text between them")
        if self._wide is not None and any(part.lists.values()):
            self._refuse_row(part.at, first, "only one can take slashes")
        self.end()
        expression = ""
        for exploded in reversed(part.lists.values()):
            reserved = _RESERVED.replace("/", "") if exploded else _RESERVED
            expression = f"(?:/({_other_than(reserved)}*+){expression})?"
        self.pieces.append(expression)
        for name, exploded in part.lists.items():
            self.readers.append(partial(_segments if exploded else _one_value, name))
        self._ended = "/"

    def _query(self, part: _Expression) -> None:
        if self._has_query:
            raise _Mistake(
                part.at, "a query or fragment has begun already; write all of it as {?…}, or none"
            )
        self.end()
        self.pieces.append(r"(?:\?([^#\[\]]*+))?")
        self.readers.append(partial(_pairs, part.lists))
        self._ended = "?"

    def _refuse_row(self, at: int, name: str, advice: str) -> NoReturn:
        raise _Mistake(at, f"nothing tells where {self._previous} ends and {name} begins; {advice}")
