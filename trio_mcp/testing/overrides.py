"""Other functions in the place of dependencies, for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from trio_mcp import Registry
from trio_mcp.public import public_in
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.registry import catalogue_of


@public_in("trio_mcp.testing")
@contextmanager
def override(
    registry: Registry, function: Callable[..., Any], replacement: Callable[..., Any]
) -> Iterator[None]:
    """Have another function fill the parameters that depend on one, for the block.

    It holds for the registry and for all that is mounted there, and for calls that begin in the
    block. Blocks may be nested.

    Args:
        registry: The registry whose calls are tested.
        function: What its functions depend on, by `Depends(function)`.
        replacement: What is called in its place. It need not be of the same kind: an async
            function may stand for one that yields. It may have dependencies itself, but not the
            function that it replaces.

    Raises:
        ValueError: Nothing depends on the function.
        SchemaError: The replacement cannot be a dependency; the message says why.

    Example:
        >>> async def nothing() -> dict[str, str]:
        ...     return {}
        >>> with override(registry, database, nothing):
        ...     await registry.call("count")
    """
    own = catalogue_of(registry)
    everything = [part for part in (own, *own.all_providers()) if isinstance(part, Catalogue)]
    found = [part.dependencies for part in everything if function in part.dependencies.functions]
    if not found:
        name = getattr(function, "__name__", repr(function))
        raise ValueError(
            f"nothing in {registry.name!r} depends on {name}; override the very "
            "function that stands in Depends(…)"
        )
    with ExitStack() as stack:
        for dependencies in found:
            stack.enter_context(dependencies.replaced(function, replacement))
        yield
