"""What the workflows may do. `make check` looks at their form, with the schemas of the code host."""

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.support.processes import ROOT

FOLDER = ROOT / ".github" / "workflows"


def jobs_of(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name).read_text())["jobs"]


@pytest.mark.requirement("T1")
def test_nothing_is_uploaded_that_was_not_tested_and_built_before() -> None:
    jobs = jobs_of("release.yml")
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    assert jobs["build"]["needs"] == "test"
    assert jobs["publish"]["needs"] == "build"
    commands = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert re.search(r"tests\.release\.tag --verify .*make dist$", commands, re.DOTALL)


@pytest.mark.requirement("T1")
def test_only_the_job_that_uploads_may_and_it_runs_nothing_of_the_project() -> None:
    text = (FOLDER / "release.yml").read_text()
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"] == {}
    jobs = jobs_of("release.yml")
    publish = jobs.pop("publish")
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {"id-token": "write", "attestations": "write"}
    assert [step for step in publish["steps"] if "run" in step or "checkout" in step["uses"]] == []
    for job in jobs.values():
        assert set(job["permissions"].values()) == {"read"}


def test_three_systems_and_all_versions_of_python_that_are_promised_are_tested() -> None:
    matrix = jobs_of("ci.yml")["test"]["strategy"]["matrix"]
    assert matrix["system"] == ["ubuntu", "macos", "windows"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert set(promised) <= set(matrix["python"])
    assert project["requires-python"] == f">={matrix['python'][0]}"
