"""The same tests on Python for Windows, under Wine."""

import pytest

from tests.interop import windows

TIME_LIMIT = 1200


@pytest.mark.needs("wine")
@pytest.mark.requirement("L9")
@pytest.mark.parametrize("folder", ["tests/system", "tests/peer", "tests/features/test_changes.py"])
def test_what_holds_here_holds_on_windows(folder: str) -> None:
    done = windows.run_pytest([folder], time_limit=TIME_LIMIT)
    assert done.returncode == 0, done.stdout[-20_000:]
