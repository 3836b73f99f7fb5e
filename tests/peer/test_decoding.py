"""Messages with much in them are decoded without holding up others."""

import pytest

from tests.support.turns import turns_of_another_task
from trio_mcp import Limits
from trio_mcp.peer.lines import decoded
from trio_mcp.wire.jsonrpc import Malformed, Request

pytestmark = pytest.mark.requirement("B4", "E4", "E9")


@pytest.mark.parametrize(
    ("many", "limits", "expected", "are_needed"),
    [
        (2000, Limits(), Request, False),
        (40_000, Limits(), Request, True),
        (40_000, Limits(max_message_values=100), Malformed, True),
    ],
)
async def test_others_go_on_while_much_is_decoded(many, limits, expected, are_needed):
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":[%b1]}}' % (b"[]," * many)
    async with turns_of_another_task() as turns:
        assert isinstance(await decoded(line, limits), expected)
        assert (turns.count > 0) is are_needed
