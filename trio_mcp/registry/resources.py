"""Resources, and templates for families of them: functions that return the contents of a URI."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Unpack

from attrs import evolve, frozen

from trio_mcp.registry.checks import (
    annotations_of,
    check_caching,
    check_payload,
)
from trio_mcp.registry.context import Context
from trio_mcp.registry.describing import check_names, handler_fields, shown_fields
from trio_mcp.registry.handlers import Handler, TextArguments, Texts
from trio_mcp.registry.invalid import checked_wire, invalid_result
from trio_mcp.registry.options import CacheScope, ResourceOptions
from trio_mcp.registry.uri_template import LONGEST_URI, UriTemplate, read_uri
from trio_mcp.schema import FunctionSchema, SchemaError, describe_function, unstructure
from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.content import (
    Annotations,
    BlobResourceContents,
    ResourceContents,
    ResourceDescription,
    TextResourceContents,
)
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.offers import ReadResourceResult, ResourceTemplateDescription
from trio_mcp.wire.revisions import Revision
from trio_mcp.wire.safe_repr import safe_repr

CONTENTS: Final = (TextResourceContents, BlobResourceContents)


@frozen(eq=False, kw_only=True, repr=False)
class _Readable(Handler):
    """A resource, or a template for resources."""

    kind: ClassVar[Literal["resource"]] = "resource"
    description: ResourceDescription | ResourceTemplateDescription
    """As the lists show it."""
    cache_ttl: float
    cache_scope: CacheScope

    @property
    def mime_type(self) -> str | None:
        """The media type of contents that do not name one."""
        return self.description.mime_type

    def to_result(self, value: Any, name: str, revision: Revision) -> dict[str, Json]:
        uri = name if self.origin is None else self.origin.target(name)
        contents = contents_of(self, uri, value)
        ttl_ms = round(self.cache_ttl * 1000)
        result = ReadResourceResult(contents, ttl_ms=ttl_ms, cache_scope=self.cache_scope)
        return to_wire(result, revision)

    def missing(self, asked: str, error: Exception) -> str:
        return asked  # whatever the function names


@frozen(eq=False, kw_only=True, repr=False)
class Resource(_Readable):
    """A registered resource. Made by `Registry.resource` and `Registry.add_resource`."""

    description: ResourceDescription


@frozen(eq=False, kw_only=True, repr=False)
class ResourceTemplate(_Readable):
    """A registered family of resources. Made by `Registry.resource` from a URI with variables."""

    description: ResourceTemplateDescription
    template: UriTemplate
    variables: Mapping[str, Json]
    """The schema of each variable."""
    arguments: Texts

    def renamed_fields(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.template.variables:  # it matches no URI
            return fields
        with errors_at(f"Resource template {fields['name']!r:.200}"):
            return {**fields, "template": UriTemplate.parse(fields["name"])}


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def make_resource(
    function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
) -> Resource | ResourceTemplate:
    """Make a resource of a function, or a template if the URI has variables.

    The options are those of `Registry.resource`.
    """
    check_names(options, ResourceOptions, "resource option")
    if not isinstance(uri, str):
        raise SchemaError(f"a resource needs a URI, such as 'config://app', not {safe_repr(uri)}")
    caching: dict[str, Any] = {
        "cache_ttl": options.get("cache_ttl", 0.0),
        "cache_scope": options.get("cache_scope", "private"),
    }
    with errors_at(f"Resource {shorten(uri)}"):
        template, size = _template_of(uri), options.get("size")
        check_caching(**caching)
        if template is not None and size is not None:
            raise SchemaError("only a single resource has a size, not a template")
        described = describe_function(function, context_type=Context, describe_result=False)
        _check_parameters(described, () if template is None else template.variables)
        handler = {**handler_fields(function, described, options), **caching}
        fields = {
            **shown_fields(described, options),
            "name": options.get("name") or described.name,
            "mime_type": options.get("mime_type"),
            "annotations": annotations_of(Annotations, options.get("annotations")),
        }
        single = ResourceDescription(uri, size=size, **fields)
        check_payload(single)
        if size is not None and size < 0:
            raise SchemaError(f"size must be a number of bytes, not {safe_repr(size)}")
    if template is None:
        return Resource(name=uri, description=single, **handler)
    return ResourceTemplate(
        name=uri,
        description=ResourceTemplateDescription(uri, **fields),
        template=template,
        variables=described.input_schema.get("properties", {}),
        arguments=TextArguments(described),
        **handler,
    )


def _template_of(uri: str) -> UriTemplate | None:
    """Read a URI template; `None` for a URI without variables. Raises `SchemaError` for others."""
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
    """Raise `SchemaError` unless the function takes the variables of the URI, and needs no more."""
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
    """Contents that were made by this library, so that they need no check."""

    contents: ResourceContents


def contents_of(resource: _Readable, uri: str, value: Any) -> list[ResourceContents]:
    """Turn what a resource's function returned into contents.

    Text and bytes are one piece each, contents objects are taken as they are, and anything else is
    its JSON. A list with contents objects in it is a list of pieces.

    Raises:
        InvalidResult: The value cannot be sent (`-32603`, naming its type).
    """
    if isinstance(value, Ready):
        return [value.contents]
    if isinstance(value, list | tuple) and any(isinstance(piece, CONTENTS) for piece in value):
        return [_piece(resource, uri, piece) for piece in value]
    return [_piece(resource, uri, value)]


def _piece(resource: _Readable, uri: str, value: Any) -> ResourceContents:
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
    whose = f"resource {uri}"
    checked_wire(contents, contents, whose)
    if isinstance(contents, BlobResourceContents):
        try:
            binascii.a2b_base64(contents.blob, strict_mode=True)
        except ValueError as error:
            raise invalid_result(contents, whose, error) from None
    if contents.mime_type is None and contents.uri == uri:
        return evolve(contents, mime_type=mime_type)
    return contents
