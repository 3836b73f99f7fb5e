"""What is public says what it does: classes and functions, and the methods that callers use."""

import importlib
import inspect
from collections.abc import Iterator

import pytest

import trio_mcp

PACKAGES = ["trio_mcp", *(f"trio_mcp.{name}" for name in ("aio", "middleware", "testing"))]


def documented(package: str) -> Iterator[tuple[str, object]]:
    """The public names of a package, and the public methods of its classes."""
    module = importlib.import_module(package)
    for name in module.__all__:
        item = getattr(module, name)
        if not (inspect.isclass(item) or inspect.isfunction(item)):
            continue
        yield f"{package}.{name}", item
        for method, value in vars(item).items() if inspect.isclass(item) else ():
            kinds = property | classmethod | staticmethod
            if not method.startswith(("_", "test_")) and (
                inspect.isfunction(value) or isinstance(value, kinds)
            ):
                yield f"{package}.{name}.{method}", getattr(item, method, value)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_docstring(package: str) -> None:
    assert trio_mcp.__all__
    assert [name for name, item in documented(package) if not inspect.getdoc(item)] == []
