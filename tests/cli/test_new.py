"""`trio-mcp new`: a project that works as it stands."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.support import CommandLine
from tests.support.processes import ENVIRONMENT


@pytest.mark.long
def test_a_new_project_works(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = cli("new", "hello-world")
    assert (done.status, done.err) == (0, "")
    project = tmp_path / "hello-world"
    about = tomllib.loads((project / "pyproject.toml").read_text())
    assert about["project"]["name"] == "hello-world"
    assert about["project"]["scripts"] == {"hello-world": "hello_world:main"}
    assert "hello_world.py" in (project / "README.md").read_text()
    assert "$" not in "".join(each.read_text() for each in project.rglob("*") if each.is_file())
    settings = {key: each for key, each in ENVIRONMENT.items() if not key.startswith("PYTEST_")}
    tests = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    tested = subprocess.run(tests, cwd=project, env=settings, stdout=subprocess.PIPE, text=True)
    assert tested.returncode == 0, tested.stdout
    assert "4 passed" in tested.stdout
    monkeypatch.chdir(project)
    words = ["call", "hello_world.py", "greet", "name=Ada", "language=de"]
    assert cli(*words).out == "Guten Tag, Ada!\n"


EDITABLE = '{"url": "file:///my%20checkout", "dir_info": {"editable": true}}'
WHEEL = '{"url": "file:///x/trio_mcp-0.1.0-py3-none-any.whl", "archive_info": {}}'
COMMIT = '{"url": "ssh://host/x", "vcs_info": {"vcs": "git", "commit_id": "1f3"}}'


@pytest.mark.parametrize(
    ("version", "noted", "dependency"),
    [
        ("0.1.3", None, ">=0.1.3,<0.2"),
        ("2.5.0rc1", None, ">=2.5.0rc1,<3"),
        ("0.1.0", EDITABLE, " @ file:///my%20checkout"),
        ("0.1.0", WHEEL, " @ file:///x/trio_mcp-0.1.0-py3-none-any.whl"),
        ("0.1.0", COMMIT, " @ git+ssh://host/x@1f3"),
    ],
)
def test_a_new_project_depends_on_the_trio_mcp_that_wrote_it(
    version: str,
    noted: str | None,
    dependency: str,
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    site = tmp_path / "site" / "trio_mcp-0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text(f"Metadata-Version: 2.4\nName: trio-mcp\nVersion: {version}\n")
    if noted is not None:
        (site / "direct_url.json").write_text(noted)
    monkeypatch.syspath_prepend(str(site.parent))
    assert cli("new", "desk").status == 0
    about = tomllib.loads((tmp_path / "desk" / "pyproject.toml").read_text())
    assert about["project"]["dependencies"] == [f"trio-mcp{dependency}"]
    tests = about["project"]["optional-dependencies"]["test"]
    assert f"trio-mcp[cli]{dependency}" in tests
    allowed = about["tool"]["hatch"].get("metadata", {}).get("allow-direct-references", False)
    assert allowed == (noted is not None)


@pytest.mark.requirement("A13")
def test_a_new_server_logs_to_stderr(cli: CommandLine, tmp_path: Path) -> None:
    assert cli("new", "hello-world").status == 0
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    begin["clientInfo"] = {"name": "it", "version": "1"}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "greet", "arguments": {"name": "Ada"}},
        },
    ]
    command = [sys.executable, str(tmp_path / "hello-world" / "hello_world.py")]
    said = "".join(f"{json.dumps(request)}\n" for request in requests)
    done = subprocess.run(
        command, input=said, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert " INFO Tool greet: ok in " in done.stderr


def test_nothing_is_overwritten(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("mine", "file"):
        outcome = cli("new", name)
        assert outcome.status == 1
        assert outcome.error == f"{name} is there already; choose another name, or move it away"
    assert (tmp_path / "mine" / "README.md").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert cli("new", "empty").status == 0


@pytest.mark.parametrize(
    "name", ["json", "class", "trio", "tests", "1st", "a/b", "../a", "a b", ""]
)
def test_names_that_will_not_do(name: str, cli: CommandLine, tmp_path: Path) -> None:
    outcome = cli("new", name)
    assert outcome.status == 2
    assert outcome.error
    assert list(tmp_path.iterdir()) == []
