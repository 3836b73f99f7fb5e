"""Which tests need more than Python, and how examples are found, for all tests."""

import gc
import os
import shutil
import signal
import sys
from importlib.util import find_spec

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from tests.interop import windows
from tests.interop.packages import (
    DESKTOP,
    FASTMCP,
    FRAMEWORKS,
    FUZZ,
    OPENAPI,
    RECIPES,
    SERVERS,
    UV,
    are_installed,
)
from tests.support.processes import ROOT, SYSTEM_PATH

# A failure comes again, and none comes by chance. `make rest` looks twenty times as far.
# On a busy machine everything is too slow.
common = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", max_examples=10, **common)
settings.register_profile("explore", max_examples=200, **common)
settings.load_profile("steady")

# A shell has what it starts in the background ignore interrupts. The programs that tests start, and
# then interrupt, would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So has `nohup` with hangups, by which workers are replaced. A handler, even one that does nothing, is
# not inherited.
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

PROGRAMS = {
    "node": (are_installed, "npm packages are missing: run `make peers`"),
    "sdk-server": (
        lambda: find_spec("mcp") is not None,
        "the official Python SDK is missing: run `make .venv/.test`",
    ),
    "fastmcp": (FASTMCP.is_there, "FastMCP is missing: run `make peers`"),
    "desktop": (DESKTOP.is_there, "the Inspector and mcp-remote are missing: run `make peers`"),
    "openapi": (OPENAPI.is_there, "documents of services are missing: run `make peers`"),
    "frameworks": (FRAMEWORKS.is_there, "LangChain and others are missing: run `make peers`"),
    "atheris": (FUZZ.is_there, "atheris is missing: run `make peers`"),
    "twine": (
        lambda: all(map(find_spec, ("check_wheel_contents", "hatchling", "pyroma", "twine"))),
        "what releases are built with is missing: run `make .venv/.release`",
    ),
    "site": (
        lambda: (ROOT / "docs" / "_build" / "llms.txt").exists(),
        "the site is not built: run `make docs`",
    ),
    "uv": (UV.is_there, "uv is missing: run `make peers`"),
    "servers": (SERVERS.is_there, "servers from PyPI are missing: run `make peers`"),
    "chromium": (
        lambda: shutil.which("chromium") is not None,
        "Chromium is missing: on Debian, run `apt-get install -y chromium`",
    ),
    "wine": (
        windows.is_there,
        "Python for Windows is missing: on Debian, run `apt-get install -y wine`, then "
        "`make windows`",
    ),
    "nginx": (
        lambda: shutil.which("nginx", path=SYSTEM_PATH) is not None,
        "nginx is missing: on Debian, run `apt-get install -y nginx-light`",
    ),
    "systemd-analyze": (
        lambda: shutil.which("systemd-analyze") is not None,
        "systemd-analyze is missing: on Debian, run `apt-get install -y systemd`",
    ),
    "recipes": (RECIPES.is_there, "Caddy and judges of recipes are missing: run `make peers`"),
    "zsh": (
        lambda: shutil.which("zsh") is not None,
        "zsh is missing: on Debian, run `apt-get install -y zsh`",
    ),
    "fish": (
        lambda: shutil.which("fish") is not None,
        "fish is missing: on Debian, run `apt-get install -y fish`",
    ),
    "redis-server": (
        lambda: shutil.which("redis-server") is not None,
        "Redis is missing: on Debian, run `apt-get install -y redis-server`",
    ),
}
"""By the argument of `needs`: whether it is there, and how to get it."""


def pytest_collection() -> None:
    """Have the garbage collector leave alone what is imported and collected: it is there to stay.

    Otherwise each of its rounds goes through thousands of tests again.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """Go on collecting, of what comes from now on, but seldom: it took an eighth of the time."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have a worker report a test once, not three times: a setup that passed says nothing.

    What workers report and the process that hears it took a twentieth of the time.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out, with a word, what cannot run here. In CI everything has to run."""
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            is_there, how_to_get_it = PROGRAMS[program]
            if not is_there():
                (pytest.fail if os.environ.get("CI") else pytest.skip)(how_to_get_it)
