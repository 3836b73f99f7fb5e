"""Challenges: what is written can be read, and whatever is read, nothing goes wrong."""

import string

from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.auth.challenges import MOST_CHALLENGES, MOST_CHARS, Challenge, parse_challenges

NAME = st.text(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~", min_size=1, max_size=12)
VALUE = st.text(max_size=20)
GRAMMAR = st.text(st.sampled_from('ab=", \\\t~/+Ab1\x00\xff'), max_size=60)


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@st.composite
def challenges(draw: st.DrawFn) -> tuple[list[str], list[Challenge]]:
    """Challenges as somebody writes them, in one field or several, and what they are."""
    fields, meant = [""], []
    for scheme in draw(st.lists(NAME, max_size=4)):
        parameters = draw(st.dictionaries(NAME.map(str.lower), VALUE | NAME, max_size=4))
        written = []
        for name, value in parameters.items():
            bare = value and all(each in string.ascii_letters for each in value)
            shown = value if bare and draw(st.booleans()) else quoted(value)
            space = draw(st.sampled_from(["", " ", "\t"]))
            written.append(f"{name.upper() if draw(st.booleans()) else name}{space}={space}{shown}")
        text = f"{scheme} {draw(st.sampled_from([', ', ',', ' ,, ,']))}".rstrip(", ")
        text += " " + draw(st.sampled_from([", ", ",", " , , "])).join(written) if written else ""
        if fields[-1] and draw(st.booleans()):
            fields.append(text)
        else:
            fields[-1] += (", " if fields[-1] else "") + text
        meant.append(Challenge(scheme.lower(), parameters))
    return fields, meant


@given(challenges())
def test_what_is_written_is_read(written: tuple[list[str], list[Challenge]]) -> None:
    fields, meant = written
    assert list(parse_challenges(fields)) == meant


@given(st.lists(GRAMMAR | st.text(max_size=60), max_size=4))
def test_whatever_is_read_is_challenges_or_nothing(fields: list[str]) -> None:
    for each in parse_challenges(fields):
        assert each.scheme == each.scheme.lower()
        assert each.parameters.keys() == {name.lower() for name in each.parameters}
        assert isinstance(each.scopes, tuple)
        assert each.error is None or isinstance(each.error, str)


@given(GRAMMAR, st.integers(1, 200_000), GRAMMAR)
def test_what_is_long_is_cut(beginning: str, times: int, end: str) -> None:
    repeated = (beginning or "a") * times
    found = parse_challenges([repeated + end])
    assert len(found) <= MOST_CHALLENGES
    read = sum(len(each.scheme) + sum(map(len, each.parameters)) for each in found)
    assert read <= MOST_CHARS


@given(
    st.sampled_from(["x,", "x =", 'x="', 'x="\\', "x x", "x=x,", "x x=x,", " ,", "x  ", "=", '"'])
)
def test_a_megabyte_of_anything(piece: str) -> None:
    found = parse_challenges([piece * (1_000_000 // len(piece))] * 2)
    assert len(found) <= MOST_CHALLENGES
