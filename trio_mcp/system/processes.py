"""A process and all that it starts, ended as one; and how a process is started."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

if sys.platform == "win32":
    from trio_mcp.system.windows import Job, command_line, creation_flags

    ProcessGroup = Job

    def ask_process(pid: int) -> bool:
        try:
            os.kill(pid, signal.CTRL_BREAK_EVENT)  # which reaches those that share our console
        except OSError:
            return False
        return True

    def group_id(pid: int) -> int | None:
        return None  # jobs leave no process behind

    def start_options() -> dict[str, Any]:
        return {"creationflags": creation_flags()}

    def group_of(pid: int) -> ProcessGroup:
        return Job(pid, ask_process)

    def runnable(command: Sequence[str], environment: Mapping[str, str]) -> Sequence[str] | str:
        return command_line(command, environment)

    SAFE_ENVIRONMENT: Final = (
        *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LANG", "LOCALAPPDATA"),
        *("NUMBER_OF_PROCESSORS", "OS", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "TZ"),
        *("USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR"),
    )

else:

    class ProcessGroup:
        """A process that leads a session of its own, and all that it starts.

        Args:
            pid: Its id. It must not be reaped before the last call.
        """

        def __init__(self, pid: int) -> None:
            self._pid = pid

        def ask(self) -> bool:
            """Ask them to end; return whether that is possible."""
            self._signal(signal.SIGTERM)
            return True

        def kill(self) -> None:
            """End them at once, also those whose parent has exited."""
            self._signal(signal.SIGKILL)

        def release(self) -> None:
            """Leave those that still run alone. The group is of no use afterwards."""

        def _signal(self, number: signal.Signals) -> None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    def ask_process(pid: int) -> bool:
        """Ask one process to end; return whether that is possible."""
        os.kill(pid, signal.SIGTERM)
        return True

    def group_id(pid: int) -> int | None:
        """Return the id of a process's group, that of its first process; `None` without groups."""
        return os.getpgid(pid)

    def start_options() -> dict[str, Any]:
        """Return the options to start a process with, for `group_of`."""
        return {"start_new_session": True}

    def group_of(pid: int) -> ProcessGroup:
        """Make a group of a process just started with `start_options`, or end that (`OSError`)."""
        return ProcessGroup(pid)

    def runnable(command: Sequence[str], environment: Mapping[str, str]) -> Sequence[str] | str:
        """Write a command so that the system finds its program, or raise `ValueError` if unsafe."""
        return command

    SAFE_ENVIRONMENT: Final = (
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL"),
        *("TERM", "TMPDIR", "TZ", "USER"),
    )


living: Final[set[ProcessGroup]] = set()
"""The groups that end before this process does, even if it ends at once."""


def kill_living() -> None:
    """End them at once, as this process is about to end."""
    for group in list(living):
        group.kill()
