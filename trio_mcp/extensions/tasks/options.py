"""The options of tools that are tasks, and the names that both sides use."""

from __future__ import annotations

from math import inf
from typing import Final, Literal

from attrs import field, frozen, validators

from trio_mcp.checks import bound, is_a
from trio_mcp.extending import Method
from trio_mcp.public import public_in

TASKS: Final = "io.modelcontextprotocol/tasks"
CHANGED: Final = "notifications/tasks"
FILTER: Final = "taskIds"

GET: Final = Method(name="tasks/get", target="taskId", era="modern", repeatable=True)
UPDATE: Final = Method(name="tasks/update", target="taskId", era="modern", repeatable=True)
CANCEL: Final = Method(name="tasks/cancel", target="taskId", era="modern", repeatable=True)

OnRestart = Literal["run again", "fail"]


@public_in("trio_mcp.extensions.tasks")
@frozen(kw_only=True)
class TaskOptions:
    """How calls of a tool are tasks: `@registry.tool(task=TaskOptions(...))`.

    Args:
        on_restart: What happens to a task whose process ends before it: it is run again, from the
            beginning, with the answers that it has had; or it fails. Only what does no harm when it
            is done twice should be run again.
        ttl: Seconds from its creation for which it is kept, whether or not it has ended; `inf` for
            as long as the store lives. Without, it is that of `Tasks`.
        timeout: Seconds that it may take, without what it waits for answers. The tool's own
            `timeout` is for calls that are not tasks.
        required: Refuse clients that have not declared the extension. Otherwise they wait for the
            result, as for that of any other tool.
        at_once: Whether a call is a task from its beginning. Otherwise it becomes one when the tool
            awaits `continue_as_task`, if it does.

    Example:
        >>> nightly = TaskOptions(on_restart="run again", ttl=7 * 86_400)
    """

    on_restart: OnRestart = field(default="fail", validator=validators.in_(("run again", "fail")))
    ttl: float | None = field(default=None, validator=validators.optional(bound()))
    timeout: float = field(default=inf, validator=bound())
    required: bool = field(default=False, validator=is_a(bool))
    at_once: bool = field(default=True, validator=is_a(bool))
