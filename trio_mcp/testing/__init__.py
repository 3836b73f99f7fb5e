"""Testing servers with pytest: the fixture `mcp`, and suites for classes of your own.

pytest finds the plugin by itself, where it is installed next to this package. It is a few lines
(`trio_mcp.testing.plugin`); everything else is imported by the first test that uses `mcp`.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.registry.http_info import HttpInfo as HttpInfo
    from trio_mcp.registry.kept_state import KeptState as KeptState
    from trio_mcp.testing.answers import CANCEL as CANCEL
    from trio_mcp.testing.answers import DECLINE as DECLINE
    from trio_mcp.testing.overrides import override as override
    from trio_mcp.testing.suites.lines import LineEnds as LineEnds
    from trio_mcp.testing.suites.lines import LineTransportSuite as LineTransportSuite
    from trio_mcp.testing.suites.providers import ProviderSuite as ProviderSuite
    from trio_mcp.testing.suites.stores import StoreClock as StoreClock
    from trio_mcp.testing.suites.stores import StoreSuite as StoreSuite
    from trio_mcp.testing.tester import ConnectOptions as ConnectOptions
    from trio_mcp.testing.tester import LogMessage as LogMessage
    from trio_mcp.testing.tester import McpTester as McpTester
    from trio_mcp.testing.tester import ProgressReport as ProgressReport
    from trio_mcp.testing.tester import ServeOptions as ServeOptions

_MODULES: Final = by_name(
    {
        "registry.http_info": "HttpInfo",
        "registry.kept_state": "KeptState",
        "testing.answers": "CANCEL DECLINE",
        "testing.overrides": "override",
        "testing.suites.lines": "LineEnds LineTransportSuite",
        "testing.suites.providers": "ProviderSuite",
        "testing.suites.stores": "StoreClock StoreSuite",
        "testing.tester": "ConnectOptions LogMessage McpTester ProgressReport ServeOptions",
    }
)

__all__ = sorted(_MODULES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), _MODULES)
