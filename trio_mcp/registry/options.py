"""The options of what is registered, as an editor completes them and a type checker checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from trio_mcp.schema import Parameter
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import Annotations, Icon, ToolAnnotations

CacheScope = Literal["public", "private"]
Icons = Sequence[Icon | Mapping[str, Any]]


class ToolOptions(TypedDict, total=False):
    """The options of `Registry.tool`."""

    name: str | None
    title: str | None
    description: str | None
    input_schema: Mapping[str, Json] | None
    output_schema: Mapping[str, Json] | None
    parameters: Sequence[Parameter] | None
    annotations: ToolAnnotations | Mapping[str, Any] | None
    icons: Icons | None
    meta: Mapping[str, Json] | None
    timeout: float | None
    max_concurrent: int | None


class FileOptions(TypedDict, total=False):
    """The options of `Registry.add_directory`: what `Registry.resource` takes for a template."""

    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    annotations: Annotations | Mapping[str, Any] | None
    icons: Icons | None
    meta: Mapping[str, Json] | None
    timeout: float | None
    cache_ttl: float
    cache_scope: CacheScope


class ResourceOptions(FileOptions, total=False):
    """The options of `Registry.resource`."""

    size: int | None


class PromptOptions(TypedDict, total=False):
    """The options of `Registry.prompt`."""

    name: str | None
    title: str | None
    description: str | None
    icons: Icons | None
    meta: Mapping[str, Json] | None
    timeout: float | None
