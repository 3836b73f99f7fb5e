"""How the fields of payloads are declared."""

from base64 import b64encode
from typing import Any

from attrs import NOTHING, field, validators

from trio_mcp.wire.revisions import SINCE


def since(revision: str, *, wire: str | None = None) -> Any:
    """Declare a field that may be left out, and the first revision that has it."""
    return field(default=None, kw_only=True, metadata={"since": SINCE[revision], "wire": wire})


def optional() -> Any:
    """Declare a field that may be left out."""
    return field(default=None, kw_only=True)


def unwritten(default: Any = NOTHING, *, factory: Any = None) -> Any:
    """Declare a field that is left out while it has its default; `null` is not taken for that."""
    return field(default=default, factory=factory, metadata={"unwritten": True})


def meta_field(since_revision: str = "2025-06-18") -> Any:
    """Declare the field for anything else, under namespaced keys."""
    return since(since_revision, wire="_meta")


def type_field(name: str) -> Any:
    """Declare the field that says of which kind a block is."""
    return field(default=name, init=False, repr=False)


def base64_text(data: str | bytes | bytearray | memoryview) -> str:
    """Convert bytes to base64; text is taken for base64 already."""
    if isinstance(data, str):
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return b64encode(data).decode()
    raise TypeError(f"the data must be bytes, or base64 as text, not {type(data).__name__}")


zero_to_one: Any = validators.optional(validators.and_(validators.ge(0), validators.le(1)))
"""Validates a number that says how much."""
