"""What MCP messages carry, as attrs classes.

A field is declared once: its name here, its name on the wire (the same in camel case, unless it
says otherwise), and the first revision that has it. `conversion` turns payloads into JSON-able
objects and back.

Here is what every server needs that has tools. `content` has what they return beside text and
JSON, `offers` the payloads of resources, prompts and completions, `questions` those of what a
server asks of its client.
"""

from typing import Final, Literal, get_args

from attrs import frozen

from trio_mcp.public import public
from trio_mcp.wire.fields import meta_field, optional, since
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.tags import Tagged

_2025_03, _2025_06, _2025_11 = "2025-03-26", "2025-06-18", "2025-11-25"


@public
@frozen
class Icon:
    """An image that stands for something in a user interface.

    Args:
        src: An `https:` or `data:` URI.
        mime_type: Its media type, if the URI does not imply it.
        sizes: The sizes that it suits, such as `["48x48"]` or `["any"]`.
        theme: The background it is made for: `light` or `dark`.
    """

    src: str
    mime_type: str | None = optional()
    sizes: list[str] | None = optional()
    theme: Literal["light", "dark"] | None = optional()


@public
@frozen
class Implementation:
    """What a client or a server is called, and its version."""

    name: str
    version: str
    title: str | None = since(_2025_06)
    description: str | None = since(_2025_11)
    website_url: str | None = since(_2025_11)
    icons: list[Icon] | None = since(_2025_11)


@public
@frozen(kw_only=True)
class ToolAnnotations:
    """Hints on what a tool does. A client need not believe them.

    Args:
        title: A name for people.
        read_only_hint: It changes nothing.
        destructive_hint: It may destroy something.
        idempotent_hint: Calling it again with the same arguments changes nothing more.
        open_world_hint: It reaches beyond a closed domain, such as the web.
    """

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Content:
    """What a tool returns to say itself what its caller gets: it has no schema.

    That is a block, what becomes one, or a whole result.
    """

    __slots__ = ()


STRUCTURED_SINCE: Final = _2025_06
"""The first revision whose results have structured content."""

WRAPS_RESULT: Final = "x-fastmcp-wrap-result"
"""Says in an output schema that `result` is what the tool has returned; FastMCP reads it, too."""


@public
@frozen
class ToolDescription(Tagged):
    """A tool, as `tools/list` shows it."""

    name: str
    input_schema: dict[str, Json]
    title: str | None = since(_2025_06)
    description: str | None = optional()
    output_schema: dict[str, Json] | None = since(_2025_06)
    annotations: ToolAnnotations | None = since(_2025_03)
    icons: list[Icon] | None = since(_2025_11)
    meta: dict[str, Json] | None = meta_field()


LoggingLevel = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]

LOGGING_LEVELS: Final[dict[str, int]] = {
    name: severity for severity, name in enumerate(get_args(LoggingLevel))
}
"""The levels and how severe they are (RFC 5424, in reverse)."""
