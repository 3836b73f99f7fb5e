"""Showing the results of tools, resources and prompts.

Blocks are used as received: unknown ones are shown as JSON, instead of an error.
"""

from __future__ import annotations

import base64
import binascii
import json

from trio_mcp.cli.schemas import json_of, member
from trio_mcp.cli.screen import Screen, to_json
from trio_mcp.wire.jsonrpc import Json


def show_result(screen: Screen, result: dict[str, Json]) -> None:
    """Show the result of a tool; bytes go to a file or a pipe as they are."""
    blocks = member(result, "content", list)
    structured = result.get("structuredContent")
    text = None
    match blocks:
        case [{"type": "text", "text": str(only)}]:
            text = only
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
        screen.bytes(data + b"\n" if screen.ends_lines else data)
        return
    for block in blocks:
        screen.text(in_words(block))
    if structured is not None:
        screen.json(structured)


def words_of(result: dict[str, Json]) -> str:
    return "\n".join(map(in_words, member(result, "content", list)))


def in_words(block: Json) -> str:
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


def show_contents(screen: Screen, pieces: list[Json]) -> None:
    """Show the contents of a resource; bytes go to a file or a pipe as they are."""
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
    if screen.ends_lines and not ended:
        screen.out.file.write("\n")


def _read(text: str) -> Json:
    try:
        return json_of(text)
    except (ValueError, RecursionError):
        return text


def _unwrapped(structured: Json) -> list[Json]:
    """Return a value that was wrapped in an object because a schema had to be one."""
    if not isinstance(structured, dict) or len(structured) != 1:
        return []
    return [value for value in structured.values() if not isinstance(value, dict)]


def _size_of(data: str) -> str:
    padding = len(data) - len(data.rstrip("="))
    return f"{len(data) * 3 // 4 - padding:,} bytes"


def _piece_in_words(piece: Json) -> str:
    if not isinstance(piece, dict) or not isinstance(piece.get("blob"), str):
        return json.dumps(piece, ensure_ascii=False)
    kind = piece.get("mimeType", "bytes")
    return f"[{piece.get('uri')}: {kind}, {_size_of(piece['blob'])}]"


def _bytes_of(piece: Json) -> bytes | None:
    if not isinstance(piece, dict):
        return None
    if isinstance(piece.get("resource"), dict):
        piece = piece["resource"]
    blob = piece.get("blob", piece.get("data"))
    try:
        return base64.b64decode(blob, validate=True) if isinstance(blob, str) else None
    except binascii.Error:
        return None
