"""How bytes move between a client and a server: one module per way."""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.system.http1 import Http1Transport as Http1Transport
    from trio_mcp.transports.process import ProcessExited as ProcessExited
    from trio_mcp.transports.process import ProcessOptions as ProcessOptions
    from trio_mcp.transports.process import ProcessRunning as ProcessRunning
    from trio_mcp.transports.process import StdioTransport as StdioTransport
    from trio_mcp.transports.process import open_process as open_process

MODULES: Final = by_name(
    {
        "system.http1": "Http1Transport",
        "transports.process": (
            "ProcessExited ProcessOptions ProcessRunning StdioTransport open_process"
        ),
    }
)

_EXTRAS: Final = {"system.http1": "http"}
"""By the modules that cannot be imported without it, an extra."""

__all__ = sorted(name for name, module in MODULES.items() if module not in _EXTRAS)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES, extras=_EXTRAS)
