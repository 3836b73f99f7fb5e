"""Resources, and templates for families of them: functions that say what is at a URI."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from attrs import evolve, frozen

from trio_mcp.registry.checks import (
    annotations_of,
    check_caching,
    check_payload,
    check_timeout,
    icons_of,
    json_of,
    scopes_of,
)
from trio_mcp.registry.context import Context
from trio_mcp.registry.handlers import NO_EXTENSIONS, Handler, Keywords, TextArguments, Texts
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.options import CacheScope, Icons
from trio_mcp.registry.uri_search import LONGEST_URI, read_uri
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import FunctionSchema, SchemaError, describe_function, unstructure
from trio_mcp.schema.sentences import cut
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.offers import ResourceTemplateDescription
from trio_mcp.wire.payloads import (
    Annotations,
    BlobResourceContents,
    ResourceContents,
    ResourceDescription,
    TextResourceContents,
)
from trio_mcp.wire.safe_repr import safe_repr

CONTENTS: Final = (TextResourceContents, BlobResourceContents)


@frozen(eq=False, kw_only=True)
class _Readable(Handler):
    """What a URI leads to."""

    kind: ClassVar[Literal["resource"]] = "resource"
    description: ResourceDescription | ResourceTemplateDescription
    """As the lists show it."""
    cache_ttl: float
    cache_scope: CacheScope

    @property
    def mime_type(self) -> str | None:
        """The media type that there is unless the contents say otherwise."""
        return self.description.mime_type


@frozen(eq=False, kw_only=True)
class Resource(_Readable):
    """A registered resource. Made by `Registry.resource` and `Registry.add_resource`."""

    description: ResourceDescription


@frozen(eq=False, kw_only=True)
class ResourceTemplate(_Readable):
    """A registered family of resources. Made by `Registry.resource` from a URI with variables."""

    description: ResourceTemplateDescription
    template: UriTemplate
    variables: Mapping[str, Json]
    """The schema of each variable."""
    arguments: Texts

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
    annotations: Annotations | Mapping[str, Any] | None = None,
    icons: Icons | None = None,
    meta: Mapping[str, Json] | None = None,
    timeout: float | None = None,
    cache_ttl: float = 0.0,
    cache_scope: CacheScope = "private",
    scopes: Sequence[str] = (),
    extensions: Mapping[str, Any] = NO_EXTENSIONS,
) -> Resource | ResourceTemplate:
    """Make a resource of a function, or a template if the URI has variables.

    The arguments are those of `Registry.resource`.
    """
    if not isinstance(uri, str):
        raise SchemaError(f"a resource needs a URI, such as 'config://app', not {safe_repr(uri)}")
    what = f"Resource {cut(uri)}"
    try:
        template = _template_of(uri)
        check_timeout(timeout)
        check_caching(cache_ttl, cache_scope)
        needed = scopes_of(scopes)
        if template is not None and size is not None:
            raise SchemaError("only a single resource has a size, not a template")
        described = describe_function(function, context_type=Context, describe_result=False)
        _check_parameters(described, () if template is None else template.variables)
        fields: dict[str, Any] = {
            "name": name or described.name,
            "title": title,
            "description": described.description if description is None else description,
            "mime_type": mime_type,
            "annotations": annotations_of(Annotations, annotations),
            "icons": icons_of(icons),
            "meta": json_of("meta", meta) or None,
        }
        single = ResourceDescription(uri, size=size, **fields)
        check_payload(single)
        if size is not None and size < 0:
            raise SchemaError(f"size must be a number of bytes, not {safe_repr(size)}")
    except (SchemaError, ValueError) as error:
        raise SchemaError(f"{what}: {error}") from None
    handler: dict[str, Any] = {
        "name": uri,
        "label": f"Resource {uri}",
        "function": function,
        "timeout": timeout,
        "context_parameter": described.context_parameter,
        "cache_ttl": cache_ttl,
        "cache_scope": cache_scope,
        "scopes": needed,
        "extensions": extensions,
    }
    if template is None:
        return Resource(description=single, **handler)
    return ResourceTemplate(
        description=ResourceTemplateDescription(uri, **fields),
        template=template,
        variables=described.input_schema.get("properties", {}),
        arguments=TextArguments(described),
        **handler,
    )


def _template_of(uri: str) -> UriTemplate | None:
    """Read a URI template; `None` for a URI without variables.

    Raises:
        SchemaError: It is neither.
        ValueError: Likewise.
    """
    if not _SCHEME.match(uri):
        raise SchemaError("a URI begins with a scheme, such as 'config:' or 'file:'")
    if "{" in uri or "}" in uri:
        return UriTemplate.parse(uri)
    if len(uri) > LONGEST_URI:
        raise SchemaError(f"a URI has {LONGEST_URI} characters at most, not {len(uri)}")
    if read_uri(uri) is None:
        raise SchemaError(
            "this is not a URI; percent-encode what a URI cannot contain, such as %20 for a space"
        )
    return None


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


@frozen
class Ready:
    """Contents that were made here, so that nobody needs to look at them again."""

    contents: ResourceContents


def contents_of(
    resource: Resource | ResourceTemplate, uri: str, value: Any
) -> list[ResourceContents]:
    """Turn what a resource's function returned into contents.

    Text and bytes are one piece each, contents objects are taken as they are, and anything else is
    its JSON. A list with contents objects in it is a list of pieces.

    Raises:
        InvalidResult: The value cannot be sent (`-32603`, naming its type).
    """
    if isinstance(value, Ready):
        return [value.contents]
    if isinstance(value, list | tuple) and any(isinstance(each, CONTENTS) for each in value):
        return [_piece(resource, uri, each) for each in value]
    return [_piece(resource, uri, value)]


def _piece(resource: Resource | ResourceTemplate, uri: str, value: Any) -> ResourceContents:
    mime_type = resource.mime_type
    if isinstance(value, CONTENTS):
        return _checked(value, uri, mime_type)
    if isinstance(value, str):
        return TextResourceContents(uri, value, mime_type=mime_type or "text/plain")
    if isinstance(value, bytes | bytearray | memoryview):
        return BlobResourceContents(uri, value, mime_type=mime_type or "application/octet-stream")
    try:
        text = encode(unstructure(value))[:-1].decode()
    except (TypeError, ValueError, RecursionError):
        raise invalid_result(value, f"resource {uri}") from None
    return TextResourceContents(uri, text, mime_type=mime_type or "application/json")


def _checked(contents: ResourceContents, uri: str, mime_type: str | None) -> ResourceContents:
    """Make sure that contents which the function made itself are what they should be."""
    try:
        wire = to_wire(contents)
        encode(wire)
        from_wire(wire, type(contents))
        if isinstance(contents, BlobResourceContents):
            binascii.a2b_base64(contents.blob, strict_mode=True)
    except Exception as error:  # whatever a wrongly filled field makes the converter raise
        raise invalid_result(contents, f"resource {uri}", error) from None
    if contents.mime_type is None and contents.uri == uri:
        return evolve(contents, mime_type=mime_type)
    return contents
