"""Testing servers with pytest: what the fixture `mcp` is, and what can be given to it.

pytest finds the plugin by itself, where it is installed next to this package. It is a few lines
(`trio_mcp.testing.plugin`); everything else is imported by the first test that uses `mcp`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trio_mcp.testing.answers import CANCEL as CANCEL
    from trio_mcp.testing.answers import DECLINE as DECLINE
    from trio_mcp.testing.tester import LogMessage as LogMessage
    from trio_mcp.testing.tester import McpTester as McpTester
    from trio_mcp.testing.tester import ProgressReport as ProgressReport

_MODULES: Final = {
    "CANCEL": "answers",
    "DECLINE": "answers",
    "LogMessage": "tester",
    "McpTester": "tester",
    "ProgressReport": "tester",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
