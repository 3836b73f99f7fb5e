"""`trio-mcp call`, `tasks`, `read`, `prompt`: using what a server offers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from cyclopts import Parameter

from trio_mcp.cli.arguments import ask_for_missing, check_arguments, parse_arguments, parse_texts
from trio_mcp.cli.content import in_words, show_contents, show_result, words_of
from trio_mcp.cli.failures import FAILED, OK, Failure, one_line, way_out_of
from trio_mcp.cli.listing import find_prompt, names, prompt_field, prompt_signature
from trio_mcp.cli.options import ToolArguments
from trio_mcp.cli.prompter import ProgressBar
from trio_mcp.cli.schemas import field_of, member
from trio_mcp.cli.session import Session, command
from trio_mcp.extensions.tasks import TaskInfo
from trio_mcp.wire.closest import closest
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError, ResourceNotFound
from trio_mcp.wire.extensions import TASKS
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import META_SERVER_INFO, NEWEST


async def call_tool(
    session: Session,
    name: Annotated[str, Parameter(help="The tool.")],
    /,
    *arguments: ToolArguments,
    task: Annotated[
        bool, Parameter(help="Do not wait: write the task's ID, for `trio-mcp tasks`.")
    ] = False,
) -> int:
    """Call a tool.

    On a terminal, required arguments that are missing are asked for, and so is what the server
    wants to know meanwhile.
    """
    tool = session.tool(name)
    given = parse_arguments(arguments, tool.input_schema)
    complete = await ask_for_missing(session, given, field_of(tool.input_schema))
    check_arguments(tool, complete)
    params: dict[str, Json] = {"name": name, "arguments": complete}
    async with _doing(session, f"tool {name!r}") as bar:
        if task:
            wire = await _start_task(session, name, complete)
        else:
            wire = await session.client.request(
                "tools/call", params, timeout=session.timeout, on_progress=bar.update
            )
    return OK if wire is None else await _show_call(session, name, wire)


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
    """Show, await or cancel a task that was started with `call --task`.

    While it is waited for, what it asks is asked here.
    """
    _check_tasks(session)
    ours = session.tasks
    async with _doing(session, f"task {id}"):
        if action == "result":
            return await _show_call(session, id, (await ours.wait(id)).final())
        if action == "cancel":
            await ours.cancel(id)
        _show_task(session, await ours.get(id))
    return OK


async def _start_task(
    session: Session, name: str, arguments: dict[str, Json]
) -> dict[str, Json] | None:
    _check_tasks(session, "; leave out --task")
    started = await session.tasks.start(name, arguments)
    if not started.id:
        session.screen.note(f"trio-mcp: tool {name!r} is not a task; this is its result")
        return started.final()
    if session.screen.as_json:
        session.screen.json({"taskId": started.id})
    else:
        session.screen.text(started.id)
    return None


def _check_tasks(session: Session, advice: str = "") -> None:
    if TASKS not in session.client.extensions:
        raise Failure(f"the server has no tasks{advice}")


async def _show_call(session: Session, name: str, wire: dict[str, Json]) -> int:
    result = _part(wire, "content", "structuredContent")
    result["isError"] = failed = wire.get("isError") is True
    if failed:
        await session.show_reason()
    if session.screen.as_json:
        session.screen.json(result)
    elif failed:
        said = words_of(result).removeprefix(f"Tool {name} failed: ") or "it does not say why"
        session.screen.note(f"trio-mcp: tool {name!r} failed: {one_line(said)}", "red")
    else:
        show_result(session.screen, result)
    return FAILED if failed else OK


async def read_resource(
    session: Session, uri: Annotated[str, Parameter(help="The URI of the resource.")], /
) -> int:
    """Read a resource. What is not text goes to a file or a pipe as it is."""
    async with _doing(session, f"resource {uri}") as bar:
        try:
            found = await session.client.read_resource(uri, on_progress=bar.update)
        except ResourceNotFound:
            if "{" in uri:
                raise Failure(f"{uri} is a template: put a value in place of {{…}}") from None
            uris = await names(session, "resources/list", "resources", "uri")
            templates = ("resources/templates/list", "resourceTemplates", "uriTemplate")
            meant = closest(uri, uris + await names(session, *templates))
            if meant is None:
                raise
            raise Failure(f"there is no resource {uri}; did you mean {meant}?") from None
        except McpError as error:
            if error.code == METHOD_NOT_FOUND:
                raise Failure("the server offers no resources") from None
            raise
    pieces: list[Json] = [to_wire(piece, NEWEST) for piece in found.contents]
    if session.screen.as_json:
        session.screen.json({"contents": pieces})
    else:
        show_contents(session.screen, pieces)
    return OK


async def get_prompt(
    session: Session,
    name: Annotated[str, Parameter(help="The prompt.")],
    /,
    *arguments: Annotated[str, Parameter(help="KEY=VALUE.")],
) -> int:
    """Get the messages of a prompt."""
    whole = prompt_field(await find_prompt(session, name))
    complete = await ask_for_missing(session, parse_texts(arguments), whole)
    absent = [name for name in whole.required if name not in complete]
    if absent:
        takes = prompt_signature(whole)
        raise Failure(f"prompt {name!r} needs {', '.join(absent)}; it takes: {takes}")
    params: dict[str, Json] = {"name": name, "arguments": complete}
    async with _doing(session, f"prompt {name!r}") as bar:
        wire = await session.client.request("prompts/get", params, on_progress=bar.update)
    if session.screen.as_json:
        session.screen.json(_part(wire, "description", "messages"))
        return OK
    for message in member(wire, "messages", list):
        if isinstance(message, dict):
            session.screen.heading(f"{message.get('role')}:")
            session.screen.text(in_words(message.get("content")))
    return OK


call = command(call_tool)
read = command(read_resource)
prompt = command(get_prompt)


def _show_task(session: Session, task: TaskInfo) -> None:
    if session.screen.as_json:
        shown = {"taskId": task.id, "status": task.status, "statusMessage": task.message}
        session.screen.json({key: value for key, value in shown.items() if value is not None})
    else:
        session.screen.text(": ".join(filter(None, (task.status, task.message))))


@asynccontextmanager
async def _doing(session: Session, what: str) -> AsyncIterator[ProgressBar]:
    """Show progress; a failure says what failed, and what to do about a missing capability."""
    with session.progress() as bar:
        try:
            yield bar
        except McpError as error:
            await session.show_reason()
            way_out = way_out_of(error)
            if way_out is None:
                raise
            raise Failure(f"{what} failed: {error.message.rstrip('.')} ({way_out})") from error


def _part(wire: dict[str, Json], *keys: str) -> dict[str, Json]:
    """Keep some keys of a result, and `_meta` if it says more than who the server is."""
    part = {key: wire[key] for key in keys if key in wire}
    meta = member(wire, "_meta", dict)
    rest = {key: each for key, each in meta.items() if key != META_SERVER_INFO}
    return {**part, "_meta": rest} if rest else part
