"""Pictures, sounds and files as a tool returns them, which become content blocks.

The blocks themselves (`ImageContent` and so on) hold base64 and name their media type. These hold
bytes or a path and find out the rest. Files are read when the result is made, in a worker thread.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import quote

from attrs import field, frozen
from attrs.validators import instance_of, optional

from trio_mcp.public import public
from trio_mcp.registry.files import UNKNOWN_TYPE, is_text_file, media_type_of
from trio_mcp.registry.results import ContentSource
from trio_mcp.wire.content import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    TextResourceContents,
)

if TYPE_CHECKING:
    import os

MAX_BYTES: Final = 7 * 1024 * 1024
"""What fits, as base64, into the largest message that this library takes by default."""


def _path(path: str | os.PathLike[str] | None) -> Path | None:
    if isinstance(path, bytes | bytearray | memoryview):
        raise TypeError("the first argument is a path; give bytes as data=…")
    return None if path is None else Path(path)


@frozen(kw_only=True)
class _Media(ContentSource):
    """Bytes of some media type, or where they can be read.

    Args:
        path: A file, whose name ends as its type is usually written, such as `.png`.
        data: The bytes, in place of a path.
        format: What its name would end in, such as `png`; a path says so itself.
        mime_type: Its media type, in place of a format.
        max_bytes: A larger file is refused.
        annotations: Hints on how to use it.

    Raises:
        ValueError: There is neither a path nor data, or both; or its media type is not known.
    """

    _kind: ClassVar[str] = ""
    """What its media type begins with."""

    path: Path | None = field(default=None, converter=_path, kw_only=False)
    data: bytes | None = field(default=None, repr=False, validator=optional(instance_of(bytes)))
    format: str | None = None
    mime_type: str = field()
    max_bytes: int = MAX_BYTES
    annotations: Annotations | None = None

    @mime_type.default
    def _guess(self) -> str:
        name = f"a.{self.format}" if self.format else str(self.path or "")
        return media_type_of(name)

    def __attrs_post_init__(self) -> None:
        if (self.path is None) == (self.data is None):
            raise ValueError(f"{type(self).__name__}(…) takes either a path or data=…")
        if not self.mime_type.startswith(self._kind) or (
            self._kind and self.mime_type == UNKNOWN_TYPE
        ):
            what = repr(self.path.name) if self.path is not None else "the data"
            raise ValueError(
                f"nothing says that {what} is of type {self._kind}…; give {type(self).__name__} a "
                f"format=… as names of such files end in, or a mime_type=…"
            )

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Self:
        """Make one of a file, which is read when the result is made.

        Args:
            path: The file.
            max_bytes: A larger one is refused.

        Raises:
            ValueError: The name of the file does not tell its media type.
        """
        return cls(path, max_bytes=max_bytes)

    def read(self) -> bytes:
        """The bytes. Reading a file blocks: in async functions, call this in a worker thread.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is too large, or no file.
        """
        if self.data is not None:
            return self.data
        assert self.path is not None
        if self.path.exists() and not self.path.is_file():  # reading a pipe might never end
            raise ValueError(f"{self.path} is not a file")
        with self.path.open("rb") as file:
            data = file.read(self.max_bytes + 1)
        if len(data) > self.max_bytes:
            raise ValueError(f"{self.path} is larger than {self.max_bytes} bytes; see max_bytes")
        return data


@public
@frozen(kw_only=True)
class Image(_Media):
    """A picture, from a file or from bytes, as `ImageContent`.

    Example:
        >>> Image("plots/today.png").mime_type
        'image/png'
        >>> Image(data=b"GIF89a", format="gif").to_content().mime_type
        'image/gif'
    """

    _kind = "image/"

    def to_content(self) -> ImageContent:
        """The content block. Reading a file blocks."""
        return ImageContent(self.read(), self.mime_type, annotations=self.annotations)

    def to_data_uri(self) -> str:
        """The picture as a `data:` URI, as an `Icon` may have. Reading a file blocks."""
        return f"data:{self.mime_type};base64,{b64encode(self.read()).decode()}"


@public
@frozen(kw_only=True)
class Audio(_Media):
    """A sound, from a file or from bytes, as `AudioContent`.

    Example:
        >>> Audio("bell.wav").mime_type
        'audio/x-wav'
    """

    _kind = "audio/"

    def to_content(self) -> AudioContent:
        """The content block. Reading a file blocks."""
        return AudioContent(self.read(), self.mime_type, annotations=self.annotations)


@public
@frozen(kw_only=True)
class File(_Media):
    """Any file, or bytes, as an `EmbeddedResource`: text if it is text, else base64.

    Args:
        name: What it is called, if not as the path.
        uri: The resource that it is; `file:///` and its name by default, without directories.

    Example:
        >>> File(data=b"a,b", format="csv", name="table").to_content().resource.text
        'a,b'
    """

    name: str | None = None
    uri: str | None = None

    def to_content(self) -> EmbeddedResource:
        """The content block. Reading a file blocks."""
        data = self.read()
        usual = self.path.name if self.path is not None else f"data.{self.format or 'bin'}"
        uri = self.uri or f"file:///{quote(self.name or usual)}"
        if is_text_file(data, self.mime_type):
            text = TextResourceContents(uri, data.decode(), mime_type=self.mime_type)
            return EmbeddedResource(text, annotations=self.annotations)
        blob = BlobResourceContents(uri, data, mime_type=self.mime_type)
        return EmbeddedResource(blob, annotations=self.annotations)
