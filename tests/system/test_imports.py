"""Every module can be imported, on this system and where much of it is missing."""

import os
import subprocess
import sys

import pytest

from tests.support.processes import ENVIRONMENT

ALL = """
import importlib, os, pkgutil, sys

import trio_mcp

def import_all():
    names = [each.name for each in pkgutil.walk_packages(trio_mcp.__path__, "trio_mcp.")]
    for name in names:
        here = sys.platform == "win32"
        if name.endswith("__main__") or (name == "trio_mcp.system.windows" and not here):
            continue
        importlib.import_module(name)
    return names

names = import_all()
"""

AS_ON_WINDOWS = """
import ctypes, signal, socket, subprocess, types
from ctypes import wintypes
from unittest import mock

for each in names:
    sys.modules.pop(each, None)
sys.modules.pop("trio_mcp")
trio = sys.modules["trio"]

class Missing:
    pass

for hidden in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[hidden] = None
gone = {
    os: "fchmod fork geteuid getpgid getuid killpg mkfifo pread register_at_fork set_blocking "
    "get_blocking O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK",
    signal: "SIGHUP SIGKILL SIGUSR1 pthread_sigmask",
    socket: "AF_UNIX MSG_DONTWAIT SO_REUSEPORT",
    sys.modules["select"]: "PIPE_BUF",
    trio.lowlevel: "FdStream",
}
for module, words in gone.items():
    for name in words.split():
        vars(module).pop(name, None)
os.supports_dir_fd, os.supports_fd = set(), set()
sys.modules["msvcrt"] = mock.MagicMock()
ctypes.WinDLL = mock.MagicMock()
signal.SIGBREAK, signal.CTRL_BREAK_EVENT = 21, 1
os.O_BINARY = 0x8000
sys.platform = "win32"
import trio_mcp
import_all()
from trio_mcp.system import capabilities
assert not (capabilities.POLLS or capabilities.WALKS)
"""


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr


@pytest.mark.long
@pytest.mark.requirement("L9")
@pytest.mark.skipif(os.name == "nt", reason="it is no simulation there")
def test_every_module_can_be_imported_where_much_is_missing() -> None:
    run(ALL + AS_ON_WINDOWS)


@pytest.mark.long
def test_every_module_can_be_imported_here() -> None:
    run(ALL)
