"""The errors that travel and their codes, and those that authors of servers raise or meet.

JSON-RPC 2.0 defines -32700 and -32600 to -32603; MCP 2026-07-28 adds -32020 to -32022 (Overview,
"Error Codes") and earlier revisions -32002.
"""

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

BUSY: Final = -32000
"""There are too many requests; a later one may be served."""
RESOURCE_NOT_FOUND: Final = -32002
"""Legacy revisions only; modern ones say `INVALID_PARAMS`."""

HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
URL_ELICITATION_REQUIRED: Final = -32042
"""The user has to do something at a page first (2025-11-25)."""
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022


class McpError(Exception):
    """A JSON-RPC error. Raise it in a handler to send it; a client raises the one that it receives.

    Args:
        code: The JSON-RPC error code.
        message: One sentence for a person.
        data: Any JSON value that helps the caller.

    Example:
        >>> raise McpError(-32602, "Unknown tool: sum")
        Traceback (most recent call last):
        ...
        trio_mcp.errors.McpError: Unknown tool: sum (-32602)
    """

    __module__ = "trio_mcp.errors"

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ToolError(Exception):
    """Raise it in a tool to tell its caller what went wrong.

    The caller gets the text as it is, in a result with `isError: true`. The text of any other
    exception stays in the log.

    Example:
        >>> raise ToolError("Error: Division by zero")
        Traceback (most recent call last):
        ...
        trio_mcp.errors.ToolError: Error: Division by zero
    """

    __module__ = "trio_mcp.errors"


class ResourceNotFound(Exception):
    """Raise it in the function of a resource when there is nothing at that URI.

    The caller gets the error code that its revision has for this.

    Example:
        >>> raise ResourceNotFound("users://42/profile")
        Traceback (most recent call last):
        ...
        trio_mcp.errors.ResourceNotFound: users://42/profile
    """

    __module__ = "trio_mcp.errors"


class SchemaError(ValueError):
    """A schema, an annotation or a default cannot be used. Raised at registration.

    The message names the tool and the parameter where they are known, and says what to do.
    """

    __module__ = "trio_mcp.errors"


class LifespanError(Exception):
    """The lifespan of a registry raised something when it was opened or closed.

    What it raised is the `__cause__`.
    """

    __module__ = "trio_mcp.errors"
