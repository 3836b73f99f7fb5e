"""Whoever leaves without closing leaves nothing behind: no process, no thread, no noise."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes import ENVIRONMENT, TIME_LIMIT

PROGRAM = Path(__file__).parent / "programs" / "leaving.py"


def leave(way):
    # Not in the development mode, in which asyncio complains of whatever takes 100 ms.
    command = [sys.executable, "-W", "error", str(PROGRAM), way]
    return subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIME_LIMIT
    )


def server_of(output):
    return int(output.split()[1])


def assert_gone(pid):
    try:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.requirement("L1")
@pytest.mark.parametrize("way", ["run", "close"])
def test_a_loop_that_is_closed_ends_what_was_left_open_in_it(way):
    done = leave(way)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == ["gone True"]


@pytest.mark.long
@pytest.mark.requirement("L1")
@pytest.mark.parametrize("way", ["exit", "forget"])
def test_the_end_of_the_interpreter_ends_what_was_left_open(way):
    """With `exit` by `SystemExit` in the loop, with `forget` by a loop that nobody closes."""
    done = leave(way)
    assert done.returncode == (3 if way == "exit" else 0)
    if way == "exit":
        assert done.stderr == ""
    else:  # the interpreter says that the loop was not closed, and nothing else
        assert "never" not in done.stderr
        assert "Traceback" not in done.stderr
    assert_gone(server_of(done.stdout))


@pytest.mark.long
@pytest.mark.requirement("L1")
def test_a_fork_is_told_what_to_do_and_disturbs_nobody():
    done = leave("fork")
    pid = server_of(done.stdout)
    assert done.stdout.splitlines() == [
        f"server {pid}",
        "this process is a fork of the one that opened it; open it again in this process",
        f"child 0 server {pid}",
        "gone True",
    ]
    assert (done.returncode, done.stderr) == (0, "")
