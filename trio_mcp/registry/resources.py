"""Resources, and templates for families of them: functions that say what is at a URI."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import Handler, Keywords, TextArguments
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import FunctionSchema, SchemaError, describe_function, unstructure
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import (
    Annotations,
    BlobResourceContents,
    Icon,
    ResourceContents,
    ResourceDescription,
    ResourceTemplateDescription,
    TextResourceContents,
)

CONTENTS: Final = (TextResourceContents, BlobResourceContents)

CacheScope = Literal["public", "private"]


@frozen(eq=False, kw_only=True)
class Resource(Handler):
    """A registered resource. Made by `Registry.resource` and `Registry.add_resource`."""

    description: ResourceDescription
    """As `resources/list` shows it."""
    cache_ttl: float
    cache_scope: CacheScope

    @property
    def mime_type(self) -> str | None:
        """The media type that it has unless its contents say otherwise."""
        return self.description.mime_type


@frozen(eq=False, kw_only=True)
class ResourceTemplate(Handler):
    """A registered family of resources. Made by `Registry.resource` from a URI with variables."""

    description: ResourceTemplateDescription
    """As `resources/templates/list` shows it."""
    template: UriTemplate
    variables: Mapping[str, Json]
    """The schema of each variable."""
    cache_ttl: float
    cache_scope: CacheScope
    arguments: TextArguments

    @property
    def mime_type(self) -> str | None:
        """The media type that its resources have unless their contents say otherwise."""
        return self.description.mime_type

    def bind(self, values: dict[str, Json]) -> Keywords:
        """Turn the variables of a URI into the function's keyword arguments.

        Raises:
            ArgumentError: They do not fit.
        """
        return self.arguments.bind(values)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def make_resource(
    function: Callable[..., Any],
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Annotations | None = None,
    icons: Sequence[Icon] | None = None,
    meta: Mapping[str, Json] | None = None,
    timeout: float | None = None,
    cache_ttl: float = 0.0,
    cache_scope: CacheScope = "private",
) -> Resource | ResourceTemplate:
    """Make a resource of a function, or a template if the URI has variables.

    The arguments are those of `Registry.resource`.
    """
    what = f"Resource {uri!r}"
    try:
        if not _SCHEME.match(uri):
            raise SchemaError("a URI begins with a scheme, such as 'config:' or 'file:'")
        if timeout is not None and not timeout > 0:
            raise SchemaError(f"timeout must be more than 0 seconds, not {timeout!r}")
        if cache_ttl < 0:
            raise SchemaError(f"cache_ttl must be at least 0 seconds, not {cache_ttl!r}")
        described = describe_function(function, context_type=Context, describe_result=False)
        template = _template_of(uri)
        _check_parameters(described, () if template is None else template.variables)
        if template is not None and size is not None:
            raise SchemaError("only a single resource has a size, not a template")
    except (SchemaError, ValueError) as error:
        raise SchemaError(f"{what}: {error}") from None
    shown: dict[str, Any] = {
        "name": name or described.name,
        "title": title,
        "description": described.description if description is None else description,
        "mime_type": mime_type,
        "annotations": annotations,
        "icons": list(icons) if icons else None,
        "meta": dict(meta) if meta else None,
    }
    handler: dict[str, Any] = {
        "name": uri,
        "label": f"Resource {uri}",
        "function": function,
        "timeout": timeout,
        "context_parameter": described.context_parameter,
        "cache_ttl": cache_ttl,
        "cache_scope": cache_scope,
    }
    if template is None:
        return Resource(description=ResourceDescription(uri, size=size, **shown), **handler)
    return ResourceTemplate(
        description=ResourceTemplateDescription(uri, **shown),
        template=template,
        variables=described.input_schema.get("properties", {}),
        arguments=TextArguments(described),
        **handler,
    )


def _template_of(uri: str) -> UriTemplate | None:
    return UriTemplate.parse(uri) if "{" in uri or "}" in uri else None


def _check_parameters(described: FunctionSchema, variables: Sequence[str]) -> None:
    """Make sure that the function takes the variables of the URI, and wants nothing else."""
    schema = described.input_schema
    parameters = schema.get("properties", {})
    for variable in variables:
        if variable not in parameters:
            raise SchemaError(f"the function has no parameter for the variable {{{variable}}}")
    for parameter in schema.get("required", []):
        if parameter not in variables:
            raise SchemaError(
                f"the URI has no variable {{{parameter}}}, which the function needs as a parameter"
            )


# -- what the function returned -------------------------------------------------------------


def contents_of(
    resource: Resource | ResourceTemplate, uri: str, value: Any
) -> list[ResourceContents]:
    """Turn what a resource's function returned into contents.

    Text and bytes are one piece each; a content object, or a list of them, is taken as it is;
    anything else is its JSON.

    Raises:
        McpError: The value is not JSON-able (`-32603`, naming its type).
    """
    if isinstance(value, CONTENTS):
        return [value]
    if isinstance(value, list) and value and all(isinstance(each, CONTENTS) for each in value):
        return value
    mime_type = resource.mime_type
    if isinstance(value, str):
        return [TextResourceContents(uri, value, mime_type=mime_type or "text/plain")]
    if isinstance(value, bytes | bytearray | memoryview):
        blob = base64.b64encode(value).decode()
        kind = mime_type or "application/octet-stream"
        return [BlobResourceContents(uri, blob, mime_type=kind)]
    try:
        text = encode(unstructure(value))[:-1].decode()
    except (TypeError, ValueError, RecursionError):
        kind = type(value).__name__
        message = f"Invalid handler result type: {kind} (resource {uri})"
        raise McpError(INTERNAL_ERROR, message) from None
    return [TextResourceContents(uri, text, mime_type=mime_type or "application/json")]
