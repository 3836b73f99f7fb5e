"""How a tool is a task: its options, and the names that both sides know."""

from __future__ import annotations

from math import inf
from typing import Any, Final, Literal

from attrs import Attribute, field, frozen, validators

from trio_mcp import Method

TASKS: Final = "io.modelcontextprotocol/tasks"
CHANGED: Final = "notifications/tasks"
FILTER: Final = "taskIds"

GET: Final = Method(name="tasks/get", target="taskId", era="modern", repeatable=True)
UPDATE: Final = Method(name="tasks/update", target="taskId", era="modern", repeatable=True)
CANCEL: Final = Method(name="tasks/cancel", target="taskId", era="modern", repeatable=True)

OnRestart = Literal["run again", "fail"]


def is_time(_: object, attribute: Attribute[Any], value: float) -> None:
    """Refuse what is no length of time."""
    if not value > 0:  # so NaN is none, but infinity is
        raise ValueError(f"{attribute.name} must be more than 0 seconds, not {value!r}")


@frozen(kw_only=True)
class TaskOptions:
    """How calls of a tool are tasks: `@registry.tool(task=TaskOptions(...))`.

    Args:
        on_restart: What becomes of a task whose process ends before it: it is run again, from the
            beginning, with the answers that it has had; or it fails. Only what does no harm when it
            is done twice should be run again.
        ttl: Seconds from its creation for which it is kept, whether or not it has ended; `inf` for
            as long as the store lives. Without, it is that of `Tasks`.
        timeout: Seconds that it may take, without what it waits for answers. The tool's own
            `timeout` is for calls that are no tasks.
        required: Refuse clients that have not declared the extension. Otherwise they wait for the
            result, as for that of any other tool.
        at_once: Whether a call is a task from its beginning. Otherwise it becomes one when the tool
            awaits `continue_as_task`, if it does.

    Example:
        >>> nightly = TaskOptions(on_restart="run again", ttl=7 * 86_400)
    """

    on_restart: OnRestart = field(default="fail", validator=validators.in_(("run again", "fail")))
    ttl: float | None = field(default=None, validator=validators.optional(is_time))
    timeout: float = field(default=inf, validator=is_time)
    required: bool = False
    at_once: bool = True
