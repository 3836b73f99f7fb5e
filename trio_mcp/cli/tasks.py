"""`trio-mcp tasks`: what has become of a call that was started with `call --task`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from trio_mcp.cli.calling import doing, show_call
from trio_mcp.cli.failures import OK, Failure
from trio_mcp.cli.session import Session, command
from trio_mcp.extensions.tasks import TaskInfo
from trio_mcp.wire.extensions import TASKS


@command
async def tasks(
    session: Session,
    action: Annotated[
        Literal["get", "result", "cancel"],
        Parameter(help="Say how it is, wait for its result, or end it."),
    ],
    id: Annotated[str, Parameter(help="The task's ID.")],
    /,
) -> int:
    """See to a task that was started with `call --task`.

    While it is waited for, what it asks is asked here.
    """
    if TASKS not in session.client.extensions:
        raise Failure("the server has no tasks")
    ours = session.tasks
    async with doing(session, f"task {id}"):
        if action == "result":
            return await show_call(session, id, (await ours.wait(id)).final())
        if action == "cancel":
            await ours.cancel(id)
        show_task(session, await ours.get(id))
    return OK


def show_task(session: Session, task: TaskInfo) -> None:
    """Show how a task is."""
    if session.screen.as_json:
        shown = {"taskId": task.id, "status": task.status, "statusMessage": task.message}
        session.screen.json({key: value for key, value in shown.items() if value is not None})
    else:
        session.screen.text(": ".join(filter(None, (task.status, task.message))))
