"""Media types by the names of files: Python's own table, without those that some systems install.

Python's is the same on every machine, but not in every version, and knows few kinds of source code.
"""

from __future__ import annotations

import functools
import mimetypes
import posixpath
from typing import Final

_MORE: Final = {
    "application/jsonl": ".jsonl",
    "application/sql": ".sql",
    "application/toml": ".toml",
    "application/x-ipynb+json": ".ipynb",
    "application/x-ndjson": ".ndjson",
    "application/yaml": ".yaml .yml",
    "image/webp": ".webp",
    "text/javascript": ".cjs .js .mjs",
    "text/jsx": ".jsx",
    "text/markdown": ".markdown .md",
    "text/plain": ".cfg .conf .ini .log .proto",
    "text/x-c": ".c .h",
    "text/x-c++": ".cc .cpp .hpp",
    "text/x-csharp": ".cs",
    "text/x-diff": ".diff .patch",
    "text/x-go": ".go",
    "text/x-java": ".java",
    "text/x-kotlin": ".kt",
    "text/x-lua": ".lua",
    "text/x-perl": ".pl",
    "text/x-php": ".php",
    "text/x-python": ".pyi",
    "text/x-rst": ".rst",
    "text/x-ruby": ".rb",
    "text/x-rust": ".rs",
    "text/x-shellscript": ".bash .sh",
    "text/x-swift": ".swift",
    "text/x-tex": ".tex",
    "text/x-typescript": ".ts .tsx",
}


@functools.cache
def _table() -> mimetypes.MimeTypes:
    table = mimetypes.MimeTypes()
    for kind, suffixes in _MORE.items():
        for suffix in suffixes.split():
            table.add_type(kind, suffix)
    return table


def guess_type(path: str) -> tuple[str | None, str | None]:
    """Guess a media type from a name, and the compression around it, if there is one.

    Example:
        >>> guess_type("docs/index.md"), guess_type("data.tar.gz")
        (('text/markdown', None), ('application/x-tar', 'gzip'))
    """
    name = posixpath.basename(path)
    return _table().guess_type(name.replace(":", "_"))  # it takes "data:" for a URL
