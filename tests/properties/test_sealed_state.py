"""Whatever is sealed is opened as it was, and whatever was altered is not opened at all."""

import string
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.registry.sealing import Sealer, StateRefused

KEYS = [Sealer.generate_key(), Sealer.generate_key()]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
)


def accepted(state: str, binding: Any = None) -> bool:
    """Whether a state is opened, by somebody who has not opened any before."""
    try:
        Sealer(KEYS).open(state, binding)
    except StateRefused:
        return False
    return True


@cache
def states() -> list[str]:
    """States whose base64 ends in each of the three ways, by old and new key."""
    made = [
        Sealer(keys).seal("x" * length, None) for keys in (KEYS, KEYS[1:]) for length in (0, 16, 32)
    ]
    assert {state.count("=") for state in made} == {0, 1, 2}
    return made


@given(values, values)
def test_what_is_sealed_is_opened(content: Any, binding: Any) -> None:
    sealer = Sealer(KEYS)
    assert sealer.open(sealer.seal(content, binding), binding).content == content


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where `True` is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


few = st.sampled_from(
    [
        0,
        1,
        1.0,
        -0.0,
        1.5,
        1e-7,
        1e22,
        10**22,
        "1.0",
        "é",
        True,
        False,
        "1",
        "",
        None,
        2**53 + 1,
        2.0**53,
    ]
)
alike = st.recursive(
    few,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@given(alike, alike)
def test_state_is_opened_for_an_equal_binding_and_no_other(one: Any, other: Any) -> None:
    assert accepted(Sealer(KEYS).seal(0, one), other) == same(one, other)


@pytest.mark.parametrize("which", range(6))
def test_no_single_character_can_be_changed(which: int) -> None:
    """Every position; of the characters those that base64 readers pass over, and near ones."""
    state = states()[which]
    for position, character in enumerate(state):
        near = {chr(ord(character) ^ 1), chr(ord(character) ^ 2), chr(ord(character) ^ 32)}
        for other in (near | set("A_/+= \n\x00ü")) - {character}:
            assert not accepted(state[:position] + other + state[position + 1 :])
    assert accepted(state)


@pytest.mark.parametrize("which", range(6))
def test_no_last_character_can_be_changed(which: int) -> None:
    """The last characters hold bits that base64 readers pass over: here, all the others."""
    state = states()[which]
    for position in range(len(state) - 5, len(state)):
        for other in set(string.printable) - {state[position]}:
            assert not accepted(state[:position] + other + state[position + 1 :])


@pytest.mark.parametrize("which", range(6))
def test_nothing_can_be_taken_or_added(which: int) -> None:
    state = states()[which]
    for position in range(len(state) + 1):
        for added in "A-+= \n\x00ü":
            assert not accepted(state[:position] + added + state[position:])
        if position < len(state):
            assert not accepted(state[:position] + state[position + 1 :])
            assert not accepted(state[:position])


@given(st.data())
def test_no_change_is_overlooked(data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(states()))
    start = data.draw(st.integers(0, len(state)))
    end = data.draw(st.integers(start, min(len(state), start + 4)))
    put = data.draw(st.text(string.ascii_letters + string.digits + "-_=+/ \n", max_size=4))
    altered = state[:start] + put + state[end:]
    if altered != state:
        assert not accepted(altered)


@given(st.text() | st.text(string.ascii_letters + string.digits + "-_="))
def test_no_text_is_a_state(text: str) -> None:
    assert not accepted(text)
