"""What `WWW-Authenticate` says, however it is written."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.auth import challenges
from trio_mcp.auth.challenges import (
    MOST_CHALLENGES,
    MOST_CHARS,
    Challenge,
    parse_challenges,
)

pytestmark = pytest.mark.requirement("J5")

CASES: dict[str, list[Challenge]] = {
    "": [],
    ", ,": [],
    "Bearer": [Challenge("bearer")],
    "Bearer,": [Challenge("bearer")],
    'Bearer realm="a, b"': [Challenge("bearer", {"realm": "a, b"})],
    'Bearer error="x", scope="a b"': [Challenge("bearer", {"error": "x", "scope": "a b"})],
    'bearer Error = "x" , scope=a': [Challenge("bearer", {"error": "x", "scope": "a"})],
    r'Bearer realm="a\"b\\c"': [Challenge("bearer", {"realm": 'a"b\\c'})],
    'Basic realm="x", Bearer scope="a"': [
        Challenge("basic", {"realm": "x"}),
        Challenge("bearer", {"scope": "a"}),
    ],
    "Negotiate dG9r==, DPoP algs=ES256": [
        Challenge("negotiate"),
        Challenge("dpop", {"algs": "ES256"}),
    ],
    "Basic, Bearer": [Challenge("basic"), Challenge("bearer")],
    'Bearer scope="a", scope="b", Basic': [Challenge("basic")],
    'Bearer scope="a': [Challenge("bearer")],
    'Bearer scope="a" nonsense': [Challenge("bearer")],
    'realm="x"': [],
    '"Bearer"': [],
}


@pytest.mark.parametrize("text", CASES)
def test_challenges_are_read(text: str) -> None:
    assert list(parse_challenges([text])) == CASES[text]


def test_several_fields_are_one_list() -> None:
    found = parse_challenges(['Basic realm="x"', 'Bearer scope="b a b"'])
    assert [each.scheme for each in found] == ["basic", "bearer"]
    assert found[1].scopes == ("b", "a")


tokens = st.text("!#$%&'*+-.^_`|~" + string.ascii_letters + string.digits, min_size=1, max_size=20)
values = st.text(string.printable + "äö…", max_size=50)


@given(st.lists(st.tuples(tokens, st.dictionaries(tokens.map(str.lower), values, max_size=4))))
def test_what_is_written_well_is_read_as_it_was_meant(
    meant: list[tuple[str, dict[str, str]]],
) -> None:
    meant = meant[:MOST_CHALLENGES]
    written = []
    for scheme, parameters in meant:
        quoted = [
            f'{name}="{value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
            for name, value in parameters.items()
        ]
        written.append(f"{scheme} {', '.join(quoted)}".strip())
    found = parse_challenges(written)
    assert [(each.scheme, each.parameters) for each in found] == [
        (scheme.lower(), parameters) for scheme, parameters in meant
    ]


@given(st.text('Bearer ="\\,ab' + "\t", max_size=200))
def test_nothing_breaks_it(text: str) -> None:
    parse_challenges([text])


@pytest.mark.parametrize("piece", ['a="', "a=1,", "a ", '"', ",", "\\", 'a="\\', "a=b=", " ", "a="])
def test_a_megabyte_holds_nothing_up(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it were read to its end: a quadratic reader would not be done today."""
    monkeypatch.setattr(challenges, "MOST_CHARS", 1 << 20)
    started = time.process_time()
    parse_challenges(["Bearer " + piece * ((1 << 20) // len(piece))])
    assert time.process_time() - started < 10


def test_what_is_beyond_the_bound_is_not_read() -> None:
    padding = "," * MOST_CHARS
    assert parse_challenges(["Basic", padding, "Bearer"]) == (Challenge("basic"),)
    assert len(parse_challenges(["Basic"] * 1000)) == MOST_CHALLENGES
