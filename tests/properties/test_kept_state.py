"""Whatever calls do to one state, in any order: each keeps its own changes, key by key."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import Limits
from trio_mcp.registry.kept_state import OpenState, StateKeeper
from trio_mcp.store.exact import dumps
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("Q2")

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["set", "remove", "save", "open"]),
    st.sampled_from(["", "a"]),
    JSON,
)


async def opened(store: MemoryStore) -> OpenState:
    """Begin a call of one caller, at any instance."""
    limits = Limits(max_state_bytes=10_000_000)
    return await StateKeeper("r", store, limits, "ada", None, "ada").open("Tool x", "caller", {})


def written(state: dict[str, Any]) -> dict[str, bytes]:
    """What is in a state, told apart as JSON does: 1 is neither 1.0 nor true."""
    return {key: dumps(value) for key, value in state.items()}


@given(steps=st.lists(STEPS, min_size=20, max_size=40))
def test_each_call_keeps_what_it_has_changed(steps: list[tuple[int, str, str, Any]]) -> None:
    async def main() -> None:
        store, kept = MemoryStore(), dict[str, bytes]()
        calls = [await opened(store) for _ in range(2)]
        known: list[dict[str, bytes]] = [{}, {}]  # what each has read, or saved, last
        for number, what, key, value in steps:
            state = calls[number].state
            if what == "set":
                state[key] = value
            elif what == "remove":
                state.pop(key, None)
            elif what == "open":
                calls[number], known[number] = await opened(store), kept
                assert written(calls[number].state) == kept
            else:
                mine, before = written(state), known[number]
                await calls[number].save()
                if mine != before:
                    changed = {k: v for k, v in mine.items() if before.get(k) != v}
                    left = {k: v for k, v in kept.items() if k in mine or k not in before}
                    kept = known[number] = {**left, **changed}
                    assert written(state) == kept

    trio.run(main)
