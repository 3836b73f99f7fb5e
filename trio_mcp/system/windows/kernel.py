"""The functions of `kernel32` and `ntdll` that are called, with their types, and their errors."""

import ctypes
import sys
from ctypes import wintypes
from typing import Any, Final

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
resume_process = _function("ntdll", "NtResumeProcess", ctypes.c_long, _HANDLE)
set_event = _function("kernel32", "SetEvent", _BOOL, _HANDLE)
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
