"""Files and directories as resources."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from trio_mcp.registry.context import Context
from trio_mcp.registry.files import (
    NotFound,
    TooLarge,
    is_text_file,
    list_files_below,
    media_type_of,
    read_file_below,
)
from trio_mcp.registry.options import FileOptions
from trio_mcp.registry.resources import Ready
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import SchemaError
from trio_mcp.schema.sentences import shorten
from trio_mcp.threads import in_thread
from trio_mcp.wire.content import (
    BlobResourceContents,
    ResourceContents,
    TextResourceContents,
)
from trio_mcp.wire.errors import ResourceNotFound, ToolError

_CONTEXT: Final = "_context"


class DirectoryResource:
    """The files below a directory, as a family of resources (`Registry.add_directory`)."""

    def __init__(self, uri: str, root: Path, max_bytes: int, mime_type: str | None) -> None:
        self.variable: Final = _variable_of(uri)
        self._root = root.absolute()  # wherever this process goes later
        read = partial(_read, self._root, max_bytes, mime_type)
        self.function: Final = _with_parameter(self.variable, read)
        about = self._root.name or "files"
        self.described: Final[FileOptions] = {"name": about, "description": f"Files of {about}"}

    async def complete(self, value: str) -> list[str]:
        return await in_thread(list_files_below, self._root, value)


def _variable_of(uri: str) -> str:
    """Return the variable of a template that stands for the path, or raise `SchemaError`."""
    what = f"Resource {shorten(uri)}"
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


class FileResource:
    """A file as a resource (`Registry.add_file`)."""

    def __init__(self, uri: str, path: Path, max_bytes: int, mime_type: str | None) -> None:
        if "{" in uri:
            raise SchemaError(f"Resource {shorten(uri)}: the URI of one file has no variables")
        self._path = path.resolve()  # only the author may name it by a link
        self._max_bytes = max_bytes
        self._mime_type = mime_type or media_type_of(self._path.name)
        self.described: Final[FileOptions] = {
            "name": self._path.name,
            "description": "",
            "mime_type": self._mime_type,
        }

    async def read(self, context: Context) -> Ready:
        path = self._path
        return await _read(path.parent, self._max_bytes, self._mime_type, path.name, context)


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
        return Ready(await in_thread(read))
    except NotFound:
        raise ResourceNotFound(uri) from None
    except TooLarge as error:
        raise ToolError(str(error)) from None


def _contents(uri: str, data: bytes, mime_type: str | None, path: str) -> ResourceContents:
    kind = mime_type or media_type_of(path)
    if is_text_file(data, kind):
        return TextResourceContents(uri, data.decode(), mime_type=kind)
    return BlobResourceContents(uri, data, mime_type=kind)
