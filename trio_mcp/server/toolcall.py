"""One tool call: its failures are results, for the model to read."""

from __future__ import annotations

from typing import Any, ClassVar

from trio_mcp.registry.handlers import RefusedArguments
from trio_mcp.registry.results import result_to_wire
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.wire.jsonrpc import Json, sendable_text


def tool_failure(text: str) -> dict[str, Json]:
    """Make the result of a tool that failed."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


class ToolCall(HandlerCall):
    """A checked `tools/call`, ready to run."""

    __slots__ = ()
    kind: ClassVar[str] = "Tool"

    def wire(self, value: Any) -> dict[str, Json]:
        """Turn what the tool returned into the body of a `tools/call` result."""
        return result_to_wire(self.handler, value, self.context.caller.revision)

    def refused(self, error: RefusedArguments) -> bytes:
        """Make a result of it where the caller's revision has it so."""
        if self.context.revision.argument_errors_are_results:
            return self.failed(str(error))
        return super().refused(error)

    def failed(self, text: str) -> bytes:
        """Make a result with `isError: true`."""
        result = self.context.complete(tool_failure(sendable_text(text)))
        return self.context.write(result)
