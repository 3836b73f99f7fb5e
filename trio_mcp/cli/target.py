"""Finding the registry that a command names: `MODULE:REGISTRY` or `FILE.py:REGISTRY`."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from trio_mcp.registry import Registry


class TargetError(Exception):
    """There is no registry where the command says; the message tells what to do."""


def load_registry(target: str) -> Registry:
    """Import a module or a file and return its registry.

    Args:
        target: `MODULE:REGISTRY` or `FILE.py:REGISTRY`. Without `:REGISTRY`, the module's only
            registry is meant.

    Raises:
        TargetError: The module or the registry cannot be found, or is none.
        Exception: Whatever the module raises when it is imported.
    """
    place, _, name = target.partition(":")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    registries = {key: value for key, value in vars(module).items() if isinstance(value, Registry)}
    if name:
        if not hasattr(module, name):
            raise TargetError(f"{place} has no {name!r}{_instead(registries)}")
        found = getattr(module, name)
        if not isinstance(found, Registry):
            kind = type(found).__name__
            raise TargetError(f"{target} is a {kind}, not a Registry{_instead(registries)}")
        return found
    if len(set(map(id, registries.values()))) != 1:
        raise TargetError(
            f"{place} has {len(registries) or 'no'} registries; say which: {place}:REGISTRY"
            + _instead(registries)
        )
    return next(iter(registries.values()))


def _instead(registries: dict[str, Registry]) -> str:
    return f" (it has: {', '.join(registries)})" if registries else ""


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise TargetError(f"there is no module {name!r}; a file is given as FILE.py") from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {path}")
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
