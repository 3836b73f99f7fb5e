"""`trio-mcp call`, `read`, `prompt`: using what a server offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

from cyclopts import Parameter

from trio_mcp.cli.arguments import ask_for_missing, check_arguments, parse_arguments, parse_texts
from trio_mcp.cli.content import in_words, show_contents, show_result, words_of
from trio_mcp.cli.failures import FAILED, OK, Failure, one_line, way_out_of
from trio_mcp.cli.listing import find_prompt, names, prompt_field, prompt_signature
from trio_mcp.cli.options import ToolArguments
from trio_mcp.cli.progress import ProgressBar
from trio_mcp.cli.schemas import field_of
from trio_mcp.cli.session import Session, command
from trio_mcp.wire.closest import closest
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import McpError, ResourceNotFound
from trio_mcp.wire.extensions import TASKS
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import META_SERVER_INFO, NEWEST


@command
async def call(
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
    return await call_tool(session, name, arguments, as_task=task)


@command
async def read(
    session: Session, uri: Annotated[str, Parameter(help="The URI of the resource.")], /
) -> int:
    """Read a resource. What is not text goes to a file or a pipe as it is."""
    return await read_resource(session, uri)


@command
async def prompt(
    session: Session,
    name: Annotated[str, Parameter(help="The prompt.")],
    /,
    *arguments: Annotated[str, Parameter(help="KEY=VALUE.")],
) -> int:
    """Have a prompt written."""
    return await get_prompt(session, name, arguments)


# -- what is done ------------------------------------------------------------------------


async def call_tool(
    session: Session,
    name: str,
    words: Sequence[str],
    *,
    end_line: bool = False,
    as_task: bool = False,
) -> int:
    """Call a tool and show its result, on lines of its own if need be; return the exit status.

    Where the server makes a task of it, that may be left alone; then its id is shown.
    """
    tool = session.tool(name)
    given = parse_arguments(words, tool.input_schema)
    arguments = await ask_for_missing(session, given, field_of(tool.input_schema))
    check_arguments(tool, arguments)
    params: dict[str, Json] = {"name": name, "arguments": arguments}
    async with doing(session, f"tool {name!r}") as bar:
        if as_task:
            wire = await start_task(session, name, arguments)
        else:
            wire = await session.client.request(
                "tools/call", params, timeout=session.timeout, on_progress=bar.update
            )
    if wire is None:
        return OK
    return await show_call(session, name, wire, end_line=end_line)


async def start_task(
    session: Session, name: str, arguments: dict[str, Json]
) -> dict[str, Json] | None:
    """Call a tool, and show the id of the task; or return the result if there is none."""
    if TASKS not in session.client.extensions:
        raise Failure("the server has no tasks; leave out --task")
    started = await session.tasks.start(name, arguments)
    if not started.id:
        session.screen.note(f"trio-mcp: tool {name!r} is no task; this is its result")
        return started.final()
    if session.screen.as_json:
        session.screen.json({"taskId": started.id})
    else:
        session.screen.text(started.id)
    return None


async def show_call(
    session: Session, name: str, wire: dict[str, Json], *, end_line: bool = False
) -> int:
    """Show the result of a tool; return the exit status."""
    result = _part(wire, "content", "structuredContent")
    result["isError"] = failed = wire.get("isError") is True
    if failed:
        await session.show_traceback()
    if session.screen.as_json:
        session.screen.json(result)
    elif failed:
        said = words_of(result).removeprefix(f"Tool {name} failed: ") or "it does not say why"
        session.screen.note(f"trio-mcp: tool {name!r} failed: {one_line(said)}", "red")
    else:
        show_result(session.screen, result, end_line=end_line)
    return FAILED if failed else OK


async def read_resource(session: Session, uri: str, *, end_line: bool = False) -> int:
    """Read a resource and show it, on lines of its own if need be; return the exit status."""
    async with doing(session, f"resource {uri}") as bar:
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
    pieces = [_piece(each) for each in found.contents]
    if session.screen.as_json:
        session.screen.json({"contents": pieces})
    else:
        show_contents(session.screen, pieces, end_line=end_line)
    return OK


async def get_prompt(session: Session, name: str, words: Sequence[str]) -> int:
    """Have a prompt written and show it; return the exit status."""
    whole = prompt_field(await find_prompt(session, name))
    arguments = await ask_for_missing(session, parse_texts(words), whole)
    absent = [each for each in whole.required if each not in arguments]
    if absent:
        takes = prompt_signature(whole)
        raise Failure(f"prompt {name!r} needs {', '.join(absent)}; it takes: {takes}")
    params: dict[str, Json] = {"name": name, "arguments": arguments}
    async with doing(session, f"prompt {name!r}") as bar:
        wire = await session.client.request("prompts/get", params, on_progress=bar.update)
    messages = wire.get("messages")
    if session.screen.as_json:
        session.screen.json(_part(wire, "description", "messages"))
        return OK
    for each in messages if isinstance(messages, list) else []:
        if isinstance(each, dict):
            session.screen.heading(f"{each.get('role')}:")
            session.screen.text(in_words(each.get("content")))
    return OK


@asynccontextmanager
async def doing(session: Session, what: str) -> AsyncIterator[ProgressBar]:
    """Show how far something is; and if it fails, where, and which capability we lack for it.

    Raises:
        Failure: We lack a capability.
    """
    with session.progress() as bar:
        try:
            yield bar
        except McpError as error:
            await session.show_traceback()
            way_out = way_out_of(error)
            if way_out is None:
                raise
            raise Failure(f"{what} failed: {error.message.rstrip('.')} ({way_out})") from error


def _part(wire: dict[str, Json], *keys: str) -> dict[str, Json]:
    """Some keys of a result, and `_meta` if it says more than who the server is."""
    part = {key: wire[key] for key in keys if key in wire}
    meta: Json = wire.get("_meta")
    said = meta if isinstance(meta, dict) else {}
    rest = {key: each for key, each in said.items() if key != META_SERVER_INFO}
    return {**part, "_meta": rest} if rest else part


def _piece(contents: object) -> dict[str, Json]:
    wire: dict[str, Json] = to_wire(contents, NEWEST)
    return wire
