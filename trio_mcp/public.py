"""Public names: they say where they are imported from, and are imported when first used."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def public_in(package: str) -> Callable[[T], T]:
    """Make a class or function name a package as its module, in reprs, tracebacks and pickles."""

    def say(item: T) -> T:
        item.__module__ = package
        return item

    return say


public = public_in("trio_mcp")


def by_name(modules: Mapping[str, str]) -> dict[str, str]:
    """Return the modules of names, of which each module has some, with spaces between."""
    return {name: module for module, names in modules.items() for name in names.split()}


def lazily(
    namespace: dict[str, Any],
    modules: Mapping[str, str],
    *,
    extras: Mapping[str, str] | None = None,
    submodules: Collection[str] = (),
    own: bool = False,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a package whose names are imported one by one.

    Args:
        namespace: The package's `globals()`.
        modules: By name, the module below `trio_mcp` that defines it.
        extras: By such a module, the extra that has to be installed for it.
        submodules: Modules of the package that are names of its own.
        own: Whether what is imported is to say that it is from this package.
    """
    package = namespace["__name__"]

    def get(name: str) -> Any:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        extra = (extras or {}).get(modules[name])
        try:
            module = import_module(f"trio_mcp.{modules[name]}")
        except ModuleNotFoundError as error:
            if extra is None:
                raise
            from trio_mcp.extras import advice

            raise ModuleNotFoundError(advice(name, extra), name=error.name) from None
        value = namespace[name] = getattr(module, name)
        if own:
            value.__module__ = package
        return value

    return get, lambda: sorted({*namespace, *modules, *submodules})
