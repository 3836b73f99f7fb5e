"""Arguments that are large: checked and converted in a worker thread.

Small ones are bound when the request is admitted, so that what does not fit is refused before
anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from trio_mcp.layers.call import Call, Handler
from trio_mcp.schema import ArgumentError
from trio_mcp.threads import in_thread
from trio_mcp.wire.errors import ToolError


class RefusedArguments(ToolError):
    """Arguments that were found not to fit when the call was running already.

    Args:
        text: A sentence for the caller.
        argument: Which one it was; `None` if it was not one alone.
    """

    def __init__(self, text: str, argument: str | None = None) -> None:
        super().__init__(text)
        self.argument = argument


@frozen(eq=False, repr=False)
class UncheckedArguments:
    """Arguments that have to be bound in a worker thread.

    Args:
        handler: Whose they are, such as `tool add`.
        check: Turns them into keyword arguments, or raises `ArgumentError`.
    """

    handler: str
    check: Callable[[], dict[str, Any]]

    async def bind(self) -> dict[str, Any]:
        """Return the keyword arguments. Cancelled, it leaves the thread behind.

        Raises:
            RefusedArguments: They do not fit.
        """
        try:
            return await in_thread(self.check)
        except ArgumentError as error:
            text = f"Invalid arguments for {self.handler}: {error}"
            raise RefusedArguments(text, error.argument) from None


def binding(inner: Handler) -> Handler:
    """Bind the arguments of a call that came unchecked."""

    async def run(call: Call) -> Any:
        call.arguments = await call.arguments.bind()
        return await inner(call)

    return run
