"""Patterns: which there are, and what their text may cost."""

from typing import Any

import pytest

from trio_mcp.schema import SchemaError, compile_validator
from trio_mcp.schema.bounds import check_schema, pattern_size

pytestmark = pytest.mark.requirement("C3")

SEMVER = (
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
HTML_EMAIL = (
    r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$"
)
TOO_MUCH = "The arguments are too much work to check against the schema"


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        (r"^[a-z0-9]+(?:-[a-z0-9]+)*$", "a-b", "a-"),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "a@b.c", "a@b"),
        (SEMVER, "1.2.3-rc.1+b", "1.2"),
        (HTML_EMAIL, "a@example.com", "a@-"),
        (
            r"^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$",
            "127.0.0.1",
            "256.1.1.1",
        ),
        (r"^\p{Lu}\p{Ll}+$", "Émile", "émile"),
        (r"(?i)^[a-z]+$", "ABC", "1"),
        (r"^\w+(\s\w+)*$", "two words", "two  words"),
        # What a backtracking engine would take for ever for.
        (r"^(a+)+$", "a" * 5000, "a" * 5000 + "b"),
        (r"^(\w+\s?)*$", "word " * 500, "word " * 500 + "!"),
        (r"(x+x+)+y", "x" * 500 + "y", "x" * 500),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100 + "Zz", "a" * 100),
        # What the analysis of such patterns took for ever for, or overlooked.
        (r"(){2000000000}", "x", None),
        (r"((^){1,2}){40}x", "x", "y" * 5000),
    ],
)
def test_patterns_are_matched_in_linear_time(pattern: str, fits: str, fits_not: str | None) -> None:
    validate = compile_validator({"pattern": pattern})
    assert validate(fits) is None
    assert fits_not is None or "must match the pattern" in (validate(fits_not) or "")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"^(?=.*[A-Z]).{8,}$", "what looks ahead or behind, or refers back, cannot be matched in"),
        (r"(?<!a)b", "what looks ahead or behind"),
        (r"(\w+)\1", "or refers back"),
        (r"(a{100}){100}\p{L}{90}", "it is too large; use fewer or smaller repeats"),
        (r"(", "is no regular expression"),
        (r"a{99999999999}", "is no regular expression, or far too large"),
        (r"[a", "is no regular expression"),
    ],
)
def test_patterns_that_are_refused(pattern: str, words: str) -> None:
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
        with pytest.raises(SchemaError, match=r"the schema at #: the pattern .* is n") as caught:
            check_schema(schema)
        assert words in str(caught.value)


def test_many_states_make_a_pattern_large() -> None:
    assert pattern_size("^[a-z]+$") == 0
    assert 1024 < pattern_size("[ab]*a[ab]{20}c") < pattern_size("[ab]*a[ab]{500}c")


def test_long_texts_are_for_small_patterns() -> None:
    text = "a" * 5_000_000
    assert compile_validator({"pattern": "^[a-z]+$"})(text) is None
    assert TOO_MUCH in (compile_validator({"pattern": "[ab]*a[ab]{20}c"})(text) or "")


def test_the_texts_of_a_request_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred texts, each short enough, took eleven seconds together."""
    validate = compile_validator({"items": {"pattern": "(a?){500}a{500}c"}})
    text = "ab" * 500 + "a" * 500 + "c"
    assert validate([text]) is None
    monkeypatch.setattr("trio_mcp.schema.engine._SECONDS", (0.0, 0.0))
    assert TOO_MUCH in (validate([text] * 300) or "")


def test_names_count_as_texts() -> None:
    for schema in (
        {"patternProperties": {"[ab]*a[ab]{500}c": {}}},
        {"propertyNames": {"pattern": "[ab]*a[ab]{500}c|^x"}},
    ):
        validate = compile_validator(schema)
        assert validate({"x": 1}) is None
        assert TOO_MUCH in (validate({"x" * 100_000: 1}) or "")


def test_many_short_texts_for_a_large_pattern() -> None:
    validate = compile_validator({"items": {"pattern": r"^\S+@\S+\.\S+$"}})
    addresses = [f"somebody{number}@example.com" for number in range(10_000)]
    assert validate(addresses) is None
    assert validate([*addresses, "nobody"]) == (
        r"Argument '[10000]' must match the pattern '^\\S+@\\S+\\.\\S+$', but a string came "
        "('nobody')."
    )


@pytest.mark.parametrize(
    "reference",
    ["https://127.0.0.1:9/a.json", "http://127.0.0.1:9/a.json", "file:///etc/hostname", "a.json"],
)
@pytest.mark.parametrize("where", ["$ref", "$dynamicRef"])
def test_nothing_is_ever_fetched(
    reference: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr("socket.socket.connect", refuse)
    for inferred in (False, True):
        with pytest.raises(SchemaError, match="nothing is ever fetched"):
            compile_validator({where: reference}, inferred=inferred)("x")
