"""What a command says when it fails: one line, and what to do about it.

All exceptions are explained here, and not by commands. Any function of the command line may raise
`Failure`, whose text the person reads, and lets `ClientError` and `OSError` through; so docstrings
name other exceptions only.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from trio_mcp.extras import advice
from trio_mcp.loggers import harmless
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.errors import MISSING_CLIENT_CAPABILITY, McpError

if TYPE_CHECKING:
    from trio_mcp import errors

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

_DEBUG: Final = "TRIO_MCP_DEBUG"
"""The environment variable that turns tracebacks on."""

_MAX_CHARACTERS: Final = 1000
_MAX_COMPARED: Final = 1000
"""Characters by which the end of old stderr is found in the new."""
_NPM: Final = re.compile(r"npm (?:error|ERR!)(?: \d+)? ((?!code|errno|syscall|path)\S.*)")
_OTHERS: Final = ("mcp.", "fastmcp.")
"""The packages of which `trio-mcp port` knows what to write instead."""
_FRAME: Final = "|+- "
"""What a traceback draws around the exceptions of a group."""
_OURS: Final = "trio-mcp: "
"""The prefix of all errors."""


class Failure(Exception):
    """Something that a person can put right; the text says how."""

    status = FAILED


class Usage(Failure):
    """The command line itself is wrong."""

    status = USAGE


class Interrupted(Exception):
    """A signal ended the command."""

    def __init__(self, status: int = INTERRUPTED) -> None:
        super().__init__(status)
        self.status = status


def require(package: str, what: str, *extras: str) -> None:
    if find_spec(package) is None:
        raise Failure(advice(what, "cli", *extras))


def report(error: BaseException) -> int:
    """Print why a command failed, in one line on stderr; return its exit status."""
    cause = cause_of(error)
    if isinstance(cause, Interrupted):
        return cause.status
    if isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError):
        _forget_stdout()
        return FAILED
    if os.environ.get(_DEBUG):
        shown = "".join(traceback.format_exception(error))
        sys.stderr.write(indent(harmless(shown, lines=True), "  "))
    print_error(explain(cause))
    return cause.status if isinstance(cause, Failure) else FAILED


def print_error(text: str) -> None:
    """Print an error as one line on stderr, on a terminal in red."""
    line = f"{_OURS}{one_line(text)}"
    if sys.stderr.isatty():
        from trio_mcp.cli.screen import Screen  # a server on stdio needs no rich

        Screen().note(line, "red")
    else:
        print(line, file=sys.stderr)


def explain(error: BaseException) -> str:
    for kind in type(error).__mro__:
        words = _WORDS.get(kind.__name__)
        if words is not None:
            return words.format(error=error) if isinstance(words, str) else words(error)
    return f"{brief(error)} (set {_DEBUG}=1 to see where)"


def brief(error: BaseException) -> str:
    """Return an exception's name and message, without its place (`place_of`)."""
    if isinstance(error, SystemExit):  # what Python makes of its argument
        is_status = error.code is None or isinstance(error.code, int)
        return f"it exited with status {error.code or 0 if is_status else f'1: {error.code}'}"
    said = (error.msg if isinstance(error, SyntaxError) else str(error)).strip()
    return f"{type(error).__name__}: {said}{_meant(error)}" if said else type(error).__name__


def _meant(error: BaseException) -> str:
    """Suggest what was probably meant by a name that is not there, as the end of a sentence."""
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        return "" if "; here it is: " in str(error) else did_you_mean(error.name, dir(error.obj))
    if isinstance(error, ModuleNotFoundError) and f"{error.name}.".startswith(_OTHERS):
        return "; trio-mcp port FILE says what to write instead"
    return ""


def located(what: str, error: BaseException) -> str:
    """Describe a failure in a person's own code: what, where, and how to see more."""
    cause = cause_of(error)
    where = place_of(cause) or place_of(error)
    place = f" ({where})" if where else ""
    return f"{what}: {brief(cause)}{place}; {_DEBUG}=1 shows the whole traceback"


def cause_of(error: BaseException) -> BaseException:
    """Return the most important exception of a group, or the exception itself."""
    return next(_leaves(error))


