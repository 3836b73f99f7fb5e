"""What a tool returned, as the result that its caller gets.

| returned | content | structured |
|---|---|---|
| `str` | its text | |
| `None` | nothing | |
| a content block, or a list with one in it | the blocks; whatever else is in the list as text | |
| an empty list, where the annotation says that it is of content blocks | nothing | |
| an object (attrs, dataclass, TypedDict, dict) | its JSON as text | the object |
| anything else that is JSON-able | its JSON as text | if the tool has an output schema |
| `CallToolResult` | as it is | as it is |
"""

from collections.abc import Sequence
from typing import Any

import attrs

from trio_mcp.registry.invalid import InvalidResult, invalid_result
from trio_mcp.registry.tools import Tool
from trio_mcp.schema import unstructure
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import CallToolResult, ContentBlock, TextContent
from trio_mcp.wire.revisions import Revision


def result_to_wire(tool: Tool, value: Any, revision: Revision) -> dict[str, Json]:
    """Turn what a tool returned into the body of a `tools/call` result.

    Raises:
        InvalidResult: The value is no result: `-32603`, naming its type, or what does not fit the
            tool's output schema.
    """
    if value.__class__ is str and tool.check_output is None:
        return {"content": [{"type": "text", "text": value}]}
    result = make_result(tool, value)
    check_result(tool, result)
    structured = result.structured_content
    if revision.structured_objects_only and not isinstance(structured, dict):
        result = attrs.evolve(result, structured_content=None)
    return to_wire(result, revision)


def make_result(tool: Tool, value: Any) -> CallToolResult:
    """Turn what a tool returned into a `CallToolResult`, by the table above."""
    if isinstance(value, CallToolResult):
        return _checked(tool, value, value)
    if isinstance(value, ContentBlock):
        return _checked(tool, value, CallToolResult([value]))
    if isinstance(value, list | tuple) and _holds_blocks(tool, value):
        return _checked(tool, value, CallToolResult([_block(tool, each) for each in value]))
    plain = _json(tool, value)
    if value is None and tool.check_output is None:
        return CallToolResult([])
    structured = plain if isinstance(plain, dict) or tool.check_output is not None else None
    return CallToolResult([_text(tool, plain)], structured_content=structured)


def _holds_blocks(tool: Tool, values: Sequence[Any]) -> bool:
    """Whether a list is one of blocks; an empty one is what the annotation says."""
    return any(isinstance(each, ContentBlock) for each in values) or (
        tool.returns_blocks and not values
    )


def check_result(tool: Tool, result: CallToolResult) -> None:
    """Hold a result against the tool's output schema, if it has one and did not fail.

    Raises:
        InvalidResult: The result does not fit (`-32603`).
    """
    if tool.check_output is not None and not result.is_error:
        problem = tool.check_output(result.structured_content)
        if problem is not None:
            message = f"Invalid handler result of tool {tool.name}: {problem}"
            raise InvalidResult(message, problem)


def _checked(tool: Tool, value: Any, result: CallToolResult) -> CallToolResult:
    """Make sure that blocks which the tool filled itself are what they should be."""
    try:
        wire = to_wire(result)
        encode(wire)
        from_wire(wire, CallToolResult)
    except Exception as error:  # whatever a wrongly filled block makes the converter raise
        raise invalid_result(value, f"tool {tool.name}", error) from None
    return result


def _block(tool: Tool, value: Any) -> ContentBlock:
    if isinstance(value, ContentBlock):
        return value
    return _text(tool, _json(tool, value))


def _json(tool: Tool, value: Any) -> Json:
    try:
        return (tool.unstructure or unstructure)(value)
    except (TypeError, ValueError, RecursionError):
        raise invalid_result(value, f"tool {tool.name}") from None


def _text(tool: Tool, value: Json) -> TextContent:
    if isinstance(value, str):
        return TextContent(value)
    try:
        return TextContent(encode(value)[:-1].decode())
    except TypeError:
        raise invalid_result(value, f"tool {tool.name}") from None
