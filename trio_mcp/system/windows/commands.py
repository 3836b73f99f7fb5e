"""Command lines that find their programs, batch files such as `npx.cmd` among them."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

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
