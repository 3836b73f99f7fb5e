"""`trio-mcp call --task` and `trio-mcp tasks`."""

from pathlib import Path

import pytest

from tests.cli.support import SHOP, CommandLine

JOBS = str(Path(__file__).parents[1] / "extensions" / "tasks" / "programs" / "kept.py") + ":make"

pytestmark = pytest.mark.requirement("K2")


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE", str(tmp_path / "tasks.db"))


@pytest.mark.long
def test_a_call_waits_for_its_task_or_leaves_it(cli: CommandLine) -> None:
    assert cli("call", JOBS, "add", "a=1", "b=2").out == "3\n"
    started = cli("call", "--task", JOBS, "add", "a=1", "b=2")
    assert (started.status, started.err) == (0, "")
    id = started.out.strip()
    assert len(id) == 32
    assert cli("tasks", JOBS, "result", id).out == "3\n"
    assert cli("tasks", JOBS, "result", id, "--json").json["content"][0]["text"] == "3"
    assert cli("tasks", JOBS, "get", id).out == "completed\n"
    assert cli("tasks", JOBS, "get", id, "--json").json == {"taskId": id, "status": "completed"}


@pytest.mark.long
def test_what_was_started_can_be_cancelled(cli: CommandLine) -> None:
    id = cli("call", "--task", JOBS, "wait_again", "--json").json["taskId"]
    assert cli("tasks", JOBS, "get", id).out == "working\n"
    assert cli("tasks", JOBS, "cancel", id).out == "cancelled\n"
    failed = cli("tasks", JOBS, "result", id)
    assert failed.status == 1
    assert "was cancelled" in failed.error


@pytest.mark.long
def test_what_is_no_task(cli: CommandLine) -> None:
    answered = cli("call", "--task", JOBS, "plain")
    assert (answered.status, answered.out) == (0, "plain\n")
    assert answered.error == "tool 'plain' is not a task; this is its result"
    for words in (["call", "--task", SHOP, "types", "text=x"], ["tasks", SHOP, "get", "x"]):
        assert "the server has no tasks" in cli(*words).error
    unknown = cli("tasks", JOBS, "get", "x")
    assert unknown.status == 1
    assert "Task not found" in unknown.error
