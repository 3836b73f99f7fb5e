import pytest

from trio_mcp import Limits


def test_the_defaults_are_the_promised_ones():
    limits = Limits()
    assert limits.max_message_bytes == 10_485_760
    assert limits.tool_timeout == 60
    assert (limits.eof_grace, limits.shutdown_grace, limits.flush_timeout) == (0.5, 5, 2)


@pytest.mark.parametrize(
    "wrong", [{"max_message_bytes": 0}, {"tool_timeout": 0}, {"eof_grace": -1}, {"max_batch": 0}]
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


def test_limits_cannot_be_changed():
    with pytest.raises(AttributeError):
        Limits().tool_timeout = 1  # type: ignore[misc]
