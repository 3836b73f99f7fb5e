"""What others say stands in the log and on terminals, and does nothing there."""

import logging
from pathlib import Path

import pytest

import trio_mcp
from trio_mcp.loggers import harmless, logger_of

pytestmark = pytest.mark.requirement("B11")


def test_what_a_terminal_or_a_log_obeys_is_a_symbol() -> None:
    said = "a\x00\x1b[2J\x7f\x9b\tb\n\u00e9\r"
    assert harmless(said) == "a␀␛[2J␡\ufffd␉b␊\u00e9␍"
    assert harmless(said, lines=True) == "a␀␛[2J␡\ufffd\tb\n\u00e9␍"
    assert harmless("a\u202etxt\u2066\u2028\u200f") == "a\ufffdtxt\ufffd\ufffd\u200f"


def test_records_quote_so_whatever_they_quote(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("no\nyes")
    logger_of("trio_mcp.test").warning("%s, %r, %d, %.1f, %s", error, ["\x1b"], 7, 0.5, None)
    assert caplog.messages == ["no␊yes, ['\\x1b'], 7, 0.5, None"]


def test_all_loggers_are_such() -> None:
    package = Path(trio_mcp.__file__).parent
    others = [path for path in package.rglob("*.py") if "logging.getLogger(" in path.read_text()]
    assert {str(path.relative_to(package)) for path in others} == {
        "cli/session.py",  # to show what is logged
        "loggers.py",
        "middleware/audit.py",  # the author's own
        "registry/registry.py",  # an example
        "system/responses.py",  # of httpx2
    }
    assert logging.getLogger("trio_mcp").filters
