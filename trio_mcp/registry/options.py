"""The options of what is registered, as an editor completes them and a type checker checks them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from trio_mcp.public import public
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import Icon, ToolAnnotations

if TYPE_CHECKING:
    from trio_mcp.registry.kept_state import StateScope
    from trio_mcp.schema.parameters import Parameter
    from trio_mcp.wire.content import Annotations

CacheScope = Literal["public", "private"]
Icons = Sequence[Icon | Mapping[str, Any]]


class _Options(TypedDict, total=False):
    """The options of whatever can be registered."""

    name: str | None
    title: str | None
    description: str | None
    icons: Icons | None
    meta: Mapping[str, Json] | None
    timeout: float | None
    scopes: Sequence[str]
    tags: Collection[str] | None
    extensions: Mapping[str, Any]


@public
class ToolOptions(_Options, total=False):
    """The options of `Registry.tool`, which documents them."""

    input_schema: Mapping[str, Json] | None
    output_schema: Mapping[str, Json] | None
    parameters: Sequence[Parameter] | None
    annotations: ToolAnnotations | Mapping[str, Any] | None
    max_concurrent: int | None
    state: StateScope | None
    task: Any


@public
class FileOptions(_Options, total=False):
    """The options of `Registry.add_directory`: those of `Registry.resource`, except `size`."""

    mime_type: str | None
    annotations: Annotations | Mapping[str, Any] | None
    cache_ttl: float
    cache_scope: CacheScope


@public
class ResourceOptions(FileOptions, total=False):
    """The options of `Registry.resource`, which documents them."""

    size: int | None
    state: StateScope | None


@public
class PromptOptions(_Options, total=False):
    """The options of `Registry.prompt`, which documents them."""

    state: StateScope | None
