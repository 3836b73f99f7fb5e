"""From what a server sent to a result, and on to a value of a type."""

from typing import Any
from unittest.mock import patch

import pytest

from trio_mcp.client import result
from trio_mcp.client.result import CallResult, call_result
from trio_mcp.errors import ProtocolError, ToolFailed

TEXT = {"type": "text", "text": "three"}
SHORT: list[Any] = [
    {"content": []},
    {"content": [TEXT, TEXT]},
    {"content": [TEXT], "resultType": "complete", "_meta": {"a.b/c": 1}},
    {"content": [TEXT], "isError": False, "structuredContent": {"a": [1]}},
    {"content": [], "structuredContent": 3},
]
LONG: list[Any] = [
    {"content": [TEXT], "isError": True},
    {"content": [TEXT | {"annotations": {"priority": 1}}]},
    {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
]


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("wire", SHORT + LONG)
def test_the_short_way_and_the_long_way_lead_to_the_same_result(wire: Any) -> None:
    with patch.object(result, "plain_result", return_value=None):
        long_way = call_result(wire, 0.5)
    with patch.object(result, "from_wire", side_effect=result.from_wire) as from_wire:
        assert call_result(wire, 0.5) == long_way
    assert from_wire.called is (wire in LONG)


@pytest.mark.parametrize(
    "wire",
    [
        {},
        {"content": None},
        {"content": [1]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 1}]},
        {"content": [TEXT], "isError": 0},
        {"content": [TEXT], "_meta": 1},
    ],
)
def test_what_is_no_result_is_refused(wire: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        call_result(wire, 0.5)


def test_the_text_of_a_failure_is_its_error() -> None:
    failed = call_result({"content": [TEXT, TEXT], "isError": True}, 0.5)
    assert (failed.success, failed.error) == (False, "three\nthree")
    assert call_result({"content": [], "isError": True}, 0.5).error
    with pytest.raises(ToolFailed, match="three"):
        failed.value(str)


@pytest.mark.parametrize(
    ("structured", "kind", "value"),
    [
        ({"result": 3}, int, 3),
        ({"result": [3]}, list[int], [3]),
        ({"result": "x"}, str, "x"),
        ({"result": 3}, dict[str, int], {"result": 3}),
        ({"result": {"result": 3}}, dict[str, int], {"result": 3}),
        (3, int, 3),
    ],
)
def test_a_value_may_come_wrapped(structured: Any, kind: Any, value: Any) -> None:
    assert CallResult(content=[], structured_content=structured).value(kind) == value


@pytest.mark.parametrize("structured", [{"result": "x"}, {"result": 1, "more": 2}, {"other": 1}])
def test_what_does_not_fit_is_refused_wrapped_or_not(structured: Any) -> None:
    with pytest.raises(ProtocolError, match="the result is not <class 'int'>"):
        CallResult(content=[], structured_content=structured).value(int)
