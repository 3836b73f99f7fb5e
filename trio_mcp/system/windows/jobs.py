"""A process and its children as a job, which ends with its last handle: with us, if need be."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from ctypes import wintypes
from functools import partial
from typing import Final

from trio_mcp.system.windows import kernel

assert sys.platform == "win32"

_SUSPENDED: Final = 0x4  # CREATE_SUSPENDED
_ACCESS: Final = 0x1 | 0x100 | 0x800  # PROCESS_TERMINATE, _SET_QUOTA, _SUSPEND_RESUME
_EXTENDED_LIMITS: Final = 9  # JobObjectExtendedLimitInformation
_KILL_ON_CLOSE: Final = 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
_KILLED: Final = 1
"""The exit status of what is ended."""


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_time", wintypes.LARGE_INTEGER),
        ("per_job_time", wintypes.LARGE_INTEGER),
        ("flags", wintypes.DWORD),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", wintypes.DWORD),
        ("scheduling", wintypes.DWORD),
    )


class _Limits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_ulonglong * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


def creation_flags() -> int:
    """How to create a process that becomes a job's first.

    It is created suspended: what it started before it is in the job would not be in it. It has a
    group of its own, so that Ctrl-C at our console is not meant for it, and Ctrl-Break can be sent
    to it alone. If we have no console, it would get one, with a window on the person's screen.
    """
    window = 0 if kernel.console_code_page() else subprocess.CREATE_NO_WINDOW
    return _SUSPENDED | subprocess.CREATE_NEW_PROCESS_GROUP | window


class Job:
    """A process that was created suspended, and all that it starts. It is resumed.

    Where it cannot be made a job, it is ended, and this is an `OSError`.
    """

    def __init__(self, pid: int, ask: Callable[[int], bool]) -> None:
        self.ask: Final = partial(ask, pid)
        self._job = kernel.checked(kernel.create_job(None, None))
        process = kernel.open_process(_ACCESS, False, pid)
        try:
            kernel.checked(process)
            self._limit(_KILL_ON_CLOSE)
            kernel.checked(kernel.assign_process(self._job, process))
            if kernel.resume_process(process) < 0:
                raise OSError(f"the process {pid} cannot be resumed")
        except BaseException:
            kernel.terminate_process(process, _KILLED)
            kernel.close_handle(self._job)
            raise
        finally:
            kernel.close_handle(process)

    def kill(self) -> None:
        kernel.terminate_job(self._job, _KILLED)

    def release(self) -> None:
        self._limit(0)
        kernel.close_handle(self._job)

    def _limit(self, flags: int) -> None:
        limits = _Limits()
        limits.basic.flags = flags
        size = ctypes.sizeof(limits)
        kernel.checked(kernel.set_job(self._job, _EXTENDED_LIMITS, ctypes.byref(limits), size))
