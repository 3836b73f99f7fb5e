"""What a peer sent is converted beside the loop if it is much."""

import threading

import pytest
import trio

from trio_mcp.registry.converting import converted

pytestmark = pytest.mark.requirement("B4")


@pytest.mark.parametrize(
    ("wire", "on_loop"),
    [
        ({"a": [1, 2, {"b": None}]}, True),
        ("x" * 1000, True),
        ([{}] * 10_000, False),
        ({"a": [[1] * 10_000]}, False),
        ({"a": "x" * 2_000_000}, False),
        (["x" * 1000] * 1100, False),
        (b"x" * 2_000_000, False),
    ],
)
async def test_much_is_converted_in_a_thread(wire, on_loop):
    loop = threading.get_ident()

    def convert(given: object) -> bool:
        assert given is wire
        return threading.get_ident() == loop

    assert await converted(convert, wire) is on_loop


async def test_what_is_wrong_with_much_is_told():
    def refuse(_: object) -> None:
        raise ValueError("none")

    with pytest.raises(ValueError, match="none"):
        await converted(refuse, [0] * 10_000)
    with trio.CancelScope() as scope:
        scope.cancel()
        await converted(refuse, [0] * 10_000)
    assert scope.cancelled_caught
