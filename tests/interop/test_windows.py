"""The same tests on Python for Windows, under Wine."""

import pytest

from tests.interop import windows

TIME_LIMIT = 1200
RUNS = (
    ["tests/system", "tests/peer"],
    # Wine 8 starts one process in some hundreds with an internal error. There are enough above.
    ["tests/features/test_changes.py", "-k", "not stdio"],
)


@pytest.mark.needs("wine")
@pytest.mark.requirement("L9")
def test_what_holds_here_holds_on_windows() -> None:
    for words in RUNS:  # one after the other, since they share Wine's server
        done = windows.run_pytest(words, time_limit=TIME_LIMIT)
        assert done.returncode == 0, done.stdout[-20_000:]
