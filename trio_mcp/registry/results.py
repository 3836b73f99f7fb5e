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

Here is how values are converted that are not content: most tools return no other, and their results
are written without the classes of content. `content_results` has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from trio_mcp.registry.invalid import InvalidResult, invalid_result
from trio_mcp.schema import unstructure
from trio_mcp.schema.returns import BYTES
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import STRUCTURED_SINCE, Content
from trio_mcp.wire.revisions import SINCE, Revision

if TYPE_CHECKING:  # most tools need none of its classes
    from trio_mcp.wire.content import ContentBlock


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


def is_plain(tool: ReturnsContent, value: Any) -> bool:
    """Whether a value is not content, nor a list with some in it."""
    if isinstance(value, list | tuple):
        is_empty = tool.returns_blocks and not value
        return not is_empty and not any(isinstance(piece, Content) for piece in value)
    return not isinstance(value, Content)


def plain_result(tool: ReturnsContent, value: Any, revision: Revision) -> dict[str, Json]:
    """Turn a plain value that a tool returned into the members of a `tools/call` result.

    Raises:
        InvalidResult: It has no JSON form, or does not fit the output schema (`-32603`).
    """
    text, structured = text_and_structure(tool, value)
    check_structure(tool, structured)
    wire: dict[str, Json] = {"content": [] if text is None else [{"type": "text", "text": text}]}
    return with_structure(tool, wire, structured, revision)


def text_and_structure(tool: ReturnsContent, value: Any) -> tuple[str | None, Json]:
    """Return the text and the structured content of a plain value, or raise `InvalidResult`."""
    plain = plain_of(tool, value)
    if value is None and tool.check_output is None:
        return None, None
    is_structured = isinstance(plain, dict) or tool.check_output is not None
    return text_of(tool, plain), plain if is_structured else None


def check_structure(tool: ReturnsContent, structured: Json) -> None:
    """Raise `InvalidResult` if structured content does not fit a tool's output schema."""
    problem = None if tool.check_output is None else tool.check_output(structured)
    if problem is not None:
        message = f"Invalid handler result of tool {tool.name}: {problem}"
        raise InvalidResult(message, problem)


def with_structure(
    tool: ReturnsContent,
    wire: dict[str, Json],
    structured: Json,
    revision: Revision,
    *,
    failed: bool = False,
) -> dict[str, Json]:
    """Add structured content to the members of a result, as a revision wants it."""
    has_one = structured is not None or (tool.check_output is not None and not failed)
    if revision.structured_objects_only and has_one:
        if tool.wrapped_output is not None:
            structured = {"result": structured}
        has_one = isinstance(structured, dict)
    if has_one and revision in SINCE[STRUCTURED_SINCE]:
        wire["structuredContent"] = structured
    return wire


def plain_of(tool: ReturnsContent, value: Any) -> Json:
    if isinstance(value, BYTES):  # base64 without a media type would be of no use
        raise invalid_result(value, f"tool {tool.name}")
    try:
        return (tool.unstructure or unstructure)(value)
    except (TypeError, ValueError, RecursionError):
        raise invalid_result(value, f"tool {tool.name}") from None


def text_of(tool: ReturnsContent, value: Json) -> str:
    """Return JSON as text, and text as it is, or raise `InvalidResult`."""
    if isinstance(value, str):
        return value
    try:
        return encode(value)[:-1].decode()
    except TypeError as error:
        raise invalid_result(value, f"tool {tool.name}", error) from None
