"""How bytes move between a client and a server: one module per way."""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.transports.process import ProcessExited as ProcessExited
    from trio_mcp.transports.process import ProcessOptions as ProcessOptions
    from trio_mcp.transports.process import ProcessRunning as ProcessRunning
    from trio_mcp.transports.process import StdioTransport as StdioTransport
    from trio_mcp.transports.process import open_process as open_process

MODULES: Final = by_name(
    {
        "transports.process": (
            "ProcessExited ProcessOptions ProcessRunning StdioTransport open_process"
        ),
    }
)

__all__ = sorted(MODULES)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES)
