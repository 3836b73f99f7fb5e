"""`trio-mcp call`, `read`, `prompt`: using what a server offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from trio_mcp.cli.arguments import ask_for_missing, check_arguments, parse_arguments, parse_texts
from trio_mcp.cli.content import in_words, show_contents, show_result, words_of
from trio_mcp.cli.failures import FAILED, OK, Failure, one_line, way_out_of
from trio_mcp.cli.listing import AsJson, find_prompt, prompt_arguments, prompt_signature
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.session import Connecting, Session, connected
from trio_mcp.cli.target import parse_target
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import META_SERVER_INFO, NEWEST

_DEFAULT = Connecting()


def call(
    target: str,
    name: str,
    /,
    *arguments: str,
    as_json: AsJson = False,
    connecting: Connecting = _DEFAULT,
) -> int:
    """Call a tool.

    On a terminal, required arguments that are missing are asked for, and so is what the server
    wants to know meanwhile.

    Args:
        target: FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.
        name: The tool.
        arguments: KEY=VALUE, where the tool's schema decides what 3 is; KEY:=JSON; one JSON
            object; or - for a JSON object on stdin.
        as_json: Write JSON, for programs.
        connecting: How the server is reached.
    """
    return _run(target, as_json, connecting, partial(call_tool, name=name, words=arguments))


def read(
    target: str, uri: str, /, *, as_json: AsJson = False, connecting: Connecting = _DEFAULT
) -> int:
    """Read a resource. What is not text goes to a file or a pipe as it is.

    Args:
        target: FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.
        uri: The URI of the resource.
        as_json: Write JSON, for programs.
        connecting: How the server is reached.
    """
    return _run(target, as_json, connecting, partial(read_resource, uri=uri))


def prompt(
    target: str,
    name: str,
    /,
    *arguments: str,
    as_json: AsJson = False,
    connecting: Connecting = _DEFAULT,
) -> int:
    """Have a prompt written.

    Args:
        target: FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.
        name: The prompt.
        arguments: KEY=VALUE.
        as_json: Write JSON, for programs.
        connecting: How the server is reached.
    """
    return _run(target, as_json, connecting, partial(get_prompt, name=name, words=arguments))


def _run(
    target: str, as_json: bool, options: Connecting, use: Callable[[Session], Awaitable[int]]
) -> int:
    place = parse_target(target)

    async def main() -> int:
        async with connected(place, options, Screen(as_json=as_json)) as session:
            return await use(session)

    return run_async(main)


# -- what is done ------------------------------------------------------------------------


async def call_tool(session: Session, name: str, words: Sequence[str]) -> int:
    """Call a tool and show its result; return the exit status."""
    tool = session.tool(name)
    given = parse_arguments(words, tool.input_schema)
    arguments = await ask_for_missing(session, given, tool.input_schema)
    check_arguments(tool, arguments)
    params: dict[str, Json] = {"name": name, "arguments": arguments}
    with session.progress() as bar, _named(f"tool {name!r}"):
        wire = await session.client.request(
            "tools/call", params, timeout=session.timeout, on_progress=bar.update
        )
    result = _part(wire, "content", "structuredContent")
    result["isError"] = failed = wire.get("isError") is True
    if session.screen.as_json:
        session.screen.json(result)
    elif failed:
        said = words_of(result) or "it does not say why"
        session.screen.note(f"trio-mcp: tool {name!r} failed: {one_line(said)}", "red")
    else:
        show_result(session.screen, result)
    return FAILED if failed else OK


async def read_resource(session: Session, uri: str, *, end_line: bool = False) -> int:
    """Read a resource and show it, on lines of its own if need be; return the exit status."""
    with session.progress() as bar, _named(f"resource {uri}"):
        found = await session.client.read_resource(uri, on_progress=bar.update)
    pieces = [_piece(each) for each in found.contents]
    if session.screen.as_json:
        session.screen.json({"contents": pieces})
    else:
        show_contents(session.screen, pieces, end_line=end_line)
    return OK


async def get_prompt(session: Session, name: str, words: Sequence[str]) -> int:
    """Have a prompt written and show it; return the exit status."""
    description = await find_prompt(session, name)
    arguments = await ask_for_missing(session, parse_texts(words), _schema_of(description))
    absent = [each for each in _schema_of(description)["required"] if each not in arguments]
    if absent:
        takes = prompt_signature(description)
        raise Failure(f"prompt {name!r} needs {', '.join(absent)}; it takes: {takes}")
    params: dict[str, Json] = {"name": name, "arguments": arguments}
    with session.progress() as bar, _named(f"prompt {name!r}"):
        wire = await session.client.request("prompts/get", params, on_progress=bar.update)
    messages = wire.get("messages")
    if session.screen.as_json:
        session.screen.json(_part(wire, "description", "messages"))
        return OK
    for each in messages if isinstance(messages, list) else []:
        session.screen.heading(f"{each.get('role')}:")
        session.screen.text(in_words(each.get("content")))
    return OK


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Say of a capability that we lack who needs it.

    Raises:
        Failure: That is so.
    """
    try:
        yield
    except McpError as error:
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


def _schema_of(prompt: dict[str, Json]) -> dict[str, Json]:
    """The arguments of a prompt, as a JSON Schema."""
    arguments = prompt_arguments(prompt)
    return {
        "type": "object",
        "properties": {
            str(each.get("name")): {"type": "string", "description": each.get("description") or ""}
            for each in arguments
        },
        "required": [str(each.get("name")) for each in arguments if each.get("required")],
    }
