"""Tasks (`io.modelcontextprotocol/tasks`): calls that outlive their connection and their process.

`Tasks` is the server's side, `TasksClient` the client's.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import lazily

if TYPE_CHECKING:
    from trio_mcp.extensions.tasks.client import TasksClient as TasksClient
    from trio_mcp.extensions.tasks.info import TaskInfo as TaskInfo
    from trio_mcp.extensions.tasks.options import TaskOptions as TaskOptions
    from trio_mcp.extensions.tasks.server import Tasks as Tasks
    from trio_mcp.extensions.tasks.server import continue_as_task as continue_as_task

_MODULES: Final = {
    "TaskInfo": "extensions.tasks.info",
    "TaskOptions": "extensions.tasks.options",
    "Tasks": "extensions.tasks.server",
    "TasksClient": "extensions.tasks.client",
    "continue_as_task": "extensions.tasks.server",
}

__all__ = sorted(_MODULES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), _MODULES)
