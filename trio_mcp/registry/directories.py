"""Files and directories as resources."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from trio_mcp.registry.context import Context
from trio_mcp.registry.files import (
    NotFound,
    TooLarge,
    is_text,
    list_files_below,
    media_type_of,
    read_file_below,
)
from trio_mcp.registry.resources import Resource, ResourceTemplate
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import SchemaError
from trio_mcp.wire.errors import ResourceNotFound, ToolError
from trio_mcp.wire.payloads import BlobResourceContents, ResourceContents, TextResourceContents

if TYPE_CHECKING:
    from trio_mcp.registry.registry import Registry


def add_directory(
    registry: Registry, uri: str, root: Path, max_bytes: int, options: dict[str, Any]
) -> ResourceTemplate:
    """Register the files below a directory (`Registry.add_directory`)."""
    try:
        template = UriTemplate.parse(uri)
    except ValueError as error:
        raise SchemaError(f"Resource {uri!r}: {error}") from None
    if len(template.variables) != 1:
        raise SchemaError(f"Resource {uri!r}: a directory needs one variable, such as {{+path}}")
    (variable,) = template.variables

    read = partial(_read, root, max_bytes, options.get("mime_type"))
    made = registry.add_resource(
        uri,
        _with_parameter(variable, read),
        **{"name": root.name, "description": f"Files of {root.name}", **options},
    )
    assert isinstance(made, ResourceTemplate)

    async def complete(value: str) -> list[str]:
        return await trio.to_thread.run_sync(
            partial(list_files_below, root, value), abandon_on_cancel=True
        )

    registry.add_completion(complete, resource=uri, argument=variable)
    return made


def add_file(
    registry: Registry, uri: str, path: Path, max_bytes: int, options: dict[str, Any]
) -> Resource:
    """Register a file (`Registry.add_file`)."""
    if "{" in uri:
        raise SchemaError(f"Resource {uri!r}: the URI of one file has no variables")
    path = path.resolve()  # the author may name it by a link; nobody else has a say
    mime_type = options.setdefault("mime_type", media_type_of(path.name))

    async def read(context: Context) -> ResourceContents:
        return await _read(path.parent, max_bytes, mime_type, path.name, context)

    made = registry.add_resource(uri, read, **{"name": path.name, "description": "", **options})
    assert isinstance(made, Resource)
    return made


def _with_parameter(name: str, read: Callable[[str, Context], Any]) -> Callable[..., Any]:
    """Make a function whose one parameter bears the variable's name, whatever that is."""

    async def read_path(**given: Any) -> Any:
        return await read(given[name], given["_context"])

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, kind, annotation=str),
        inspect.Parameter("_context", kind, annotation=Context),
    ]
    read_path.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return read_path


async def _read(
    root: Path, max_bytes: int, mime_type: str | None, path: str, context: Context
) -> ResourceContents:
    uri = context.tool
    try:
        data = await trio.to_thread.run_sync(
            partial(read_file_below, root, path, max_bytes=max_bytes), abandon_on_cancel=True
        )
    except NotFound:
        raise ResourceNotFound(uri) from None
    except TooLarge as error:
        raise ToolError(str(error)) from None
    kind = mime_type or media_type_of(path)
    if is_text(data, kind):
        return TextResourceContents(uri, data.decode(), mime_type=kind)
    return BlobResourceContents(uri, base64.b64encode(data).decode(), mime_type=kind)
