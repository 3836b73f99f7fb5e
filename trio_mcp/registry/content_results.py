"""What a tool returned that is content, or has content in it, as the result that its caller gets.

The table is in `results`.
"""

from collections.abc import Sequence
from typing import Any

import attrs
from attrs import frozen

from trio_mcp.registry.invalid import checked_wire
from trio_mcp.registry.results import (
    ContentSource,
    ReturnsContent,
    check_structure,
    plain_of,
    text_and_structure,
    text_of,
    with_structure,
)
from trio_mcp.wire.content import CallToolResult, ContentBlock, TextContent
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import Content
from trio_mcp.wire.revisions import Revision


@frozen(eq=False, repr=False)
class ConvertedResult(Content):
    """A result that was made and checked where the function ran."""

    result: CallToolResult


def converted(tool: ReturnsContent, value: Any) -> CallToolResult:
    """Return a result that fits the tool's output schema, or raise `InvalidResult`."""
    if isinstance(value, ConvertedResult):
        return value.result
    result = make_result(tool, value)
    if not result.is_error:
        check_structure(tool, result.structured_content)
    return result


def content_result(tool: ReturnsContent, value: Any, revision: Revision) -> dict[str, Json]:
    """Turn what a tool returned into the members of a `tools/call` result.

    Raises:
        InvalidResult: The value is not a result, or does not fit the output schema (`-32603`).
    """
    result = converted(tool, value)
    # What is structured is JSON already.
    wire = to_wire(attrs.evolve(result, structured_content=None), revision)
    failed = bool(result.is_error)
    return with_structure(tool, wire, result.structured_content, revision, failed=failed)


def make_result(tool: ReturnsContent, value: Any) -> CallToolResult:
    """Turn what a tool returned into a `CallToolResult`, by the table above."""
    if isinstance(value, CallToolResult):
        return _checked(tool, value, value)
    if isinstance(value, ContentSource):
        return CallToolResult([value.to_content()])
    if isinstance(value, ContentBlock):
        return _checked(tool, value, CallToolResult([value]))
    if isinstance(value, list | tuple) and _holds_blocks(tool, value):
        return _checked(tool, value, CallToolResult([_block(tool, piece) for piece in value]))
    text, structured = text_and_structure(tool, value)
    blocks: list[ContentBlock] = [] if text is None else [TextContent(text)]
    return CallToolResult(blocks, structured_content=structured)


def _holds_blocks(tool: ReturnsContent, values: Sequence[Any]) -> bool:
    return any(isinstance(value, ContentBlock | ContentSource) for value in values) or (
        tool.returns_blocks and not values
    )


def _checked(tool: ReturnsContent, value: Any, result: CallToolResult) -> CallToolResult:
    wire = checked_wire(result, value, f"tool {tool.name}")
    return attrs.evolve(result, structured_content=wire.get("structuredContent"))


def _block(tool: ReturnsContent, value: Any) -> ContentBlock:
    if isinstance(value, ContentSource):
        return value.to_content()
    if isinstance(value, ContentBlock):
        return value
    return TextContent(text_of(tool, plain_of(tool, value)))
