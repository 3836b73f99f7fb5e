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
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
from attrs import frozen

from trio_mcp.registry.invalid import InvalidResult, invalid_result
from trio_mcp.schema import unstructure
from trio_mcp.schema.returns import BYTES
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import CallToolResult, ContentBlock, TextContent
from trio_mcp.wire.revisions import Revision


class Returnable:
    """What a tool may return to have a content block made of it: an `Image`, say."""

    __slots__ = ()

    def to_content(self) -> ContentBlock:
        """Make the block; may block."""
        raise NotImplementedError


class Returning(Protocol):
    """What is asked of a tool here."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def unstructure(self) -> Callable[[Any], Json] | None:
        """Makes its results JSON-able; `None` where they are already."""
        ...

    @property
    def check_output(self) -> Callable[[Json], str | None] | None:
        """Says what is wrong with a structured result; `None` where there is no output schema."""
        ...

    @property
    def returns_blocks(self) -> bool:
        """Whether its annotation says that it returns a list of content blocks."""
        ...


@frozen(eq=False, repr=False)
class Prepared:
    """A result that was converted and checked aside, so that nobody needs to do it again."""

    value: Any
    """What the function returned."""
    outcome: CallToolResult | InvalidResult

    @property
    def is_much(self) -> bool:
        """Whether there is structured content, which is mostly why it was done aside."""
        outcome = self.outcome
        return isinstance(outcome, CallToolResult) and outcome.structured_content is not None

    @property
    def result(self) -> CallToolResult:
        """The result.

        Raises:
            InvalidResult: It is none, or it does not fit.
        """
        if isinstance(self.outcome, InvalidResult):
            raise self.outcome
        return self.outcome


def reads_files(value: Any) -> bool:
    """Whether the result of a value may have to be read from files."""
    many = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(each, Returnable) for each in many)


def prepare_result(tool: Returning, value: Any) -> Prepared:
    """Convert and check what a tool returned."""
    try:
        result = make_result(tool, value)
        check_result(tool, result)
    except InvalidResult as error:
        return Prepared(value, error)
    return Prepared(value, result)


def result_to_wire(tool: Returning, value: Any, revision: Revision) -> dict[str, Json]:
    """Turn what a tool returned into the body of a `tools/call` result.

    Raises:
        InvalidResult: The value is no result: `-32603`, naming its type, or what does not fit the
            tool's output schema.
    """
    if value.__class__ is str and tool.check_output is None:
        return {"content": [{"type": "text", "text": value}]}
    result = (value if isinstance(value, Prepared) else prepare_result(tool, value)).result
    structured = result.structured_content
    has_one = structured is not None or (tool.check_output is not None and not result.is_error)
    if revision.structured_objects_only and not isinstance(structured, dict):
        has_one = False
    wire = _short_way(result)
    if wire is None:
        wire = to_wire(attrs.evolve(result, structured_content=None), revision)
    # It is JSON already, and the converter would walk through all of it.
    if has_one and _has_structure(revision):
        wire["structuredContent"] = structured
    return wire


def _short_way(result: CallToolResult) -> dict[str, Json] | None:
    """The most common result without the converter: success, told in one text."""
    if result.is_error is not None or result.meta is not None or len(result.content) != 1:
        return None
    block = result.content[0]
    if block.__class__ is not TextContent or (block.annotations, block.meta) != (None, None):
        return None
    return {"content": [{"type": "text", "text": block.text}]}


@functools.cache
def _has_structure(revision: Revision) -> bool:
    return "structuredContent" in to_wire(CallToolResult([], structured_content={}), revision)


def make_result(tool: Returning, value: Any) -> CallToolResult:
    """Turn what a tool returned into a `CallToolResult`, by the table above."""
    if isinstance(value, CallToolResult):
        return _checked(tool, value, value)
    if isinstance(value, Returnable):
        return CallToolResult([value.to_content()])
    if isinstance(value, ContentBlock):
        return _checked(tool, value, CallToolResult([value]))
    if isinstance(value, list | tuple) and _holds_blocks(tool, value):
        return _checked(tool, value, CallToolResult([_block(tool, each) for each in value]))
    plain = _json(tool, value)
    if value is None and tool.check_output is None:
        return CallToolResult([])
    structured = plain if isinstance(plain, dict) or tool.check_output is not None else None
    return CallToolResult([_text(tool, plain)], structured_content=structured)


def _holds_blocks(tool: Returning, values: Sequence[Any]) -> bool:
    """Whether a list is one of blocks; an empty one is what the annotation says."""
    return any(isinstance(each, ContentBlock | Returnable) for each in values) or (
        tool.returns_blocks and not values
    )


def check_result(tool: Returning, result: CallToolResult) -> None:
    """Hold a result against the tool's output schema, if it has one and did not fail.

    Raises:
        InvalidResult: The result does not fit (`-32603`).
    """
    if tool.check_output is not None and not result.is_error:
        problem = tool.check_output(result.structured_content)
        if problem is not None:
            message = f"Invalid handler result of tool {tool.name}: {problem}"
            raise InvalidResult(message, problem)


def _checked(tool: Returning, value: Any, result: CallToolResult) -> CallToolResult:
    """Make sure that blocks which the tool filled itself are what they should be."""
    try:
        wire = to_wire(result)
        encode(wire)
        from_wire(wire, CallToolResult)
    except Exception as error:  # whatever a wrongly filled block makes the converter raise
        raise invalid_result(value, f"tool {tool.name}", error) from None
    return attrs.evolve(result, structured_content=wire.get("structuredContent"))


def _block(tool: Returning, value: Any) -> ContentBlock:
    if isinstance(value, Returnable):
        return value.to_content()
    if isinstance(value, ContentBlock):
        return value
    return _text(tool, _json(tool, value))


def _json(tool: Returning, value: Any) -> Json:
    if isinstance(value, BYTES):  # which could be told in base64, but nobody could use that
        raise invalid_result(value, f"tool {tool.name}")
    try:
        return (tool.unstructure or unstructure)(value)
    except (TypeError, ValueError, RecursionError):
        raise invalid_result(value, f"tool {tool.name}") from None


def _text(tool: Returning, value: Json) -> TextContent:
    if isinstance(value, str):
        return TextContent(value)
    try:
        return TextContent(encode(value)[:-1].decode())
    except TypeError:
        raise invalid_result(value, f"tool {tool.name}") from None
