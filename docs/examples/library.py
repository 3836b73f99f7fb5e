"""A library whose books and loans are Pydantic models."""

from datetime import date, timedelta
from typing import Annotated, Literal

import trio
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, field_validator

from trio_mcp import Context, Registry, ToolError, serve

registry = Registry("library", version="1.0")


class Book(BaseModel):
    """A book of the library."""

    model_config = ConfigDict(extra="forbid")

    isbn: Annotated[str, Field(pattern=r"^[\d-]+$", description="Thirteen digits.")]
    title: str
    copies: Annotated[int, Field(ge=0)] = 1

    @field_validator("isbn")
    @classmethod
    def _without_dashes(cls, isbn: str) -> str:
        digits = isbn.replace("-", "")
        if len(digits) != 13:
            raise ValueError("an ISBN has thirteen digits")
        return digits


class Loan(BaseModel):
    """Who has which book."""

    title: str
    reader: str = Field(serialization_alias="lentTo")
    until: date

    @computed_field
    def reminder(self) -> date:
        """When to remind the reader."""
        return self.until - timedelta(days=3)


BOOKS: dict[str, Book] = {}


@registry.tool
async def add(books: list[Book]) -> int:
    """Add books to the library.

    Returns:
        How many there are now.
    """
    BOOKS.update({book.isbn: book for book in books})
    return len(BOOKS)


class Card(BaseModel):
    """What the library asks of a new reader."""

    name: Annotated[str, Field(min_length=2, title="Your name")]
    newsletter: Literal["never", "monthly"] = "never"


Isbn = Annotated[str, AfterValidator(lambda text: text.replace("-", ""))]


@registry.tool
async def lend(isbn: Isbn, until: date, context: Context) -> Loan:
    """Lend a book to the reader, who is asked for a name."""
    book = BOOKS.get(isbn)
    if book is None or not book.copies:
        raise ToolError("This book is not here.")
    card = (await context.elicit("Who borrows it?", Card)).value
    book.copies -= 1
    return Loan(title=book.title, reader=card.name, until=until)


if __name__ == "__main__":
    trio.run(serve, registry)
