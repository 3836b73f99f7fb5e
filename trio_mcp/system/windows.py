"""What only Windows has, called through `ctypes`: it cannot be imported anywhere else.

Command lines that find their programs, batch files such as `npx.cmd` among them; events with names,
by which one process wakes another, and one of which is gone with its last handle; open directories,
and the paths of open files; a process and its children as a job, which ends with its last handle:
with us, if need be; the process that has started this one. Above them are the functions of
`kernel32` and `ntdll` that are called.
"""

from __future__ import annotations

import ctypes
import msvcrt
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from ctypes import wintypes
from functools import partial
from typing import Any, Final

import trio

assert sys.platform == "win32"

INVALID: Final = ctypes.c_void_p(-1).value
"""The handle that stands for none."""


def _function(library: str, name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(ctypes.WinDLL(library, use_last_error=True), name)
    found.restype, found.argtypes = result, arguments
    return found


_HANDLE: Final = wintypes.HANDLE
_DWORD: Final = wintypes.DWORD
_BOOL: Final = wintypes.BOOL
_TEXT: Final = wintypes.LPCWSTR
_ANY: Final = ctypes.c_void_p

assign_process = _function("kernel32", "AssignProcessToJobObject", _BOOL, _HANDLE, _HANDLE)
close_handle = _function("kernel32", "CloseHandle", _BOOL, _HANDLE)
create_event = _function("kernel32", "CreateEventW", _HANDLE, _ANY, _BOOL, _BOOL, _TEXT)
create_file = _function(
    "kernel32", "CreateFileW", _HANDLE, _TEXT, _DWORD, _DWORD, _ANY, _DWORD, _DWORD, _HANDLE
)
create_job = _function("kernel32", "CreateJobObjectW", _HANDLE, _ANY, _TEXT)
final_path = _function(
    "kernel32", "GetFinalPathNameByHandleW", _DWORD, _HANDLE, wintypes.LPWSTR, _DWORD, _DWORD
)
console_code_page = _function("kernel32", "GetConsoleCP", wintypes.UINT)
open_event = _function("kernel32", "OpenEventW", _HANDLE, _DWORD, _BOOL, _TEXT)
open_process = _function("kernel32", "OpenProcess", _HANDLE, _DWORD, _BOOL, _DWORD)
process_times = _function("kernel32", "GetProcessTimes", _BOOL, _HANDLE, *[_ANY] * 4)
query_process = _function(
    "ntdll", "NtQueryInformationProcess", ctypes.c_long, _HANDLE, _DWORD, _ANY, _DWORD, _ANY
)
resume_process = _function("ntdll", "NtResumeProcess", ctypes.c_long, _HANDLE)
signal_event = _function("kernel32", "SetEvent", _BOOL, _HANDLE)
set_job = _function(
    "kernel32", "SetInformationJobObject", _BOOL, _HANDLE, ctypes.c_int, _ANY, _DWORD
)
terminate_job = _function("kernel32", "TerminateJobObject", _BOOL, _HANDLE, wintypes.UINT)
terminate_process = _function("kernel32", "TerminateProcess", _BOOL, _HANDLE, wintypes.UINT)


def checked(result: Any) -> Any:
    """Return what a function returned, or raise `OSError` if that stands for a failure."""
    if not result or result == INVALID:
        raise ctypes.WinError(ctypes.get_last_error())
    return result


# -- command lines -------------------------------------------------------------------------------

_BATCH: Final = (".bat", ".cmd")
_UNSAFE: Final = re.compile(r'["%\r\n\0]')
"""What the command interpreter, which runs batch files, understands even between quotes."""


def command_line(command: Sequence[str], environment: Mapping[str, str]) -> Sequence[str] | str:
    """Write a command so that the system finds its program, whatever its extension is.

    The system itself only looks for `.exe`, and leaves the arguments of batch files to an
    interpreter with rules of its own, by which one of them may turn into a command: an argument
    that cannot be quoted for that raises `ValueError`. The program is looked for in the `PATH` of
    the environment that it will have.
    """
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        return command  # to fail as the system has it
    if not program.lower().endswith(_BATCH):
        return [program, *command[1:]]
    for argument in command[1:]:
        if _UNSAFE.search(argument):
            raise ValueError(
                f"{program} is a batch file, to which the argument {argument!r} cannot be passed "
                "safely: give the program that it runs in its place, or leave out quotes, percent "
                "signs and line breaks"
            )
    # All are quoted, because `&` and the like have a meaning outside of quotes. A backslash at the
    # end would escape the quote for the program that the batch file passes it to.
    quoted = (f'"{_doubled(argument)}"' for argument in command[1:])
    return " ".join([subprocess.list2cmdline([program]), *quoted])


def _doubled(argument: str) -> str:
    bare = argument.rstrip("\\")
    return bare + "\\" * (2 * (len(argument) - len(bare)))


# -- events --------------------------------------------------------------------------------------

_MODIFY: Final = 0x2  # EVENT_MODIFY_STATE
_NOT_FOUND: Final = 2  # ERROR_FILE_NOT_FOUND


def _full(name: str) -> str:
    return rf"Global\trio-mcp-{name}"  # a service and a person have namespaces of their own


class NamedEvent:
    """An event that this process waits for, and its name in other processes."""

    def __init__(self, name: str) -> None:
        self._handle = checked(create_event(None, False, False, _full(name)))

    async def wait(self) -> None:
        """Wait until it is set, or has been since the last time."""
        await trio.lowlevel.WaitForSingleObject(self._handle)

    def close(self) -> None:
        close_handle(self._handle)


def set_event(name: str) -> bool:
    """Set an event; return `False` if there is none of that name."""
    handle = open_event(_MODIFY, False, _full(name))
    if not handle:
        return ctypes.get_last_error() != _NOT_FOUND
    signal_event(handle)
    close_handle(handle)
    return True


# -- folders -------------------------------------------------------------------------------------

_LIST: Final = 0x1  # FILE_LIST_DIRECTORY
_SHARED: Final = 0x1 | 0x2  # for reading and writing, but not for deleting or moving it
_EXISTING: Final = 3  # OPEN_EXISTING
_OF_DIRECTORIES: Final = 0x02000000  # FILE_FLAG_BACKUP_SEMANTICS
_LONGEST: Final = 0x8000
"""UTF-16 units that a path may have."""

_SPECIAL: Final = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def is_name(name: str) -> bool:
    """Whether a file may have that name: a colon or a backslash would lead elsewhere."""
    return _SPECIAL.search(name) is None


def open_directory(path: str) -> int:
    """Open a directory, which cannot be moved meanwhile, and return a descriptor."""
    handle = create_file(path, _LIST, _SHARED, None, _EXISTING, _OF_DIRECTORIES, None)
    return msvcrt.open_osfhandle(checked(handle), 0)


def path_of(fd: int) -> str:
    r"""The path of what is open: the whole one, without links, beginning with `\\?\`."""
    path = ctypes.create_unicode_buffer(_LONGEST)
    checked(final_path(msvcrt.get_osfhandle(fd), path, _LONGEST, 0))
    return path.value


# -- jobs ----------------------------------------------------------------------------------------

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
    window = 0 if console_code_page() else subprocess.CREATE_NO_WINDOW
    return _SUSPENDED | subprocess.CREATE_NEW_PROCESS_GROUP | window


class Job:
    """A process that was created suspended, and all that it starts. It is resumed.

    Where it cannot be made a job, it is ended, and this is an `OSError`.
    """

    def __init__(self, pid: int, ask: Callable[[int], bool]) -> None:
        self.ask: Final = partial(ask, pid)
        self._job = checked(create_job(None, None))
        process = open_process(_ACCESS, False, pid)
        try:
            checked(process)
            self._limit(_KILL_ON_CLOSE)
            checked(assign_process(self._job, process))
            if resume_process(process) < 0:
                raise OSError(f"the process {pid} cannot be resumed")
        except BaseException:
            terminate_process(process, _KILLED)
            close_handle(self._job)
            raise
        finally:
            close_handle(process)

    def kill(self) -> None:
        terminate_job(self._job, _KILLED)

    def release(self) -> None:
        self._limit(0)
        close_handle(self._job)

    def _limit(self, flags: int) -> None:
        limits = _Limits()
        limits.basic.flags = flags
        size = ctypes.sizeof(limits)
        checked(set_job(self._job, _EXTENDED_LIMITS, ctypes.byref(limits), size))


_WATCH: Final = 0x100000 | 0x1000  # SYNCHRONIZE, PROCESS_QUERY_LIMITED_INFORMATION
_OURSELVES: Final = wintypes.HANDLE(-1)


class _BasicInformation(ctypes.Structure):
    _fields_ = (*((name, ctypes.c_void_p) for name in "abcde"), ("parent", ctypes.c_void_p))


async def parent_exited() -> None:
    """Wait until the process that has started this one has exited.

    An id is given to another process once its own has exited. So where there is none of that id, or
    one that is younger than this process, it has exited before, and this waits forever.
    """
    handle = open_process(_WATCH, False, _parent())
    if not handle:
        await trio.sleep_forever()
    try:
        if _begun(handle) > _begun(_OURSELVES):
            await trio.sleep_forever()
        await trio.lowlevel.WaitForSingleObject(handle)
    finally:
        close_handle(handle)


def _parent() -> int:
    """Return the id; `os.getppid` takes a snapshot of all processes for it."""
    found = _BasicInformation()
    query_process(_OURSELVES, 0, ctypes.byref(found), ctypes.sizeof(found), None)
    return found.parent or 0


def _begun(handle: object) -> int:
    times = [wintypes.FILETIME() for _ in range(4)]
    checked(process_times(handle, *map(ctypes.byref, times)))
    return (times[0].dwHighDateTime << 32) + times[0].dwLowDateTime
