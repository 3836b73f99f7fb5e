"""`make release`: what it refuses, and what it tags."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.release.build import git
from tests.support.processes import ROOT

pytestmark = pytest.mark.long

COPIED = ("Makefile", "pyproject.toml", "trio_mcp/version.py", "tests/__init__.py", "tests/release")
CHANGES = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n### Added\n\n- More.\n\n## 0.1.0 - 2026-11-01\n\n- It.\n"
GOALS = ["check", "test-all", "dist"]


@attrs.frozen
class Project:
    """A repository with the Makefile of ours, in which nothing but its way to a release is real."""

    root: Path

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def commit(self) -> None:
        git("add", "--all", root=self.root)
        git("commit", "--quiet", "--message", "it", root=self.root)

    def have_goals_do(self, recipe: str) -> None:
        """Have all goals but `make release` say their names, and do something."""
        real = (ROOT / "Makefile").read_text()
        (phony,) = re.findall(r"^\.PHONY: (.+)$", real, re.MULTILINE)
        goals = " ".join(each for each in phony.split() if each != "release")
        self.write("Makefile", f"{real}\n{goals}:\n\t@echo $@ >> $(MADE)\n\t@{recipe}\n")
        self.commit()

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        kept = {
            key: each for key, each in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
        }
        values = [f"BIN={Path(sys.executable).parent}", f"MADE={self.made}"]
        return subprocess.run(
            ["make", *values, *words],
            cwd=self.root,
            env={**kept, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
        )

    @property
    def made(self) -> Path:
        return self.root.with_name("made")

    @property
    def tags(self) -> list[str]:
        return git("tag", "--list", root=self.root).split()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that can be released as 0.2.0."""
    root = tmp_path / "project"
    project = Project(root)
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    project.write("trio_mcp/version.py", '__version__ = "0.2.0"\n')
    project.write("docs/changelog.md", CHANGES)
    project.write(".gitignore", "__pycache__/\n.venv/\n")
    for extra in ("cli", "docs", "lint", "release", "test"):
        project.write(f".venv/.{extra}", "")  # as if they had been installed
    git("init", "--quiet", "--initial-branch=main", root=root)
    for key, value in {"user.name": "Ada", "user.email": "ada@example.com"}.items():
        git("config", key, value, root=root)
    project.have_goals_do(":")
    return project


@pytest.mark.requirement("T1")
def test_a_release_is_checked_tested_built_and_tagged(project: Project) -> None:
    done = project.make("release", "VERSION=0.2.0")
    assert done.returncode == 0, done.stderr
    made = project.made.read_text().split()
    assert [goal for goal in made if goal in GOALS] == GOALS
    assert project.tags == ["v0.2.0"]
    head = git("rev-parse", "HEAD", root=project.root)
    assert git("rev-parse", "v0.2.0^{commit}", root=project.root) == head
    message = git("tag", "--list", "--format=%(contents)", "v0.2.0", root=project.root)
    assert message == "0.2.0\n\n### Added\n\n- More."
    assert "git push origin v0.2.0" in done.stdout


REFUSED = {
    "no version": ("", "say which version"),
    "no number": ("new", "VERSION must be like 0.1.0"),
    "another version": ("0.1.0", "trio_mcp/version.py does not say 0.1.0"),
}


@pytest.mark.requirement("T1")
@pytest.mark.parametrize(("version", "reason"), REFUSED.values(), ids=REFUSED)
def test_versions_that_are_refused(version: str, reason: str, project: Project) -> None:
    done = project.make("release", f"VERSION={version}")
    assert reason in done.stderr
    assert_nothing_was_done(project, done)


@pytest.mark.requirement("T1")
@pytest.mark.parametrize(
    "text",
    [
        "## Unreleased\n\n- More.\n",
        "## 0.2.0\n\n- More.\n",
        "## 0.2.0 - 2026-12-01\n\n## 0.1.0 - 2026-11-01\n\n- It.\n",
        "## 0.2.01 - 2026-12-01\n\n- More.\n",
    ],
    ids=["none", "no date", "no text", "another version"],
)
def test_a_version_without_an_entry_in_the_changelog_is_refused(
    text: str, project: Project
) -> None:
    project.write("docs/changelog.md", text)
    project.commit()
    done = project.make("release", "VERSION=0.2.0")
    assert "docs/changelog.md has no entry '## 0.2.0 - " in done.stderr
    assert_nothing_was_done(project, done)


@pytest.mark.requirement("T1")
@pytest.mark.parametrize("file", ["docs/changelog.md", "trio_mcp/new.py"])
def test_a_tree_that_is_not_committed_is_refused(file: str, project: Project) -> None:
    project.write(file, f"{CHANGES}more")
    done = project.make("release", "VERSION=0.2.0")
    assert f"not everything is committed:\n{'M' if 'docs' in file else '??'} " in done.stderr
    assert file in done.stderr
    assert_nothing_was_done(project, done)


@pytest.mark.requirement("T1")
def test_a_version_is_released_once(project: Project) -> None:
    git("tag", "v0.2.0", root=project.root)
    done = project.make("release", "VERSION=0.2.0")
    assert "the tag v0.2.0 exists" in done.stderr
    assert done.returncode != 0
    assert not project.made.exists()


def test_all_reasons_are_said_at_once(project: Project) -> None:
    project.write("docs/changelog.md", "")
    done = project.make("release", "VERSION=0.3.0")
    assert done.stderr.count("Not released: ") == 3
    assert_nothing_was_done(project, done)


def assert_nothing_was_done(project: Project, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode != 0
    assert project.tags == []
    assert not project.made.exists()


@pytest.mark.requirement("T1")
@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("test $@ != check", "`make check` failed"),
        ("test $@ != test-all", "`make test-all` failed"),
        ("test $@ != dist", "`make dist` failed"),
        ("echo >> Makefile", "not everything is committed"),
        ("git commit --quiet --allow-empty --message more", "another commit was checked out"),
    ],
)
def test_what_fails_or_changes_on_the_way_is_not_tagged(
    recipe: str, reason: str, project: Project
) -> None:
    project.have_goals_do(recipe)
    done = project.make("release", "VERSION=0.2.0")
    assert done.returncode != 0
    assert reason in done.stderr
    assert project.tags == []


def verified(project: Project, tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.release.tag", "--verify", tag]
    variables = {**os.environ, "PYTHONPATH": str(project.root)}
    return subprocess.run(command, cwd=project.root, env=variables, capture_output=True, text=True)


@pytest.mark.requirement("T1")
def test_the_workflow_builds_what_a_release_has_tagged_and_nothing_else(project: Project) -> None:
    assert "there is no tag v0.2.0" in verified(project, "v0.2.0").stderr
    git("tag", "v0.2.0", root=project.root)
    git("tag", "0.2.0", root=project.root)
    assert verified(project, "v0.2.0").returncode == 0
    assert "there is no tag 0.2.0 of a release" in verified(project, "0.2.0").stderr
    assert "trio_mcp/version.py does not say 0.1.0" in verified(project, "v0.1.0").stderr
    git("commit", "--quiet", "--allow-empty", "--message", "more", root=project.root)
    assert "v0.2.0 is another commit" in verified(project, "v0.2.0").stderr
