"""Directories that are open, locks, private files, and how processes wake each other."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from tests.support.processes import ENVIRONMENT
from trio_mcp.store.wakeup import Wakeup, wake
from trio_mcp.system import folders
from trio_mcp.system.capabilities import WALKS
from trio_mcp.system.folders import open_below, open_folder
from trio_mcp.system.locks import try_lock
from trio_mcp.system.private import is_private, replace


@pytest.fixture(params=["by path", *(["by descriptor"] if WALKS else [])])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders, "WALKS", request.param == "by descriptor")
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for path in ("root/one.txt", "root/inner/two.txt", "outside/secret.txt"):
        (tmp_path / path).write_bytes(path.encode() + b"\r\n")
    return tmp_path / "root"


def content(root: Path, *names: str) -> bytes:
    with closing(open_below(open_folder(root), list(names[:-1]))) as folder:
        with open(folder.open_file(names[-1]), "rb") as file:
            return file.read()


@pytest.mark.requirement("L9")
def test_files_are_opened_one_name_at_a_time(root: Path) -> None:
    assert content(root, "one.txt") == b"root/one.txt\r\n"
    assert content(root, "inner", "two.txt") == b"root/inner/two.txt\r\n"
    with closing(open_folder(root)) as folder, folder.entries() as entries:
        assert sorted(each.name for each in entries) == ["inner", "one.txt"]


@pytest.mark.requirement("L9")
@pytest.mark.parametrize(
    "names", [["none.txt"], ["inner"], ["one.txt", "x"], ["none", "x"], ["..", "outside"]]
)
def test_what_is_no_file_is_refused(root: Path, names: list[str]) -> None:
    with pytest.raises(OSError, match=r".+"):
        content(root, *names)


@pytest.mark.requirement("L9")
@pytest.mark.skipif(os.name != "nt", reason="names that mean something else on Windows alone")
@pytest.mark.parametrize(
    "name",
    [
        "one.txt.",
        "one.txt ",
        "ONE.TXT",
        "one.txt:stream",
        "one.txt::$DATA",
        "nul",
        "con",
        "COM1",
        "inner\\two.txt",
        "inner/two.txt",
        "..\\outside\\secret.txt",
        "C:one.txt",
        "*.txt",
    ],
)
def test_names_that_mean_something_else_are_refused(root: Path, name: str) -> None:
    with pytest.raises(OSError, match=r".+"):
        content(root, name)


def link(path: Path, target: Path) -> None:
    """Make a link to a directory, of the kind that everybody may make."""
    if sys.platform == "win32":
        import _winapi

        _winapi.CreateJunction(str(target), str(path))
    else:
        path.symlink_to(target, target_is_directory=True)


@pytest.mark.requirement("L9")
def test_links_are_refused_but_for_the_root(root: Path) -> None:
    try:
        link(root / "way-out", root.parent / "outside")
        link(root.parent / "other-name", root)
    except OSError as error:
        pytest.skip(f"there are no links here: {error}")
    assert (root / "way-out" / "secret.txt").exists()
    with pytest.raises(OSError, match=r".+"):
        content(root, "way-out", "secret.txt")
    assert content(root.parent / "other-name", "inner", "two.txt") == b"root/inner/two.txt\r\n"


def test_a_file_is_locked_once_and_free_when_its_process_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    hold = (
        "import os, sys\nfrom trio_mcp.system.locks import try_lock\n"
        f"fd = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)\n"
        "print(try_lock(fd), flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        fd = os.open(path, os.O_RDWR)
        try:
            assert not try_lock(fd)
            other.kill()
            other.wait()
            assert try_lock(fd)
        finally:
            os.close(fd)


def test_a_file_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    new, path = tmp_path / "new", tmp_path / "file"
    path.write_text("old")
    new.write_text("new")
    replace(new, path)
    assert path.read_text() == "new"
    path.chmod(0o600)
    assert is_private(path.stat())


@pytest.mark.requirement("L9")
async def test_a_process_wakes_another(tmp_path: Path) -> None:
    path = str(tmp_path / f"wakeup-{os.getpid()}")
    assert not wake(path)
    wakeup = Wakeup(path, 0o600)
    try:
        code = f"from trio_mcp.store.wakeup import wake; raise SystemExit(not wake({path!r}))"
        done = await trio.run_process([sys.executable, "-c", code], env=ENVIRONMENT)
        assert done.returncode == 0
        with trio.fail_after(60):
            await wakeup.wait()
        with trio.move_on_after(0.05) as scope:
            await wakeup.wait()
        assert scope.cancelled_caught  # it was rung once
    finally:
        wakeup.close()
    assert not wake(path)
