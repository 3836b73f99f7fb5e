"""Messages with much in them are decoded without holding up others."""

import pytest
import trio

from tests.support.turns import turns_of_another_task
from trio_mcp import Limits
from trio_mcp.peer.decoding import decoded
from trio_mcp.wire.jsonrpc import Malformed, Message, Request

pytestmark = pytest.mark.requirement("B4", "E4")


def request_with(many: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":[%b1]}}' % (b"[]," * many)


async def turns_of_others(line: bytes, limits: Limits) -> tuple[int, Message | None]:
    async with turns_of_another_task() as turns:
        message = await decoded(line, limits)
        return turns.count, message


@pytest.mark.parametrize(("many", "are_needed"), [(1, False), (2000, False), (40_000, True)])
async def test_others_go_on_while_much_is_decoded(many, are_needed):
    turns, message = await turns_of_others(request_with(many), Limits())
    assert isinstance(message, Request)
    assert (turns > 0) is are_needed


async def test_the_limits_hold_there_too():
    _, message = await turns_of_others(request_with(40_000), Limits(max_message_values=100))
    assert isinstance(message, Malformed)


async def test_several_wait_for_one_another():
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(decoded, request_with(40_000), Limits())
