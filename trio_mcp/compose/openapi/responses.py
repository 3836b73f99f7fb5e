"""What a service answers, as the result of a tool."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from encodings import normalize_encoding
from encodings.aliases import aliases
from typing import Final

import httpx2
from attrs import field, frozen

from trio_mcp.errors import ToolError
from trio_mcp.system.responses import Body
from trio_mcp.wire import codec
from trio_mcp.wire.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)
from trio_mcp.wire.exact import LongIntegers, RepeatedKey, exact
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits

_MOST_EXACT: Final = Limits().max_message_values
_MOST_OF_ERROR: Final = 4000
_LINK: Final = re.compile(r"<([^<>]*)>([^<]*)")
_REL: Final = re.compile(r"""rel\s*=\s*["']?([^"',;]*)""")
_CHARSETS: Final = frozenset({*aliases, *aliases.values()})
NOTHING: Final = object()
"""That there is no JSON value, which may be `null`."""
_SHOWN: Final = ("content-type", "content-length", "etag", "last-modified", "location")
_TEXTUAL: Final = ("/xml", "+xml", "/yaml", "+yaml", "/javascript", "/x-www-form-urlencoded")


@frozen
class Answer:
    """A response that was read, and the method of its request."""

    method: str
    _url: httpx2.URL = field(repr=False)
    """That of the request, whose query may hold a key."""
    code: int
    headers: httpx2.Headers = field(repr=False)
    body: bytes
    """Of an error, only the beginning."""

    @property
    def url(self) -> httpx2.URL:
        """The URL of the request without its query."""
        return self._url.copy_with(query=None, fragment=None)

    @property
    def status(self) -> str:
        return f"{self.code} {httpx2.codes.get_reason_phrase(self.code)}".strip()

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def text(self) -> str:
        return self.body.decode(_charset(self.headers.get("content-type", "")), errors="replace")

    def json(self) -> Json:
        """Parse the body, or raise `ValueError`, or `TypeError` if it is nested too deeply."""
        value = codec.loads(self.body)
        try:  # the envelope of a result has levels of its own
            ((((value,),),),) = exact(b"[[[[%b]]]]" % self.body, [[[[value]]]], _MOST_EXACT)
            return value
        except (RepeatedKey, LongIntegers) as lost:
            raise ValueError("the value is not all that the text says") from lost


async def read(response: httpx2.Response, limit: int) -> Answer:
    """Read a response that was opened as a stream, and close it.

    What cannot be read is a `ToolError`; the long body of an error is cut off instead.
    """
    request, is_error = response.request, response.status_code >= 400
    limit = min(limit, _MOST_OF_ERROR) if is_error else limit
    pieces = Body(response)
    try:
        body = await _body(pieces, response.headers.get("content-encoding", "identity"), limit)
    finally:
        await pieces.aclose()
    answer = Answer(
        request.method, request.url, response.status_code, response.headers, body[:limit]
    )
    if len(body) > limit and not is_error:
        raise ToolError(
            f"The answer has more than {limit:,} bytes ({answer.status}). Ask for less, "
            "such as fewer items or fields."
        )
    return answer


async def _body(pieces: Body, coding: str, limit: int) -> bytes:
    """Read a body; of one that is too large, at least one byte more than `limit`."""
    coding = coding.strip().lower()
    if coding in ("identity", ""):
        return await pieces.read(limit)
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ToolError("The service sent a compressed answer that was not asked for")
    body, unzip, is_whole = bytearray(), zlib.decompressobj(wbits=47), True
    try:  # few bytes can be many, so no more is unpacked than there is room for
        while len(body) <= limit and (piece := await pieces.read_some()):
            body += unzip.decompress(piece, limit + 1 - len(body))
            is_whole = unzip.eof
    except zlib.error:
        is_whole = False
    if not is_whole and len(body) <= limit:
        raise ToolError("The service sent a compressed answer that is broken")
    return bytes(body)


def _charset(content_type: str) -> str:
    said = content_type.partition("charset=")[2].partition(";")[0].strip(" \"'")
    name = normalize_encoding(said.lower())
    try:  # Python calls more than these a codec, and keeps every name that it has looked for
        return name if name in _CHARSETS and "\0".encode(name) == b"\0" else "utf-8"
    except LookupError:
        return "utf-8"


# -- results ---------------------------------------------------------------------------------------


def contents_of(answer: Answer) -> tuple[list[ContentBlock], Json]:
    """Turn an answer into blocks for a model, and the JSON value that it is, or `NOTHING`."""
    if answer.method == "HEAD" or not answer.body:
        return [TextContent(_without_body(answer))], NOTHING
    kind = answer.media_type
    if kind.endswith(("/json", "+json")) or not kind:
        try:
            value = answer.json()
        except (ValueError, TypeError):
            if kind:
                return [TextContent(answer.text())], NOTHING
        else:
            return [TextContent(answer.text())], value
    if kind.startswith("text/") or kind.endswith(_TEXTUAL) or (not kind and _is_text(answer.body)):
        return [TextContent(answer.text())], NOTHING
    if kind.startswith("image/"):
        return [ImageContent(answer.body, kind)], NOTHING
    if kind.startswith("audio/"):
        return [AudioContent(answer.body, kind)], NOTHING
    blob = BlobResourceContents(str(answer.url), answer.body, mime_type=kind or None)
    return [EmbeddedResource(blob)], NOTHING


def _without_body(answer: Answer) -> str:
    shown = {name: answer.headers[name] for name in _SHOWN if name in answer.headers}
    lines = [f"{name}: {value}" for name, value in shown.items() if answer.method == "HEAD"]
    return "\n".join([answer.status, *lines])


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def refusal_of(answer: Answer, label: str) -> str:
    """Return the text for a model whose request the service refused."""
    after = answer.headers.get("retry-after", "")
    when = f" (retry after {after[:40]})" if after else ""
    text = answer.text()[:_MOST_OF_ERROR] if answer.body and _is_text(answer.body) else ""
    return f"{label}: {answer.status}{when}" + (f"\n{text}" if text else "")


def next_link(headers: Mapping[str, str]) -> str | None:
    """Return the URL of the next page (RFC 8288); `None` if there is none."""
    for target, parameters in _LINK.findall(headers.get("link", "")[:8192]):
        rel = _REL.search(parameters)
        if rel is not None and "next" in rel[1].lower().split():
            return str(target)
    return None
