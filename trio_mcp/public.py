"""Marks what is public: reprs, tracebacks and pickles then name where it is imported from."""

from typing import TypeVar

T = TypeVar("T")


def public(item: T) -> T:
    """Have a class or a function say that it is from `trio_mcp`, whatever room it stands in."""
    item.__module__ = "trio_mcp"
    return item
