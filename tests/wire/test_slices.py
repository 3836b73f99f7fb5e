"""Large messages that are encoded in slices: each is short, and together they are the whole."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import codec, slices
from trio_mcp.wire.answers import Result
from trio_mcp.wire.jsonrpc import encode
from trio_mcp.wire.slices import SLICE

pytestmark = pytest.mark.requirement("A3", "E9")

CODE = 'def f(x):\n\treturn f"{x}" + "\\n"\n'
ROW = {"id": 7, "name": "Zo\u00eb", "score": 0.75, "none": None}
KINDS = {
    "one text": CODE * 50_000,
    "control characters": "\x01" * 1_000_000,
    "not ASCII": "\u65e5\u672c\u8a9e\U0001f600" * 200_000,
    "blocks": [{"type": "text", "text": CODE * 500}] * 100,
    "a few texts": {"a": CODE * 20_000, "b": [CODE * 20_000] * 2},
    "rows": [ROW] * 30_000,
    "rows in an object": {"meta": {}, "pages": [{"rows": [ROW] * 15_000}] * 2},
    "a map": {f"word {number}": number for number in range(100_000)},
    "a map of texts": {f"page {number}": CODE * 1000 for number in range(50)},
    "arrays of numbers": [[number / 7 for number in range(700)]] * 100,
    "a long one at last": [*["short"] * 8, CODE * 50_000],
}


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_each_slice_is_short(kind, monkeypatch):
    message = {"id": 1, "method": "tools/call", "params": {"arguments": {"value": KINDS[kind]}}}
    whole = encode(message)
    dumps, longest = codec.dumps_unchecked, 0

    def watch(value: Any, option: int | None = None) -> bytes:
        nonlocal longest
        line = dumps(value, option=option)
        longest = max(longest, len(line))
        return line

    monkeypatch.setattr(codec, "dumps_unchecked", watch)
    assert encode(message, in_slices=True) == whole
    assert 0 < longest <= 6 * SLICE + 2  # an escape sequence may be as long as six characters


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=40,
)


def outcome(value: Any, **options: Any) -> Any:
    try:
        return encode(value, **options)
    except TypeError as error:
        return str(error)


@given(value=JSON, slice=st.sampled_from([1, 4, 30]), few=st.sampled_from([0, 1, 3]))
def test_together_they_are_the_whole(value, slice, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE", slice)
        patch.setattr(slices, "FEW", few)
        assert outcome(value, in_slices=True) == outcome(value)


@pytest.mark.parametrize("levels", range(240, 260))
def test_what_is_nested_too_deeply_is_refused_likewise(levels):
    value: Any = 1
    for _ in range(levels):
        value = [value]
    for each in (value, {"a": value}, [[[value]]]):
        assert outcome(each, in_slices=True) == outcome(each)


def test_what_is_not_json_is_refused_wherever_it_is():
    text = CODE * 10_000
    for beside in (2**70, None, (1, 2), {"a": [text]}, [[]] * 100, nested(30)):
        assert encode([text, beside], in_slices=True) == encode([text, beside])
    for wrong in (float("nan"), object(), {1: 2}, nested(300), {**dict.fromkeys("ab"), 1: 2}):
        for value in ([text, wrong], {"a": wrong, "b": text}, [*[ROW] * 5000, wrong]):
            with pytest.raises(TypeError):
                encode(value, in_slices=True)
    endless: list[Any] = [text]
    endless.append(endless)
    with pytest.raises(TypeError):
        encode(endless, in_slices=True)


@pytest.mark.parametrize("at", [SLICE - 1, SLICE, 2 * SLICE + 1])
def test_what_is_no_text_is_refused_wherever_it_is_cut(at):
    text = f"{'x' * at}\ud83d\ude00{'x' * 2_500_000}"
    with pytest.raises(TypeError):
        encode({"text": text}, in_slices=True)


def test_a_result_is_encoded_for_the_request_that_it_answers():
    result = Result({"text": CODE * 50_000})
    assert result.encode(7) is None
    assert result.line(7) is result.line(7)
    for id in (7, "7", 2**70):
        assert json.loads(result.line(id)) == {"jsonrpc": "2.0", "id": id, "result": result.members}
