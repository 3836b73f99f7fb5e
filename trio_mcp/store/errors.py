"""What goes wrong with a store."""

from __future__ import annotations


class StoreError(Exception):
    """Anything that goes wrong between a program and its store."""

    __module__ = "trio_mcp.errors"


class StoreFull(StoreError):
    """There is no room for what was to be written. Nothing was written.

    The disk is full, the store has reached its bound, or the value is longer than any may be.
    """

    __module__ = "trio_mcp.errors"


class StoreUnavailable(StoreError):
    """The store cannot be reached now: locked, gone, closed, or its disk fails.

    What was to be written may have been written, or not, or may be once the network is whole again.
    So try again in a way that works in each case: with `expect`, say.
    """

    __module__ = "trio_mcp.errors"


class StoreUnusable(StoreError):
    """The store cannot be used until a person has looked at it.

    It is damaged, cannot be written to, belongs to something else, or was written by a newer
    version of this package.
    """

    __module__ = "trio_mcp.errors"


class Damaged(StoreError):
    """An entry cannot be read: it is damaged, or of a newer version of this package."""


class LeaseLost(Exception):
    """A lease could not be renewed in time, so another process may hold it by now."""
