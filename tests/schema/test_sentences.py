from typing import Any

import pytest

from trio_mcp.schema.sentences import describe, expectation, join_path, join_words, shorten

pytestmark = pytest.mark.requirement("B4")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null came (null)"),
        (True, "a boolean came (true)"),
        (1.5, "a number came (1.5)"),
        ("", "a string came ('')"),
        ((), "an array came ([])"),
        ({}, "an object came ({})"),
    ],
)
def test_what_came(value: Any, text: str) -> None:
    assert describe(value) == text
    assert text.startswith(describe(value, is_shown=False))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "'x'"),
        ("x" * 10**6, f"'{'x' * 56}..."),
        ([1, [2], [], {"a": 1}, {}], "[1, [...], [], {...}, {}]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ([0] * 100, "100 items"),
        ({"a": [1], "b": "x"}, "{'a': [...], 'b': 'x'}"),
        (
            dict.fromkeys("abcdefghij", 1),
            "{'a': 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1, 'g': 1, ...",
        ),
        (dict.fromkeys(map(str, range(100))), "100 properties"),
        (2**300, "301 bits long"),
        (True, "true"),
        (None, "null"),
        ([None, {"a": True}, False], "[null, {...}, false]"),
        ({"a": None}, "{'a': null}"),
    ],
)
def test_values_are_cut_short(value: Any, text: str) -> None:
    assert shorten(value) == text
    assert len(shorten(value)) <= 60


def test_lists_in_words() -> None:
    assert join_words([]) == ""
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b"]) == "a or b"
    assert join_words(["a", "b", "c"], "and") == "a, b and c"
    assert join_words(map(str, range(10)), limit=3) == "0, 1 or 8 more"


def test_paths() -> None:
    assert join_path(["user", "address", 0, "zip"]) == "user.address[0].zip"
    assert join_path([3, "a"]) == "[3].a"
    assert len(join_path(["x" * 1000])) == 180


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (True, "anything"),
        (False, "absent"),
        ({}, "a value"),
        ({"type": "string"}, "a string"),
        ({"type": ["integer", "null"]}, "an integer or null"),
        ({"type": "integer", "enum": [1, 2]}, "one of 1 or 2"),
        ({"const": "x"}, "'x'"),
        ({"anyOf": [{"type": "string"}, {"type": "string"}, {"type": "null"}]}, "a string or null"),
        ({"type": "string", "format": "uuid"}, "a UUID"),
        ({"type": "string", "contentEncoding": "base64"}, "base64 text"),
        ({"type": "unheard"}, "a value"),
    ],
)
def test_what_a_schema_asks_for(schema: Any, text: str) -> None:
    assert expectation(schema) == text
