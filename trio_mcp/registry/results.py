"""What a tool returned, as the result that its caller gets.

| returned | content | structured |
|---|---|---|
| `str` | its text | |
| `None` | nothing | |
| a content block, an `Image`, an `Audio`, a `File` | a block | |
| a list with one of them in it | a block for each; whatever else is in the list as text | |
| an empty list, where the annotation says that it is of content blocks | nothing | |
| an object (attrs, dataclass, TypedDict, dict, Pydantic model) | its JSON as text | the object |
| bytes | refused, as they do not say what they are | |
| anything else that is JSON-able | its JSON as text | by an output schema |
| `CallToolResult` | as it is | as it is |

Revisions that know objects only get `{"result": value}` if the output schema is of something else.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
from attrs import frozen

from trio_mcp.registry.invalid import InvalidResult, checked_wire, invalid_result
from trio_mcp.schema import unstructure
from trio_mcp.schema.returns import BYTES
from trio_mcp.wire.content import CallToolResult, ContentBlock, TextContent
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import Content
from trio_mcp.wire.revisions import Revision


class ContentSource(Content):
    """What a tool may return to have a content block made of it: an `Image`, say."""

    __slots__ = ()

    def to_content(self) -> ContentBlock:
        """Make the content block. Reading a file blocks."""
        raise NotImplementedError


class ReturnsContent(Protocol):
    """What a tool has to do with what it returns."""

    @property
    def name(self) -> str: ...

    @property
    def unstructure(self) -> Callable[[Any], Json] | None:
        """Makes the function's results JSON-able; `None` where they are already."""

    @property
    def check_output(self) -> Callable[[Json], str | None] | None:
        """Says what is wrong with a structured result; `None` where there is no output schema."""

    @property
    def returns_blocks(self) -> bool:
        """Whether its annotation says that it returns a list of content blocks."""

    @property
    def wrapped_output(self) -> Mapping[str, Json] | None:
        """Its output schema where results are objects, if it is of something else."""


def reads_files(value: Any) -> bool:
    """Whether making a result of a value may have to read files."""
    many = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(piece, ContentSource) for piece in many)


@frozen(eq=False, repr=False)
class ConvertedResult:
    """A result that was made and checked where the function ran."""

    result: CallToolResult


def converted(tool: ReturnsContent, value: Any) -> CallToolResult:
    """Return a result that fits the tool's output schema, or raise `InvalidResult`."""
    if isinstance(value, ConvertedResult):
        return value.result
    result = make_result(tool, value)
    check_result(tool, result)
    return result


def result_to_wire(tool: ReturnsContent, value: Any, revision: Revision) -> dict[str, Json]:
    """Turn what a tool returned into the members of a `tools/call` result.

    Raises:
        InvalidResult: The value is no result, or does not fit the output schema (`-32603`).
    """
    result = converted(tool, value)
    structured = result.structured_content
    has_one = structured is not None or (tool.check_output is not None and not result.is_error)
    if revision.structured_objects_only and has_one:
        if tool.wrapped_output is not None:
            structured = {"result": structured}
        has_one = isinstance(structured, dict)
    wire = _short_way(result)
    if wire is None:
        wire = to_wire(attrs.evolve(result, structured_content=None), revision)
    # It is JSON already, and the converter would walk through all of it.
    if has_one and _has_structure(revision):
        wire["structuredContent"] = structured
    return wire


def _short_way(result: CallToolResult) -> dict[str, Json] | None:
    """Write the most common result, a success in one text, without the converter."""
    if result.is_error is not None or result.meta is not None or len(result.content) != 1:
        return None
    block = result.content[0]
    if block.__class__ is not TextContent or (block.annotations, block.meta) != (None, None):
        return None
    return {"content": [{"type": "text", "text": block.text}]}


@functools.cache
def _has_structure(revision: Revision) -> bool:
    return "structuredContent" in to_wire(CallToolResult([], structured_content={}), revision)


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
    plain = _json(tool, value)
    if value is None and tool.check_output is None:
        return CallToolResult([])
    structured = plain if isinstance(plain, dict) or tool.check_output is not None else None
    return CallToolResult([_text(tool, plain)], structured_content=structured)


def _holds_blocks(tool: ReturnsContent, values: Sequence[Any]) -> bool:
    return any(isinstance(value, ContentBlock | ContentSource) for value in values) or (
        tool.returns_blocks and not values
    )


def check_result(tool: ReturnsContent, result: CallToolResult) -> None:
    """Raise `InvalidResult` if a tool with an output schema did not fail, but returned no such."""
    if tool.check_output is not None and not result.is_error:
        problem = tool.check_output(result.structured_content)
        if problem is not None:
            message = f"Invalid handler result of tool {tool.name}: {problem}"
            raise InvalidResult(message, problem)


def _checked(tool: ReturnsContent, value: Any, result: CallToolResult) -> CallToolResult:
    wire = checked_wire(result, value, f"tool {tool.name}")
    return attrs.evolve(result, structured_content=wire.get("structuredContent"))


def _block(tool: ReturnsContent, value: Any) -> ContentBlock:
    if isinstance(value, ContentSource):
        return value.to_content()
    if isinstance(value, ContentBlock):
        return value
    return _text(tool, _json(tool, value))


def _json(tool: ReturnsContent, value: Any) -> Json:
    if isinstance(value, BYTES):  # base64 without a media type would be of no use
        raise invalid_result(value, f"tool {tool.name}")
    try:
        return (tool.unstructure or unstructure)(value)
    except (TypeError, ValueError, RecursionError):
        raise invalid_result(value, f"tool {tool.name}") from None


def _text(tool: ReturnsContent, value: Json) -> TextContent:
    if isinstance(value, str):
        return TextContent(value)
    try:
        return TextContent(encode(value)[:-1].decode())
    except TypeError:
        raise invalid_result(value, f"tool {tool.name}") from None
