"""Tasks (`io.modelcontextprotocol/tasks`): calls that outlive their connection and their process.

`Tasks` is the server's side, `TasksClient` the client's.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trio_mcp.extensions.tasks.client import TasksClient as TasksClient
    from trio_mcp.extensions.tasks.info import TaskInfo as TaskInfo
    from trio_mcp.extensions.tasks.options import TaskOptions as TaskOptions
    from trio_mcp.extensions.tasks.server import Tasks as Tasks
    from trio_mcp.extensions.tasks.server import continue_as_task as continue_as_task

_NAMES: Final = {
    "TaskInfo": "info",
    "TaskOptions": "options",
    "Tasks": "server",
    "TasksClient": "client",
    "continue_as_task": "server",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: a server does not need the client's side."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
