"""Names that keep the tools of several servers apart."""

import pytest

from trio_mcp.compose.names import LONGEST_NAME, UniqueNames
from trio_mcp.errors import ConfigError

pytestmark = pytest.mark.requirement("L3")


def test_a_name_is_that_of_the_server_and_that_of_the_tool() -> None:
    names = UniqueNames(["git", "my files"])
    assert names.name_of("git", "log") == "git_log"
    assert names.name_of("my files", "read") == "my_files_read"
    assert names.owners("my_files_read") == ["my files"]


def test_names_that_could_be_those_of_two_servers_are_kept_apart() -> None:
    names = UniqueNames(["git", "git_hub"])
    of_git, of_hub = names.name_of("git", "hub_log"), names.name_of("git_hub", "log")
    assert of_hub == "git_hub_log"
    assert of_git.startswith("git_hub_log_")
    assert of_git != of_hub


def test_no_name_can_be_made_to_be_that_of_another_server() -> None:
    names = UniqueNames(["git", "git_hub"])
    of_git = names.name_of("git", "hub_log")
    forged = names.name_of("git_hub", of_git.removeprefix("git_hub_"))
    assert forged.startswith(f"{of_git}_")
    long = names.name_of("git", "hub_" + "x" * 200)
    assert names.name_of("git_hub", long.removeprefix("git_hub_")) != long
    assert names.name_of("git", "of_20240101") == "git_of_20240101", "no other server is near"


def test_a_name_is_never_too_long() -> None:
    names = UniqueNames(["a"])
    long = [names.name_of("a", "x" * 10**6 + end) for end in "12"]
    assert [len(each) for each in long] == [LONGEST_NAME] * 2
    assert long[0] != long[1]


def test_servers_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ConfigError, match="'my files' and 'my_files' cannot be distinguished"):
        UniqueNames(["my files", "my_files"])
