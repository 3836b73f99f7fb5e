"""What goes wrong in this room: a schema at registration, or an argument at a call."""

from typing import Any, Self

from trio_mcp.schema.sentences import describe, subject
from trio_mcp.wire.errors import SchemaError


class Unmapped(SchemaError):
    """An annotation has no counterpart in JSON Schema."""

    def __init__(self, message: str, annotation: Any) -> None:
        super().__init__(message)
        self.annotation = annotation


class errors_at:  # a context manager, and a third of what a generator costs
    """Puts a place before the message of a `SchemaError` that comes out of the block."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, SchemaError):
            error.args = (f"{self._place}: {error}",)


class Problem(str):
    """What is wrong with a value, in sentences, and the argument that the first one is about."""

    argument: str | None

    def __new__(cls, text: str, argument: str | None = None) -> Self:
        problem = super().__new__(cls, text)
        problem.argument = argument
        return problem


class ArgumentError(ValueError):
    """Arguments do not fit, or one that its schema accepts cannot become the annotated type.

    A date such as `2024-13-45` is a string, so the schema lets it pass; it is not a date, though.
    """

    def __init__(self, problem: Problem | str) -> None:
        super().__init__(str(problem))
        self.argument = problem.argument if isinstance(problem, Problem) else None


class ConversionError(ValueError):
    """A value that its schema accepts, but not its type, which expected something else."""

    def __init__(self, expected: str, value: Any) -> None:
        super().__init__(expected)
        self.expected = expected
        self.value = value

    def tell(self, noun: str, place: str) -> str:
        return f"{subject(noun, place)} must be {self.expected}, but {describe(self.value)}."


class AtPath(Exception):
    """An error in a part of a value; the step is the part's name or index."""

    def __init__(self, step: str | int, error: Exception) -> None:
        super().__init__(step)
        self.step = step
        self.error = error
