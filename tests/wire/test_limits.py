import math

import pytest

from trio_mcp import Limits


def test_the_defaults_are_the_promised_ones():
    limits = Limits()
    assert limits.max_message_bytes == 10_485_760
    assert limits.tool_timeout == 60
    assert (limits.eof_grace, limits.shutdown_grace, limits.flush_timeout) == (0.5, 5, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_message_bytes": 0}, {"tool_timeout": 0}, {"eof_grace": -1}, {"max_batch": 0}),
        *({"tool_timeout": "60"}, {"tool_timeout": math.nan}, {"tool_timeout": True}),
        {"tool_timeout": 10**400},  # which is no float, so no deadline
        {"max_concurrent_calls": 1.5},  # of which half a slot would be left, and so never none
        {"max_waiting_bytes": None},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a"):
        Limits(**wrong)


def test_what_is_without_bounds_may_be_said_to_be():
    limits = Limits(tool_timeout=math.inf, max_concurrent_calls=math.inf, eof_grace=0)
    assert limits.tool_timeout == limits.max_concurrent_calls == math.inf


def test_limits_cannot_be_changed():
    with pytest.raises(AttributeError):
        Limits().tool_timeout = 1  # type: ignore[misc]
