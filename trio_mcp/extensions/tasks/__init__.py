"""Tasks (`io.modelcontextprotocol/tasks`): calls that outlive their connection and their process.

`Tasks` is the server's side, `TasksClient` the client's.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.extensions.tasks.client import TasksClient as TasksClient
    from trio_mcp.extensions.tasks.info import TaskInfo as TaskInfo
    from trio_mcp.extensions.tasks.options import TaskOptions as TaskOptions
    from trio_mcp.extensions.tasks.server import Tasks as Tasks
    from trio_mcp.extensions.tasks.server import continue_as_task as continue_as_task

_MODULES: Final = by_name(
    {
        "extensions.tasks.client": "TasksClient",
        "extensions.tasks.info": "TaskInfo",
        "extensions.tasks.options": "TaskOptions",
        "extensions.tasks.server": "Tasks continue_as_task",
    }
)

__all__ = sorted(_MODULES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), _MODULES)
