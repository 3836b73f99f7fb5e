"""What tools, resources and prompts give, shown to a person.

Blocks are taken as they came over the wire: a server that sends something of its own gets it shown
as JSON, instead of an error.
"""

from __future__ import annotations

import base64
import binascii
import json

from trio_mcp.cli.schemas import json_of
from trio_mcp.cli.screen import Screen, to_json
from trio_mcp.wire.jsonrpc import Json


def show_result(screen: Screen, result: dict[str, Json], *, end_line: bool = False) -> None:
    """Show the result of a tool. One that is nothing but bytes goes to a file or pipe as they are.

    Args:
        screen: Where it is shown.
        result: The result.
        end_line: Something else follows, so the last line is ended if it is not.
    """
    blocks = result.get("content")
    blocks = blocks if isinstance(blocks, list) else []
    structured = result.get("structuredContent")
    text = _only_text(blocks)
    value = None if text is None else _read(text)
    if structured is None and isinstance(value, dict | list) and screen.is_terminal:
        structured = value
    same = [structured, *_unwrapped(structured)]
    if structured is not None and text is not None and (value in same or text in same):
        if isinstance(same[-1], dict | list):
            screen.json(same[-1])
            return
        structured = None
    data = _bytes_of(blocks[0]) if len(blocks) == 1 and structured is None else None
    if data is not None and not screen.is_terminal:
        screen.bytes(data + b"\n" if end_line else data)
        return
    for each in blocks:
        screen.text(in_words(each))
    if structured is not None:
        screen.json(structured)


def words_of(result: dict[str, Json]) -> str:
    """The text of a result's blocks."""
    blocks = result.get("content")
    return "\n".join(map(in_words, blocks if isinstance(blocks, list) else []))


def in_words(block: Json) -> str:
    """Write a content block as text."""
    match block:
        case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": text}}:
            return str(text)
        case {"type": "image" | "audio" as kind, "mimeType": mime_type, "data": str(data)}:
            return f"[{kind}: {mime_type}, {_size_of(data)}]"
        case {"type": "resource_link", "name": name, "uri": uri}:
            about = f" ({block['description']})" if block.get("description") else ""
            return f"[{name}: {uri}]{about}"
        case {"type": "resource", "resource": piece}:
            return _piece_in_words(piece)
    return to_json(block)


def show_contents(screen: Screen, pieces: list[Json], *, end_line: bool = False) -> None:
    """Show what a resource holds. Bytes go to a file or a pipe as they are.

    Args:
        screen: Where it is shown.
        pieces: What the resource holds.
        end_line: Something else follows, so the last line is ended if it is not.
    """
    ended = True
    for piece in pieces:
        text = piece.get("text") if isinstance(piece, dict) else None
        data = None if isinstance(text, str) else _bytes_of(piece)
        if screen.is_terminal or (not isinstance(text, str) and data is None):
            screen.text(text if isinstance(text, str) else _piece_in_words(piece))
            ended = True
        elif isinstance(text, str):
            screen.out.file.write(text)
            ended = text.endswith("\n")
        elif data is not None:
            screen.bytes(data)
            ended = data.endswith(b"\n")
    if end_line and not ended:
        screen.out.file.write("\n")


def _only_text(blocks: list[Json]) -> str | None:
    """The text of the only block, if it is one."""
    match blocks:
        case [{"type": "text", "text": str(text)}]:
            return text
    return None


def _read(text: str) -> Json:
    """What a text says as JSON, or else itself."""
    try:
        return json_of(text)
    except (ValueError, RecursionError):
        return text


def _unwrapped(structured: Json) -> list[Json]:
    """What was made an object because that was demanded: a text or the like, alone in it."""
    if not isinstance(structured, dict) or len(structured) != 1:
        return []
    return [each for each in structured.values() if not isinstance(each, dict)]


def _size_of(data: str) -> str:
    padding = len(data) - len(data.rstrip("="))
    return f"{len(data) * 3 // 4 - padding:,} bytes"


def _piece_in_words(piece: Json) -> str:
    if not isinstance(piece, dict) or not isinstance(piece.get("blob"), str):
        return json.dumps(piece, ensure_ascii=False)
    kind = piece.get("mimeType", "bytes")
    return f"[{piece.get('uri')}: {kind}, {_size_of(piece['blob'])}]"


def _bytes_of(piece: Json) -> bytes | None:
    """What a piece of a resource, or a block of a result, holds that is no text."""
    if not isinstance(piece, dict):
        return None
    if isinstance(piece.get("resource"), dict):
        piece = piece["resource"]
    blob = piece.get("blob", piece.get("data"))
    try:
        return base64.b64decode(blob, validate=True) if isinstance(blob, str) else None
    except binascii.Error:
        return None
