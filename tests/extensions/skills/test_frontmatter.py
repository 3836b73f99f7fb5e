"""Frontmatter: what YAML becomes as JSON, and what is refused, whatever it costs to read it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import SchemaError
from trio_mcp.extensions.skills import DynamicSkill, Skills
from trio_mcp.extensions.skills.frontmatter import LONGEST, frontmatter_of, same
from trio_mcp.wire.jsonrpc import encode

pytestmark = pytest.mark.requirement("K4")


def read(yaml: str) -> dict[str, Any]:
    return frontmatter_of(f"---\n{yaml}\n---\nbody\n".encode())


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"),
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("FALSE", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("'null'", "null"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("+12", 12),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5e1", 5.0),
        ("1e3", 1000.0),
        ("0b1", "0b1"),
        ("<<", "<<"),
        ("=", "="),
        ('"\\u00e9\\U0001F600"', "é😀"),
        ("|\n  two\n  lines", "two\nlines\n"),
        ("[1, [a, {b: c}]]", [1, ["a", {"b": "c"}]]),
        ("&x [1]\ny: *x", [1]),
        ("{1: a, true: b, 2024-01-31: c}", {"1": "a", "true": "b", "2024-01-31": "c"}),
        ("{<<: {a: 1}}", {"<<": {"a": 1}}),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1" * 309, int("1" * 309)),
    ],
)
def test_what_yaml_becomes(yaml: str, value: Any) -> None:
    found = read(f"x: {yaml}")["x"]
    assert same(found, value), found
    encode(found)


@pytest.mark.parametrize(
    "text", ["\ufeff---\nx: 1\n---", "---\r\nx: 1\r\n---\r\nb", "--- \nx: 1\n---  "]
)
def test_how_it_is_fenced(text: str) -> None:
    assert frontmatter_of(text.encode()) == {"x": 1}


@pytest.mark.parametrize(
    ("yaml", "why"),
    [
        ("x: .nan", "in quotes"),
        ("x: -.inf", "in quotes"),
        ("x: 1e999", "in quotes"),
        ("x: !!binary aGk=", "in quotes"),
        ("x: !!timestamp 2024-01-31", "in quotes"),
        ("x: !!set {a, b}", "in quotes"),
        ("x: !!python/object/apply:os.system [ls]", "in quotes"),
        ("x: !mine a", "in quotes"),
        ("!!str x: &a [1]\n*a : 2", "must be texts"),
        ("x: 1\nx: 2", "twice"),
        ("[1]: 2", "must be texts"),
        ("- a", "must be a mapping"),
        ("just text", "must be a mapping"),
        ('x: "\\ud800"', "surrogate"),
        ("x: *nowhere", "undefined alias"),
        ("x: [", "line 3"),
        ("x: %", "line 2"),
        ("x: 1\n... \ny: 2", "cannot be read"),
        ("x: \x00", "not allowed"),
        (f"x: {'9' * 309}", "in quotes"),
        (f"x: -{'9' * 309}", "in quotes"),
        (f"x: 0x{'f' * 257}", "in quotes"),
        (f"x: 0x{'f' * 5000}", "in quotes"),
        (f"x: {'1' * 5000}", "digit"),
    ],
)
def test_what_is_refused(yaml: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(yaml)


@pytest.mark.parametrize(
    "data",
    [b"", b"# Title\n", b"---\nname: x\n", b"--\nx: 1\n--\n", b" ---\nx: 1\n---\n", b"\xff\xfe---"],
)
def test_without_frontmatter(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"must begin with YAML|not UTF-8"):
        frontmatter_of(data)


def laughs(levels: int, of: int, kind: str = "[{}]") -> str:
    """Aliases of aliases of aliases."""
    lines = [f"a0: &a0 {kind.format('lol')}"]
    for level in range(1, levels):
        many = ", ".join([f"*a{level - 1}"] * of)
        lines.append(f"a{level}: &a{level} [{many}]")
    return "\n".join(lines)


BOMBS = {
    "billion laughs": laughs(10, 10),
    "many laughs": laughs(3, 2000),
    "long texts": f"a: &a '{'x' * 50_000}'\nb: [{', '.join(['*a'] * 2000)}]",
    "itself": "a: &a [*a]",
    "itself in a mapping": "a: &a {b: *a}",
    "merge keys": "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60))]
    ),
    "deep lists": "a: " + "[" * 30_000,
    "deep mappings": "a: " + "{a: " * 10_000,
    "deep indents": "\n".join(" " * n + "a:" for n in range(350)),
    "deep dashes": "- " * 30_000,
    "many anchors": "\n".join(f"k{n}: &a{n} 1" for n in range(4000)),
    "many keys": "\n".join(f"k{n}: 1" for n in range(7000)),
    "a long key": f"{'k' * 60_000}: 1",
    "a long number": f"x: {'9' * 60_000}",
    "a long fraction": f"x: 0.{'9' * 60_000}e{'9' * 3000}",
    "quotes": 'x: "' + "\\" * 60_000,
    "tags": "x: " + "!<" * 30_000,
    "questions": "? " * 30_000,
    "spaces": "x:" + " " * 60_000 + "1",
    "comments": "#" * 60_000,
    "directives": "%TAG ! x\n" * 6000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_go_off(name: str) -> None:
    """It is refused, or small once it is read. That it takes long would show in the suite's time."""
    try:
        found = read(BOMBS[name][: LONGEST - 100])
    except ValueError:
        return
    assert len(encode(found)) < 2_000_000


def test_frontmatter_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="65,536 characters at most"):
        read(f"x: {'y' * LONGEST}")


def test_what_is_the_same() -> None:
    assert same({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    for one, other in [
        (1, True),
        (0, False),
        (None, False),
        ("1", 1),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": None}),
    ]:
        assert not same(one, other)
        assert not same(other, one)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.long
@given(st.dictionaries(st.text(min_size=1), JSON, max_size=4))
def test_frontmatter_made_in_code_is_read_as_it_is(more: dict[str, Any]) -> None:
    more = {
        key: value
        for key, value in more.items()
        if key not in ("name", "metadata", "description", "compatibility")
    }

    async def read(path: str) -> str:
        return ""

    skill = DynamicSkill("daily", "Every day", read, more=more)
    try:
        Skills(skill)
    except SchemaError:
        # YAML has no way to write some keys.
        assert any(len(key) > 100 for key in more)
    assert same(
        frontmatter_of(skill.head.encode()), {"name": "daily", "description": "Every day", **more}
    )
