"""Exceptions whose text callers may read."""

from __future__ import annotations

from typing import Any, ClassVar

from trio_mcp.layers.answering import TOLD, leaves_of
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import Around, CallNext, McpCall
from trio_mcp.wire.errors import McpError, ToolError

logger = logger_of("trio_mcp.errors")


@public_in("trio_mcp.middleware")
class ShowErrors:
    """Shows callers the text of exceptions that would be masked (around calls).

    It makes a `ToolError` of them, wherever they were raised: in your function, in what it calls,
    or in a dependency. The log has their tracebacks at debug level. Name the classes whose texts
    your functions write: others may hold what callers must not see.

    If you name `McpError`, a tool that raises one answers with its message, which a model reads,
    and not with an error of the protocol. `Exception` does not stand for it.

    Args:
        *kinds: Classes of exceptions, subclasses included.

    Raises:
        TypeError: There is none, or it is not a class of exceptions.

    Example:
        >>> registry = Registry("orders", middleware=[ShowErrors(ValueError, LookupError)])
    """

    around: ClassVar[Around] = "calls"

    def __init__(self, *kinds: type[Exception]) -> None:
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise TypeError(f"ShowErrors takes classes of exceptions, not {kind!r:.100}")
        if not kinds:
            raise TypeError("ShowErrors needs the classes of exceptions to show")
        self._kinds = kinds
        self._protocol_errors = tuple(kind for kind in kinds if issubclass(kind, McpError))

    def __repr__(self) -> str:
        return f"ShowErrors({', '.join(kind.__name__ for kind in self._kinds)})"

    async def __call__(self, call: McpCall, call_next: CallNext) -> Any:
        """Pass a call on, and raise a `ToolError` with the text of what it raises.

        Raises:
            ToolError: The call raised exceptions of these classes, or a group of them.
        """
        try:
            return await call_next(call)
        except Exception as error:
            leaves = leaves_of(error)
            if not all(self._shows(leaf, call) for leaf in leaves):
                raise
            logger.debug("%s %s: its caller reads why", call.kind, call.name, exc_info=error)
            raise ToolError("\n".join(map(_text_of, leaves))) from error

    def _shows(self, error: BaseException, call: McpCall) -> bool:
        if isinstance(error, TOLD):
            return call.kind == "tool" and isinstance(error, self._protocol_errors)
        return isinstance(error, self._kinds)


def _text_of(error: BaseException) -> str:
    said = error.message if isinstance(error, McpError) else str(error)
    return said or type(error).__name__
