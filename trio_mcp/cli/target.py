"""What a command is about: a registry, a command that starts a server, or a URL.

A command of several words follows `--`. It goes through the parser of the command line as one word,
joined by NUL, which no argument of a process can contain.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from trio_mcp.cli.failures import Failure, Usage, cause_of, located, place_of
from trio_mcp.server.importing import ServedByImport
from trio_mcp.wire.closest import did_you_mean

if TYPE_CHECKING:
    from trio_mcp.registry import Registry

SERVER_URL: Final = "MCP_SERVER_URL"
"""The environment variable with the target of commands that have none."""

_PLAIN_NAME: Final = re.compile(r"[\w-]+")
_PARTS: Final = re.compile(r"(?P<place>([A-Za-z]:(?=[\\/]))?[^:]*)(:(?P<registry>.*))?", re.DOTALL)
_NUL: Final = "\0"
_ADDRESS: Final = re.compile(r"\w[\w.-]*:\d+(/|$)|(localhost|\w[\w-]*(\.[\w-]+)+)/")
"""How a URL without its scheme begins."""
_MAX_FILES: Final = 50
_MAX_READ: Final = 65536
"""Files, and bytes of each, in which a server is looked for."""
_PEERS: Final = ("fastmcp.", "mcp.")
"""How the names of the modules of other libraries for servers begin."""
_FASTAPI: Final = "FastAPI"
_MAKE_ONE: Final = "make one of it: registry = from_fastapi(app), from trio_mcp.aio"
_HOW_URLS_BEGIN: Final = "a URL begins with http:// or https://"


class TargetError(Failure):
    """The target is not usable; the message says what to do."""


@frozen
class Target:
    """A command, a URL or a registry."""

    text: str = field(repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    url: str | None = field(default=None, repr=False)
    registry: str | None = None

    @property
    def process(self) -> list[str] | None:
        """The command that starts the server as a process; `None` for a URL."""
        if self.registry is not None:
            return [*OURSELVES, "serve", self.registry, "--log-level", "warning"]
        return list(self.command) or None


OURSELVES: Final = (sys.executable, "-P", "-m", "trio_mcp.cli")
"""The command that runs this command line."""


def join_command(words: Sequence[str]) -> list[str]:
    """Put the command that follows `--` where the target belongs: first, as one word."""
    if "--" not in words:
        return list(words)
    at = words.index("--")
    name, rest, command = words[:1], words[1:at], words[at + 1 :]
    if at == 0 or not command:
        raise Usage("a command comes after --, as in: trio-mcp tools -- python server.py")
    return [*name, _NUL + _NUL.join(command), *rest]


def parse_target(word: str) -> Target:
    if word.startswith(_NUL):
        command = tuple(word.split(_NUL)[1:])
        return Target(" ".join(command), command=command)
    if word.lower().startswith(("http://", "https://")):
        return Target(word, url=word)
    place, _ = split_target(word)
    if place.endswith(".py"):
        _existing(place)
    elif _ADDRESS.match(word):
        raise TargetError(f"{_HOW_URLS_BEGIN}, as in http://{word}")
    elif "://" in word:
        raise TargetError(f"{_HOW_URLS_BEGIN}, not with {word.partition('://')[0]}://")
    else:
        _refuse_directory(place)
        if not _is_module(place):
            raise TargetError(_no_module(place))
    return Target(word, registry=word)


def _refuse_directory(place: str) -> None:
    folder = Path(place)
    if folder.is_dir() and not (folder / "__init__.py").exists():
        example = server_in(folder) or folder / "server.py"
        raise TargetError(f"{place} is a directory; give a file in it, as in {example}")


def _no_module(place: str) -> str:
    if Path(place).is_file():
        return f"{place} is not a Python file; a command comes after --, as in: -- ./{place}"
    if shutil.which(place):
        return f"{place} is a program; a command comes after --, as in: -- {place} server.py"
    return f"there is no module {place!r}; a file is given as FILE.py, and a command after --"


def server_in(folder: Path = Path()) -> str | None:
    """Return a Python file in a directory that makes a registry, if there is one."""
    for path in sorted(folder.glob("*.py"))[:_MAX_FILES]:
        with suppress(OSError), path.open("rb") as file:
            if b"Registry(" in file.read(_MAX_READ):
                return str(path)
    return None


def word_of_environment(text: str) -> str:
    """Return what `MCP_SERVER_URL` has as a word of the command line, as `join_command` does."""
    from trio_mcp.client.opening import command_in_environment

    try:
        parse_target(text)
        return text
    except TargetError:
        try:
            return _NUL + _NUL.join(command_in_environment(text))
        except ValueError as error:
            raise TargetError(str(error)) from None


def split_target(target: str) -> tuple[str, str]:
    """Split `PLACE:REGISTRY`; a place may begin with the letter of a drive."""
    found = _PARTS.fullmatch(target)
    assert found is not None  # it matches any text
    return found["place"], found["registry"] or ""


def is_no_target(word: str) -> bool:
    """Whether a word is a plain name, but of no module that may have a registry."""
    if _PLAIN_NAME.fullmatch(word) is None:
        return False
    return word in sys.stdlib_module_names or not _is_module(word)


def registry_target(word: str) -> str:
    if word.startswith(_NUL) or "://" in word:
        raise TargetError("what is served is FILE.py:REGISTRY or MODULE:REGISTRY")
    return word


def folder_of(target: str) -> Path:
    place, _ = split_target(target)
    return Path(place).parent if place.endswith(".py") else Path()


def load_registry(target: str) -> Registry:
    """Import a module or a file and return its registry.

    Args:
        target: `MODULE:REGISTRY` or `FILE.py:REGISTRY`, or in place of the registry a function
            that makes it. Without `:REGISTRY`, the module's only registry is meant,
            or the only one that is not mounted in another one of the module.
    """
    from trio_mcp.registry import Registry

    place, name = split_target(target)
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    registries = {key: value for key, value in vars(module).items() if isinstance(value, Registry)}
    if name:
        if not hasattr(module, name):
            raise TargetError(f"{place} has no {name!r}{_instead(registries)}")
        found = getattr(module, name)
        if inspect.isfunction(found):
            found, target = _made(target, found), f"what {target} returns"
        if not isinstance(found, Registry):
            kind = type(found).__name__
            hint = f"; {_MAKE_ONE}" if kind == _FASTAPI else _instead(registries)
            raise TargetError(f"{target} is a {kind}, not a Registry{hint}")
        return found
    if not registries:
        raise TargetError(_no_registry(place, module))
    meant = _outermost(registries.values())
    if len(meant) != 1:
        raise TargetError(
            f"{place} has {len(registries)} registries; say which: {place}:REGISTRY"
            + _instead(registries)
        )
    return meant[0]


def _no_registry(place: str, module: ModuleType) -> str:
    if any(type(value).__module__.startswith(_PEERS) for value in vars(module).values()):
        return (
            f"{place} is a server for FastMCP or the official SDK: trio-mcp port {place} reports "
            f"what to change; as it is, it runs after --, as in: -- python {place}"
        )
    if any(type(value).__name__ == _FASTAPI for value in vars(module).values()):
        return f"{place} has a FastAPI application, and no Registry; {_MAKE_ONE}"
    return f"{place} makes no Registry, as in: mcp = Registry('my-server')"


def _outermost(registries: Iterable[Registry]) -> list[Registry]:
    from trio_mcp.registry import catalogue_of

    catalogues = {registry: catalogue_of(registry) for registry in registries}
    inner = {provider for outer in catalogues.values() for provider in outer.all_providers()}
    return [registry for registry, own in catalogues.items() if own not in inner]


def _made(target: str, factory: Callable[..., object]) -> object:
    if inspect.iscoroutinefunction(factory) or inspect.isasyncgenfunction(factory):
        raise TargetError(f"{target} is async; a function that makes a registry must not be")
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(factory).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
    if needed:
        raise TargetError(
            f"{target} is a function that needs {', '.join(needed)}; "
            "one that makes a registry must do without arguments"
        )
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise TargetError(located(f"{target} failed", error)) from error


def _instead(registries: dict[str, Registry]) -> str:
    return f" (it has: {', '.join(registries)})" if registries else ""


def _existing(place: str) -> Path:
    path = Path(place)
    if not path.is_file():
        others = (other.name for other in path.parent.glob("*.py"))
        meant = did_you_mean(path.name, others)
        raise TargetError(f"there is no file {path}{meant}")
    return path


def _is_module(name: str) -> bool:
    sys.path.insert(0, "")  # as `serve` does
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
    finally:
        sys.path.remove("")


def _load_module(name: str) -> ModuleType:
    _refuse_directory(name)
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise TargetError(f"there is no module {name!r}; a file is given as FILE.py") from None
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _load_file(path: Path) -> ModuleType:
    _existing(str(path))
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _broken(str(path), error) from error
    return module


def _broken(place: str, error: BaseException) -> TargetError:
    cause = cause_of(error)
    if isinstance(cause, ServedByImport):
        return TargetError(f"{cause} ({place_of(error)})")
    return TargetError(located(f"{place} cannot be imported", error))
