"""Meeting a server before it is loaded: its era, its tool, and a first call that has to succeed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trio_mcp.cli.arguments import parse_arguments
from trio_mcp.cli.bench.calls import Meeting
from trio_mcp.cli.content import words_of
from trio_mcp.cli.failures import Failure, one_line
from trio_mcp.cli.probing.base import Answer, Era, Probe, initialize_params, modern_meta
from trio_mcp.cli.schemas import signature
from trio_mcp.cli.session import missing
from trio_mcp.schema import SchemaError, compile_validator
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import LEGACY, MODERN, NEWEST_LEGACY

_MOST_PAGES: Final = 100


async def shake_hands(probe: Probe, patience: float) -> Answer | None:
    """Meet a server in the probe's era; `None` if it does not speak it."""
    if probe.era == "modern":
        answer = await probe.ask("server/discover", patience=patience)
        result = answer.result if answer is not None else None
        versions = result.get("supportedVersions") if isinstance(result, dict) else None
        known = isinstance(versions, list) and any(each in MODERN for each in versions)
        return answer if known else None
    params = initialize_params(NEWEST_LEGACY.name)
    answer = await probe.ask("initialize", params, patience=patience)
    result = answer.result if answer is not None else None
    if not isinstance(result, dict) or result.get("protocolVersion") not in LEGACY:
        return None
    probe.version = str(result["protocolVersion"])
    await probe.tell("notifications/initialized")
    return answer


async def meet(
    probe: Probe, name: str | None, words: Sequence[str], start_seconds: float | None
) -> Meeting:
    """Find the tool, and call it once.

    Raises:
        Failure: There is no such tool, or the call fails.
        Usage: The arguments are none.
    """
    tools = await _tools(probe)
    if name is None:
        raise Failure(f"say which tool to call (it really is called): {', '.join(tools)}")
    if name not in tools:
        raise Failure(missing("tool", name, list(tools)))
    schema = tools[name].get("inputSchema")
    arguments = parse_arguments(words, schema)
    _check(name, schema, arguments)
    modern = probe.era == "modern"
    meta = modern_meta() if modern else None
    answer = await probe.ask("tools/call", {"name": name, "arguments": arguments})
    if answer is None or not isinstance(answer.result, dict):
        said = answer.message if answer is not None and answer.error else "no answer"
        raise Failure(f"a call of tool {name!r} fails: {said}")
    if answer.result.get("isError") is True:
        raise Failure(f"a call of tool {name!r} fails: {one_line(words_of(answer.result))}")
    if answer.result.get("resultType", "complete") != "complete":
        raise Failure(f"tool {name!r} asks questions; a load cannot answer them")
    return Meeting(modern, name, arguments, meta, start_seconds)


def _check(name: str, schema: Json, arguments: dict[str, Json]) -> None:
    try:
        problem = compile_validator(schema)(arguments) if isinstance(schema, dict) else None
    except SchemaError:
        return
    if problem is not None:
        takes = signature(schema) or "no arguments"
        raise Failure(f"tool {name!r}: {problem} It takes: {takes}")


async def _tools(probe: Probe) -> dict[str, dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    params: dict[str, Json] = {}
    for _ in range(_MOST_PAGES):
        answer = await probe.ask("tools/list", params)
        page = answer.result if answer is not None else None
        if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
            raise Failure("the server does not list its tools; `trio-mcp doctor` examines it")
        found |= {str(each.get("name")): each for each in page["tools"] if isinstance(each, dict)}
        if page.get("nextCursor") is None:
            break
        params = {"cursor": page["nextCursor"]}
    return found


ERAS: Final[tuple[Era, ...]] = ("modern", "legacy")
