"""What is kept with all its fields."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from attrs import asdict, frozen

from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, loads


class Damaged(StoreError):
    """What is there cannot be read: it is damaged, or of a newer version of this package."""


@frozen
class Kept:
    """What is kept with all its fields. Derive from it."""

    _form: ClassVar[int] = 1
    """Another number for each change that older versions do not understand."""
    _what: ClassVar[str]
    """What it is called in errors."""

    def encode(self) -> bytes:
        """Write it down. What is not JSON, such as in an author's own claims, is kept as text."""
        return dumps({"form": self._form, **asdict(self, recurse=False)})

    @classmethod
    def decode(cls, kept: bytes) -> Self:
        """Read what `encode` wrote.

        Raises:
            Damaged: It is, or a newer version of this package wrote it.
        """
        try:
            fields: dict[str, Any] = loads(kept)
            if fields.pop("form") == cls._form:
                return cls(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(f"{cls._what} is damaged") from error
        raise Damaged(f"{cls._what} was written by a newer version")
