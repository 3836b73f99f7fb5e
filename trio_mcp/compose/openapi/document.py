"""An OpenAPI document as data: reading it, and looking things up in it, within bounds.

A document may be megabytes of anything, and YAML may even hold itself: it is parsed here, and its
shape is checked where something is looked up. Each file that it refers to becomes a part of it, and
references lead there. Only files below its folder are read, and nothing is fetched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

from attrs import frozen

from trio_mcp.errors import SchemaError
from trio_mcp.extras import needing
from trio_mcp.system.certificates import trusted
from trio_mcp.wire import codec
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.subschemas import resolve_pointer

MOST_BYTES: Final = 64 * 1024 * 1024
"""The largest document that is read."""
MOST: Final = 1500
"""The most items that are read of a list or an object: all operations may refer to the same one."""
_MOST_HOPS: Final = 20
_LONGEST_REFERENCE: Final = 2000
_MOST_URL: Final = 2048
_FETCH_TIME: Final = 30.0
_VERSION: Final = re.compile(r"3\.[012](\.|$)")


@frozen(eq=False)
class Document:
    """A document, and its source."""

    root: Mapping[str, Json]
    base: str | None = None
    """Its URL or path, if known, which relative URLs of servers start from."""

    @property
    def servers(self) -> Json:
        """Its servers; without any, what is where the document is (OpenAPI 3.1, 4.8.1)."""
        return self.root.get("servers") or [{"url": "/"}]

    def resolve(self, node: Json) -> Mapping[str, Json]:
        """Follow references to an object; return an empty one if they lead nowhere."""
        for _ in range(_MOST_HOPS):
            if not isinstance(node, Mapping):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self.at(reference)
        return {}

    def at(self, reference: str) -> Json:
        """Return what a reference within the document leads to; `None` if that is nothing."""
        if len(reference) > _LONGEST_REFERENCE:
            return None
        try:
            return resolve_pointer(self.root, reference)[1]
        except (LookupError, TypeError):
            return None

    def objects(self, node: Json, key: str) -> list[Mapping[str, Json]]:
        """Return the first objects of a list in an object, with references followed."""
        found = node.get(key) if isinstance(node, Mapping) else None
        return [self.resolve(item) for item in found[:MOST]] if isinstance(found, list) else []

    def server_url(self, servers: Json, variables: Mapping[str, str]) -> str | None:
        """Return the URL of the first server of a list, or raise `ValueError` for its variables."""
        first = next(iter(servers), None) if isinstance(servers, list) else None
        if not isinstance(first, Mapping) or not isinstance(first.get("url"), str):
            return None
        url = _filled(first["url"], first.get("variables") or {}, variables)
        base = self.base if self.base is not None and "://" in self.base else ""
        url = urljoin(base, url)
        return url.rstrip("/") if is_base(url) else None


def is_base(url: str) -> bool:
    """Whether the path of a request can be put behind a URL."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and not (parts.query or parts.fragment)


def members(node: Json, limit: int = MOST) -> list[tuple[str, Json]]:
    """Return the first members of an object; none if it is not an object."""
    found = islice(node.items(), limit) if isinstance(node, Mapping) else ()
    return [(str(name), value) for name, value in found]


def _filled(url: str, known: Mapping[str, Json], given: Mapping[str, str]) -> str:
    """Replace the variables of a server's URL by their values."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        said = known.get(name) or {}
        chosen = given.get(name, said.get("default"))
        allowed = said.get("enum")
        if chosen is None:
            raise ValueError(f"the server {url[:100]} needs variables={{{name!r}: …}}")
        if isinstance(allowed, list) and allowed and chosen not in allowed:
            raise ValueError(f"variables: {name} must be one of {', '.join(map(str, allowed))}")
        return str(chosen)

    return re.sub(r"{([^{}]+)}", value, url[:_MOST_URL])


# -- reading ---------------------------------------------------------------------------------------


def read_document(source: str | Path | Mapping[str, Json]) -> Document:
    """Read a document from a path or an `https://` URL, or take one that was parsed already."""
    if isinstance(source, Mapping):
        document = Document(source)
    elif isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        document = Document(parsed(_fetched(source), source), source)
    elif isinstance(source, str | Path):
        document = Document(read_file(Path(source)), str(source))
    else:
        raise TypeError(
            "openapi needs the path or URL of a document, or what was parsed of one, "
            f"not {source!r:.100}"
        )
    _check_version(document)
    return document


def read_file(path: Path) -> Mapping[str, Json]:
    """Read a file of JSON or YAML, or raise `SchemaError` or `OSError`."""
    with path.open("rb") as file:
        return parsed(file.read(MOST_BYTES + 1), path.name)


def parsed(data: bytes, name: str) -> Mapping[str, Json]:
    """Parse an object in JSON or YAML, or raise `SchemaError`."""
    if len(data) > MOST_BYTES:
        raise SchemaError(f"{name} has more than {MOST_BYTES:,} bytes")
    try:
        value = codec.loads(data)
    except codec.DecodeError as error:
        if data.lstrip()[:1] == b"{" and not name.endswith((".yaml", ".yml")):
            raise SchemaError(f"{name} is not JSON: {error}") from None
        value = _from_yaml(data, name)
    if not isinstance(value, Mapping):
        raise SchemaError(f"{name} is not an OpenAPI document: it holds no object")
    return value


def _from_yaml(data: bytes, name: str) -> Json:
    from trio_mcp.compose.openapi.yaml12 import YamlError, load

    try:
        with needing(f"{name}: YAML", "openapi"):
            return load(data)
    except YamlError as error:
        raise SchemaError(f"{name} is neither JSON nor YAML: {error}") from None


def _fetched(url: str) -> bytes:
    """Get a document, with no credentials and within bounds."""
    import httpx2

    body = bytearray()
    end = time.monotonic() + _FETCH_TIME
    try:
        with httpx2.stream(
            "GET", url, timeout=_FETCH_TIME, follow_redirects=True, verify=trusted()
        ) as response:
            response.raise_for_status()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    break
                if time.monotonic() > end:
                    raise SchemaError(f"the document did not come within {_FETCH_TIME:g} s")
    except httpx2.HTTPError as error:
        raise SchemaError(f"cannot get the document ({type(error).__name__})") from None
    return bytes(body)


def _check_version(document: Document) -> None:
    root = document.root
    version = root.get("openapi")
    if "swagger" in root and version is None:
        raise SchemaError(
            f"this is Swagger {str(root['swagger'])[:10]}; convert it to OpenAPI 3 first, "
            "as with: npx swagger2openapi DOC"
        )
    if not _VERSION.match(str(version)):
        raise SchemaError(f"an OpenAPI document of 3.0, 3.1 or 3.2 is needed, not {version!r:.60}")
    if not isinstance(root.get("paths", {}), Mapping):
        raise SchemaError("the paths of the document are not an object")


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
