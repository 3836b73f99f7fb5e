"""Files and directories as resources."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from trio_mcp.registry.resources import Ready, Resource, ResourceTemplate
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import SchemaError
from trio_mcp.schema.sentences import cut
from trio_mcp.wire.errors import ResourceNotFound, ToolError
from trio_mcp.wire.payloads import BlobResourceContents, ResourceContents, TextResourceContents

if TYPE_CHECKING:
    from trio_mcp.registry.registry import Registry

_CONTEXT: Final = "_context"


def add_directory(
    registry: Registry, uri: str, root: Path, max_bytes: int, options: dict[str, Any]
) -> ResourceTemplate:
    """Register the files below a directory (`Registry.add_directory`)."""
    variable = _variable_of(uri)
    root = root.absolute()  # wherever this process goes later
    about = root.name or "files"
    options = {"name": about, "description": f"Files of {about}", **options}
    read = partial(_read, root, max_bytes, options.get("mime_type"))
    made = registry.add_resource(uri, _with_parameter(variable, read), **options)
    assert isinstance(made, ResourceTemplate)

    async def complete(value: str) -> list[str]:
        return await trio.to_thread.run_sync(
            partial(list_files_below, root, value), abandon_on_cancel=True
        )

    registry.add_completion(complete, resource=uri, argument=variable)
    return made


def _variable_of(uri: str) -> str:
    """The variable that stands for the path.

    Raises:
        SchemaError: There is no such one.
    """
    what = f"Resource {cut(uri)}"
    try:
        variables = UriTemplate.parse(uri).variables
    except ValueError as error:
        raise SchemaError(f"{what}: {error}") from None
    if len(variables) != 1 or "*}" in uri:
        raise SchemaError(f"{what}: a directory needs one variable, such as {{+path}}")
    (variable,) = variables
    if not variable.isidentifier() or iskeyword(variable) or variable == _CONTEXT:
        raise SchemaError(f"{what}: give the variable a plain name, such as {{+path}}")
    return variable


def add_file(
    registry: Registry, uri: str, path: Path, max_bytes: int, options: dict[str, Any]
) -> Resource:
    """Register a file (`Registry.add_file`)."""
    if "{" in uri:
        raise SchemaError(f"Resource {cut(uri)}: the URI of one file has no variables")
    path = path.resolve()  # the author may name it by a link; nobody else has a say
    mime_type = options.setdefault("mime_type", media_type_of(path.name))

    async def read(context: Context) -> Ready:
        return await _read(path.parent, max_bytes, mime_type, path.name, context)

    made = registry.add_resource(uri, read, **{"name": path.name, "description": "", **options})
    assert isinstance(made, Resource)
    return made


def _with_parameter(name: str, read: Callable[[str, Context], Any]) -> Callable[..., Any]:
    """Make a function whose one parameter bears the variable's name, whatever that is."""

    async def read_path(**given: Any) -> Any:
        return await read(given[name], given[_CONTEXT])

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, kind, annotation=str),
        inspect.Parameter(_CONTEXT, kind, annotation=Context),
    ]
    read_path.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return read_path


async def _read(
    root: Path, max_bytes: int, mime_type: str | None, path: str, context: Context
) -> Ready:
    uri = context.tool

    def read() -> ResourceContents:
        return _contents(uri, read_file_below(root, path, max_bytes=max_bytes), mime_type, path)

    try:
        return Ready(await trio.to_thread.run_sync(read, abandon_on_cancel=True))
    except NotFound:
        raise ResourceNotFound(uri) from None
    except TooLarge as error:
        raise ToolError(str(error)) from None


def _contents(uri: str, data: bytes, mime_type: str | None, path: str) -> ResourceContents:
    kind = mime_type or media_type_of(path)
    if is_text(data, kind):
        return TextResourceContents(uri, data.decode(), mime_type=kind)
    return BlobResourceContents(uri, base64.b64encode(data).decode(), mime_type=kind)
