"""Text tools: exact work on text, which a model does badly by looking at it."""

import base64
import hashlib
import re
from difflib import unified_diff
from enum import Enum
from typing import Annotated, Literal
from urllib.parse import quote, unquote

import trio
from attrs import frozen

from trio_mcp import CallToolResult, Registry, TextContent, ToolAnnotations, ToolError, serve

registry = Registry(
    "strings",
    version="1.0",
    instructions="Use these tools whenever a text must be counted, changed or compared exactly.",
)

HARMLESS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
Text = Annotated[str, "The text.", {"maxLength": 200_000}]
Words = Annotated[str, {"minLength": 1}]


@frozen
class Counts:
    """How long a text is."""

    characters: int
    words: int
    lines: int
    utf8_bytes: int


@registry.tool(annotations=HARMLESS)
async def count(text: Text) -> Counts:
    """Count the characters, words, lines and bytes of a text."""
    return Counts(len(text), len(text.split()), len(text.splitlines()), len(text.encode()))


@frozen
class Place:
    """Where something stands; lines and columns are counted from 1."""

    line: int
    column: int


@registry.tool(annotations=HARMLESS)
def find(
    text: Text,
    words: Words,
    ignore_case: bool = False,
    limit: Annotated[int, {"minimum": 1, "maximum": 1000}] = 100,
) -> list[Place]:
    """Find all places where some words stand in a text.

    Args:
        words: What to look for, as it is written; it does not go on to a second line.
        ignore_case: Whether capital letters are the same as small ones.
        limit: The most places to tell.
    """
    pattern = re.compile(re.escape(words), re.IGNORECASE if ignore_case else 0)
    places = [
        Place(number, found.start() + 1)
        for number, line in enumerate(text.splitlines(), 1)
        for found in pattern.finditer(line)
    ]
    return places[:limit]


@registry.tool(annotations=HARMLESS)
def replace(
    text: Text,
    replacements: Annotated[dict[Words, str], {"minProperties": 1, "maxProperties": 100}],
) -> str:
    """Replace words in a text, all at the same time, so that words can be swapped.

    Args:
        replacements: The new words for each of the old ones.
    """
    longest_first = sorted(replacements, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(pattern, lambda found: replacements[found[0]], text)


@registry.tool(title="Change the style of a name", annotations=HARMLESS)
async def rename(name: Words, style: Literal["snake", "kebab", "constant", "camel"]) -> str:
    """Write the name of a variable, a file or a heading in another style.

    Args:
        name: The name, in any style.
        style: Such as user_name, user-name, USER_NAME or userName.
    """
    borders = r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    parts = [part.lower() for part in re.split(borders, name) if part]
    if not parts:
        raise ToolError(f"There is no letter and no digit in {name!r}.")
    match style:
        case "snake":
            return "_".join(parts)
        case "kebab":
            return "-".join(parts)
        case "constant":
            return "_".join(parts).upper()
        case "camel":
            return parts[0] + "".join(part.capitalize() for part in parts[1:])


class Encoding(Enum):
    """How text is written where only some characters are allowed."""

    BASE64 = "base64"
    HEX = "hex"
    URL = "url"


@registry.tool(annotations=HARMLESS)
async def encode(text: Text, encoding: Encoding) -> str:
    """Encode a text."""
    match encoding:
        case Encoding.BASE64:
            return base64.b64encode(text.encode()).decode()
        case Encoding.HEX:
            return text.encode().hex()
        case Encoding.URL:
            return quote(text, safe="")


@registry.tool(annotations=HARMLESS)
async def decode(text: Text, encoding: Encoding) -> str:
    """Decode a text."""
    try:
        match encoding:
            case Encoding.BASE64:
                return base64.b64decode(text, validate=True).decode()
            case Encoding.HEX:
                return bytes.fromhex(text).decode()
            case Encoding.URL:
                return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ToolError(f"This is {encoding.value}, but what it encodes is not text.") from None
    except ValueError:
        raise ToolError(f"This is not {encoding.value}. Is it cut off?") from None


@registry.tool(annotations=HARMLESS)
async def digest(text: Text, algorithm: Literal["md5", "sha1", "sha256"] = "sha256") -> str:
    """Tell the digest of a text in hexadecimal.

    Args:
        algorithm: How the UTF-8 bytes of the text are digested.
    """
    return hashlib.new(algorithm, text.encode(), usedforsecurity=False).hexdigest()


@registry.tool(annotations=HARMLESS, timeout=20, max_concurrent=4)
def compare(
    old: Annotated[Text, "The text as it was."], new: Annotated[Text, "The text as it is now."]
) -> CallToolResult:
    """Compare the lines of two texts; how a line ends makes no difference."""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm=""))
    changes = {
        "added": sum(line.startswith("+") for line in lines[2:]),
        "removed": sum(line.startswith("-") for line in lines[2:]),
    }
    said = "\n".join(lines) or "All lines are the same."
    return CallToolResult([TextContent(said)], structured_content=changes)


if __name__ == "__main__":
    trio.run(serve, registry)
