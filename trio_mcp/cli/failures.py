"""What a person is told when a command fails: one line, and what to do about it.

Whatever goes wrong ends up here, as an exception. `explain` finds the words for it; the commands
need none of their own.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trio_mcp.extras import advice
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.errors import MISSING_CLIENT_CAPABILITY, McpError

if TYPE_CHECKING:
    from trio_mcp import errors

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

DEBUG_VARIABLE: Final = "TRIO_MCP_DEBUG"
"""The variable of the environment that asks for tracebacks."""

_MOST_CHARACTERS: Final = 1000
_NPM: Final = re.compile(r"npm (?:error|ERR!)(?: \d+)? ((?!code|errno|syscall|path)\S.*)")
_OURS: Final = "trio-mcp: "
"""How every error of this command line begins."""


class Failure(Exception):
    """Something that a person can put right; the text says how."""

    status = FAILED


class Usage(Failure):
    """The command line itself is wrong."""

    status = USAGE


class Interrupted(Exception):
    """The person has had enough, or the system has."""

    def __init__(self, status: int = INTERRUPTED) -> None:
        super().__init__(status)
        self.status = status


def require(package: str, what: str, *extras: str) -> None:
    """Make sure that a package is there that extras bring beside those of the command line.

    Raises:
        Failure: It is missing; the message says what to install.
    """
    if find_spec(package) is None:
        raise Failure(advice(what, "cli", *extras))


def report(error: BaseException) -> int:
    """Tell why a command failed, in one line on stderr, and return its exit status."""
    cause = cause_of(error)
    if isinstance(cause, Interrupted):
        return cause.status
    if isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError):
        _forget_stdout()
        return FAILED
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    print(f"{_OURS}{one_line(explain(cause))}", file=sys.stderr)
    return cause.status if isinstance(cause, Failure) else FAILED


def explain(error: BaseException) -> str:
    """Say what went wrong, and what to do about it."""
    for kind in type(error).__mro__:
        words = _WORDS.get(kind.__name__)
        if words is not None:
            return words.format(error=error) if isinstance(words, str) else words(error)
    return f"{brief(error)} (set {DEBUG_VARIABLE}=1 to see where)"


def brief(error: BaseException) -> str:
    """Name an exception and what it says, but for the place that `place_of` tells."""
    if isinstance(error, SystemExit):
        return _exit(error)
    said = (error.msg if isinstance(error, SyntaxError) else str(error)).strip()
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _exit(error: SystemExit) -> str:
    """Say of `sys.exit` what Python makes of its argument."""
    code = error.code
    if code is None or isinstance(code, int):
        return f"it exited with status {code or 0}"
    return f"it exited with status 1: {code}"


def located(what: str, error: BaseException) -> str:
    """Say of what failed in a person's own code how, where, and how to see more of it."""
    cause = cause_of(error)
    where = place_of(cause) or place_of(error)
    place = f" ({where})" if where else ""
    return f"{what}: {brief(cause)}{place}; {DEBUG_VARIABLE}=1 shows the whole traceback"


def cause_of(error: BaseException) -> BaseException:
    """Find what matters most in an exception group; any other exception is that itself."""
    return next(_leaves(error))


