"""Testing servers with pytest: what the fixture `mcp` is, and what can be given to it.

pytest finds the plugin by itself, where it is installed next to this package. It is a few lines
(`trio_mcp.testing.plugin`); everything else is imported by the first test that uses `mcp`.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import lazily

if TYPE_CHECKING:
    from trio_mcp.testing.answers import CANCEL as CANCEL
    from trio_mcp.testing.answers import DECLINE as DECLINE
    from trio_mcp.testing.options import ConnectOptions as ConnectOptions
    from trio_mcp.testing.options import ServeOptions as ServeOptions
    from trio_mcp.testing.tester import LogMessage as LogMessage
    from trio_mcp.testing.tester import McpTester as McpTester
    from trio_mcp.testing.tester import ProgressReport as ProgressReport

_MODULES: Final = {
    "CANCEL": "testing.answers",
    "ConnectOptions": "testing.options",
    "DECLINE": "testing.answers",
    "LogMessage": "testing.tester",
    "McpTester": "testing.tester",
    "ProgressReport": "testing.tester",
    "ServeOptions": "testing.options",
}

__all__ = sorted(_MODULES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), _MODULES)
