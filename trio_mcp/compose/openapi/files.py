"""A document of several files, put into one.

Each file that is referred to becomes a part of the document, and references to it lead there. Only
files below the folder of the document are read, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from trio_mcp.compose.openapi.document import Document, read_file
from trio_mcp.errors import SchemaError
from trio_mcp.wire.jsonrpc import Json

_FILES: Final = "x-trio-mcp-files"
_MOST_FILES: Final = 1000


def bundled(document: Document) -> Document:
    """Put the files that a document refers to into it, or raise `SchemaError`."""
    if document.base is None or "://" in document.base:
        raise SchemaError("follow_files=True needs the path of a file: that is where it looks")
    main = Path(document.base).resolve()
    return Document(_Bundle(main, document.root).root, document.base)


class _Bundle:
    def __init__(self, main: Path, root: Mapping[str, Json]) -> None:
        self._folder = main.parent
        self._names: dict[Path, str] = {main: ""}
        self._files: dict[str, Json] = {}
        self._waiting: list[Path] = []
        self.root = {**self._rewritten(root, main), _FILES: self._files}
        while self._waiting:
            path = self._waiting.pop()
            try:
                content = read_file(path)
            except OSError as error:
                raise SchemaError(f"cannot read {path.name}: {error.strerror}") from None
            self._files[self._names[path]] = self._rewritten(content, path)

    def _rewritten(self, top: Mapping[str, Json], path: Path) -> dict[str, Json]:
        """Copy the contents of a file, with its references as the bundle has them."""
        copies: dict[int, Json] = {}  # what YAML shares stays shared, and may hold itself
        result: dict[str, Json] = {}
        waiting: list[tuple[Json, Json]] = [(top, result)]
        copies[id(top)] = result
        while waiting:
            source, target = waiting.pop()
            items = source.items() if isinstance(source, Mapping) else enumerate(source)
            for key, value in items:
                if isinstance(value, Mapping | list) and id(value) not in copies:
                    copies[id(value)] = {} if isinstance(value, Mapping) else [None] * len(value)
                    waiting.append((value, copies[id(value)]))
                new = copies.get(id(value), value) if isinstance(value, Mapping | list) else value
                if key == "$ref" and isinstance(value, str):
                    new = self._reference(value, path)
                target[key] = new
        return result

    def _reference(self, reference: str, path: Path) -> str:
        """Return where a reference in a file leads within the bundle."""
        place, _, pointer = reference.partition("#")
        if "://" in place:
            return reference  # which leads nowhere: nothing is fetched
        target = (path.parent / unquote(place)).resolve() if place else path
        if not target.is_relative_to(self._folder):
            raise SchemaError(f"the reference {reference[:100]!r} leads out of the folder")
        if target not in self._names:
            if len(self._names) > _MOST_FILES:
                raise SchemaError(f"the document has more than {_MOST_FILES:,} files")
            self._names[target] = str(len(self._names))
            self._waiting.append(target)
        name = self._names[target]
        return f"#/{_FILES}/{name}{pointer}" if name else f"#{pointer}"
