"""Showing a person the page where they log in."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import trio
from attrs import define

from trio_mcp.cli.screen import Screen

_OPEN: Final = """
import os, sys, webbrowser
hasattr(os, "fork") and os.fork() and os._exit(0)
webbrowser.open(sys.argv[1])
"""
"""Opens a page without waiting: except on Windows, some browsers return only when closed."""

_OPENS: Final = "Your browser opens this page; if it does not, open it yourself:"


@define
class LoginPage:
    """Shows a person the page where they log in, and says what it is about."""

    screen: Screen
    where: str
    by_hand: bool = False
    is_open: bool = False
    """Whether a page was shown, and the person has not come back."""

    async def open(self, url: str) -> None:
        opens = not self.by_hand and _has_browser()
        does = _OPENS if opens else "Open this page on this machine:"
        self.screen.note(f"{self.where} wants you to log in. {does}\n\n    {url}\n", "")
        if not opens and (tunnel := _tunnel(url)):
            self.screen.note(f"If your browser is elsewhere, run there first: {tunnel}", "")
        self.screen.note("Waiting until you have done so (Ctrl-C gives up).")
        self.is_open = True
        if opens:
            await open_page(url)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.screen.note("You are logged in.")


def _has_browser() -> bool:
    """Whether the person sees a browser; one in this terminal would be in the way."""
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(variable) for variable in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    )


def _tunnel(url: str) -> str | None:
    """Return an SSH command that lets a remote browser come back here, if there is one."""
    match os.environ.get("SSH_CONNECTION", "").split():
        case [_, _, here, _]:
            back = urlsplit(dict(parse_qsl(urlsplit(url).query))["redirect_uri"]).port
            return f"ssh -N -L {back}:127.0.0.1:{back} {here}"
    return None


async def open_page(url: str) -> None:
    # A browser of its own session outlives Ctrl-C; and what it prints is not for our stdout.
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options["start_new_session"] = True  # which Windows takes for granted
    command = [sys.executable, "-I", "-S", "-c", _OPEN, url]  # no webbrowser.py of another's is run
    await trio.run_process(command, check=False, **options)