def one_line(text: str, limit: int = _MAX_CHARACTERS) -> str:
    line = harmless(" ".join(text[: 10 * limit].split()))
    return line if len(line) <= limit else f"{line[:limit]}…"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def missing(noun: str, name: str, known: list[str], *, of: str = "the server") -> str:
    if not known:
        return f"{of} has no {noun} {name!r}: it has none at all"
    meant = did_you_mean(name, known) or f"; it has: {', '.join(known)}"
    return f"{of} has no {noun} {name!r}{meant}"


def no_option(word: str) -> str:
    name = word.partition("=")[0].lstrip("-")
    return f"there is no option {word}; arguments are written KEY=VALUE, as in {name}=1"


def place_of(error: BaseException) -> str:
    """Return file and line where an exception was raised in a person's own code, if known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = reversed(traceback.extract_tb(error.__traceback__))
    own = next((frame for frame in frames if _is_own(frame.filename)), None)
    return f"{own.filename}, line {own.lineno}" if own else ""


def _is_own(filename: str) -> bool:
    path = Path(filename)
    libraries = (Path(__file__).parents[1], Path(os.__file__).parent)
    return (
        path.is_file()
        and "site-packages" not in path.parts
        and not any(library in path.parents for library in libraries)
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for part in error.split((KeyboardInterrupt, Interrupted)):
        if part is not None:
            for one in part.exceptions:
                yield from _leaves(one)


def _forget_stdout() -> None:
    """Keep Python from complaining at exit that stdout has no reader."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)


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
    """Return the line of a server's stderr that best says why it failed."""
    lines = [line.lstrip(_FRAME).rstrip() for line in stderr.splitlines() if line.strip(_FRAME)]
    ours = [line for line in lines if line.startswith(_OURS)]
    if ours:  # a server of ours says best itself what is wrong
        return ours[-1]
    npm = [found[1] for found in map(_NPM.match, lines) if found]
    if npm:  # it says first what is wrong, and then a lot about itself
        return npm[0]
    telling = [line for line in lines if "Error" in line or "error:" in line]
    return (telling or lines or [""])[-1]


def new_part(stderr: str, before: str) -> str:
    """Return what was added to a server's stderr, of which only the end is kept."""
    return stderr.rpartition(before[-_MAX_COMPARED:])[2] if before else stderr


def way_out_of(error: McpError) -> str | None:
    """Say what to do about a capability that we lack; `None` for any other error."""
    if error.code != MISSING_CLIENT_CAPABILITY and "capability" not in error.message:
        return None
    wanted = f"{error.message} {error.data}".lower()
    found = (way_out for capability, way_out in _CAPABILITIES.items() if capability in wanted)
    return next(found, "this command line does not have it")


_CAPABILITIES: Final = {
    "elicitation": "questions are asked on a terminal only: do not redirect stdin or stderr",
    "roots": "--root DIRECTORY names a directory that the server may know of",
    "sampling": "this command line has no model that could be asked",
}


def _refused(error: McpError) -> str:
    way_out = way_out_of(error)
    said = f"the server answered with an error: {error}"
    return said if way_out is None else f"{error.message} ({way_out})"


def _unauthorized(error: errors.Unauthorized) -> str:
    more = "" if find_spec("joserfc") else f"; {advice('logging in', 'cli', 'auth')}"
    return f"{error} (--token-env VARIABLE passes a token{more})"


def _system(error: OSError) -> str:
    named = error.filename is not None and error.strerror is not None
    return f"{error.filename}: {error.strerror}" if named else str(error)


_WORDS: Final[dict[str, str | Callable[[Any], str]]] = {
    # By name: a server on stdio must not import the client to look for its errors.
    "Failure": "{error}",
    "TargetError": "{error}",
    "CannotStart": "{error}; what comes after -- is the command, as a shell would run it",
    "ServerExited": _exited,
    "PipeClosed": _closed,
    "CallTimeout": "{error.what}: no answer within {error.seconds:g} s "
    "(--timeout SECONDS waits longer)",
    "LifespanError": lambda error: located(
        "the server's lifespan failed", error.__cause__ or error
    ),
    "McpError": _refused,
    "ResourceNotFound": "there is no resource {error} (`trio-mcp resources` shows what there is)",
    "ProtocolError": "{error} (`trio-mcp doctor` examines a server)",
    "Unauthorized": _unauthorized,
    "CannotReach": "{error}; does it run, and is the URL right, with its path?",
    "ClientError": "{error}",
    "SchemaError": "{error}",
    "OSError": _system,
}
"""The words for an exception: a template with `error`, or a function."""