def one_line(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Write a text as one line, not too long, that no terminal takes for anything but text."""
    begun = text[: 10 * most]
    line = " ".join("".join(each if each.isprintable() else " " for each in begun).split())
    return line if len(line) <= most else f"{line[:most]}…"


def missing(noun: str, name: str, known: list[str], *, of: str = "the server") -> str:
    """Say that there is no such thing, and what there is instead."""
    if not known:
        return f"{of} has no {noun} {name!r}: it has none at all"
    meant = did_you_mean(name, known) or f"; it has: {', '.join(known)}"
    return f"{of} has no {noun} {name!r}{meant}"


def no_option(word: str) -> str:
    """Say that there is no such option, where an argument of a tool may have been meant."""
    return f"there is no option {word}; arguments are written KEY=VALUE (--help tells more)"


def place_of(error: BaseException) -> str:
    """Say in which line of whose code an exception was raised, as far as that is known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_own(each.filename)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""


def _is_own(filename: str) -> bool:
    """Whether a file is a person's own: no library's, neither ours nor Python's."""
    path = Path(filename)
    libraries = (Path(__file__).parents[1], Path(os.__file__).parent)
    return (
        path.is_file()
        and "site-packages" not in path.parts
        and not any(each in path.parents for each in libraries)
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group, an interruption first."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for each in error.split((KeyboardInterrupt, Interrupted)):
        if each is not None:
            for one in each.exceptions:
                yield from _leaves(one)


def _forget_stdout() -> None:
    """Nobody reads stdout any more; keep Python from complaining about that at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
    finally:
        os.close(nowhere)


# -- the words ---------------------------------------------------------------------------


def _exited(error: errors.ServerExited) -> str:
    how = str(error).partition(";")[0]
    said = last_words(error.stderr)
    if said.startswith(_OURS):
        return said.removeprefix(_OURS)
    if not said:
        return f"{how} and left no word on stderr; run its command by itself to see it work"
    return f"{how}: {said} (--verbose shows all that it writes)"


def _closed(error: errors.PipeClosed) -> str:
    said = last_words(error.stderr)
    return f"{error.how}{': ' if said else ''}{said} (--verbose shows all that it writes)"


def last_words(stderr: str) -> str:
    """Find the line on a server's stderr that tells best why it failed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(_OURS)]
    if ours:  # a server of ours says best itself what is wrong
        return ours[-1]
    npm = [found[1] for found in map(_NPM.match, lines) if found]
    if npm:  # it says first what is wrong, and then a lot about itself
        return npm[0]
    telling = [line for line in lines if "Error" in line or "error:" in line]
    return (telling or lines or [""])[-1]


def way_out_of(error: McpError) -> str | None:
    """What to do about a capability that we have not declared; `None` for any other error."""
    if error.code != MISSING_CLIENT_CAPABILITY and "capability" not in error.message:
        return None
    wanted = f"{error.message} {error.data}".lower()
    for capability, way_out in _CAPABILITIES.items():
        if capability in wanted:
            return way_out
    return "this command line does not have it"


_CAPABILITIES: Final = {
    "elicitation": "questions are asked on a terminal only: do not redirect stdin or stderr",
    "roots": "--root DIRECTORY names a directory that the server may know of",
    "sampling": "this command line has no model that could be asked",
}


def _refused(error: McpError) -> str:
    way_out = way_out_of(error)
    if way_out is not None:
        return f"{error.message} ({way_out})"
    return f"the server answered with an error: {error}"


def _unauthorized(error: errors.Unauthorized) -> str:
    if find_spec("joserfc") is None:
        more = advice("logging in", "cli", "auth")
        return f"{error} (--token-env VARIABLE passes a token; {more})"
    return f"{error} (--token-env VARIABLE passes a token)"


def _system(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"


def _lifespan(error: errors.LifespanError) -> str:
    return located("the server's lifespan failed", error.__cause__ or error)


_WORDS: Final[dict[str, str | Callable[[Any], str]]] = {
    # By name: a server on stdio must not import the client to look for its errors.
    "Failure": "{error}",
    "TargetError": "{error}",
    "CannotStart": "{error}; what comes after -- is the command, as a shell would run it",
    "ServerExited": _exited,
    "PipeClosed": _closed,
    "CallTimeout": "{error.what}: no answer within {error.seconds:g} s "
    "(--timeout SECONDS waits longer)",
    "LifespanError": _lifespan,
    "McpError": _refused,
    "ResourceNotFound": "there is no resource {error} (`trio-mcp resources` shows what there is)",
    "ProtocolError": "{error} (`trio-mcp doctor` examines a server)",
    "Unauthorized": _unauthorized,
    "CannotReach": "{error}; does it run, and is the URL right, with its path?",
    "ClientError": "{error}",
    "SchemaError": "{error}",
    "OSError": _system,
}
"""What to say of an exception: a text in which it stands as `error`, or what makes the text."""
