"""A server with everything that the explorer has to show."""

from __future__ import annotations

import base64
import json
import os
import sys
from functools import partial
from typing import Annotated, Any, Literal

import trio
from attrs import frozen

from trio_mcp import (
    BlobResourceContents,
    Context,
    EmbeddedResource,
    ImageContent,
    Registry,
    ResourceLink,
    ToolAnnotations,
    ToolError,
    serve,
)
from trio_mcp.extensions.tasks import Tasks

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EVIL = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"

FORMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 5, "description": "A few letters."},
        "number": {"type": "integer", "minimum": 1, "maximum": 99999999999999999999},
        "choice": {"enum": ["red", 2, None]},
        "titled": {"oneOf": [{"const": "a", "title": "Anna"}, {"const": "b", "title": "Bob"}]},
        "several": {"type": "array", "items": {"enum": ["x", "y", "z"]}},
        "list": {"type": "array", "items": {"type": "number"}},
        "flag": {"type": "boolean"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "shape": {
            "oneOf": [
                {"$ref": "#/$defs/circle"},
                {
                    "title": "square",
                    "type": "object",
                    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                    "required": ["kind", "side"],
                },
            ]
        },
        "members": {"type": "object", "additionalProperties": {"type": "integer"}},
        "tree": {"$ref": "#/$defs/tree"},
        "day": {"type": "string", "format": "date", "default": "2026-01-02"},
    },
    "required": ["text", "number", "shape"],
    "$defs": {
        "circle": {
            "title": "circle",
            "type": "object",
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
            "required": ["kind", "radius"],
        },
        "tree": {
            "type": "object",
            "properties": {"leaf": {"type": "string"}, "below": {"$ref": "#/$defs/tree"}},
            "required": ["leaf"],
        },
    },
}


@frozen
class Person:
    name: str
    age: int = 18


@frozen
class Sum:
    total: int


def kitchen() -> Registry:
    """Make the server."""
    registry = Registry(
        "kitchen", version="1.2", title="The kitchen", instructions=EVIL, extensions=[Tasks()]
    )
    cancelled: list[str] = []
    stock = {"eggs": 3}

    @registry.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int = 3) -> Sum:
        """Add two numbers.

        Args:
            a: The first one.
            b: The second one.
        """
        return Sum(a + b)

    @registry.tool
    async def bake(context: Context, steps: int = 3, forever: bool = False) -> str:
        """Take some time, and say how far it is."""
        try:
            for step in range(steps):
                await context.progress(step + 1, steps, f"step {step + 1}")
                await context.info(f"in the oven: {step + 1}")
                await trio.sleep(0.05)
            if forever:
                await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.append("bake")
            raise
        return "baked"

    @registry.tool
    def burnt() -> list[str]:
        """Name what was cancelled."""
        return cancelled

    @registry.tool(input_schema=FORMS)
    def forms(**arguments: Any) -> str:
        """Say what came."""
        return json.dumps(arguments)

    @registry.tool
    async def greet(context: Context) -> str:
        """Ask who you are."""
        answer = await context.elicit("Who are you?", Person)
        return f"{answer.action} {answer.content}"

    @registry.tool
    async def ask(context: Context, what: Literal["model", "page", "roots"]) -> str:
        """Ask for something else."""
        if what == "model":
            answer = await context.sample("What is 6 times 7?", max_tokens=10)
            return f"{answer.model} says {answer.text}"
        if what == "page":
            return (await context.elicit_url("Pay here", "https://pay.example/now")).action
        return ", ".join(each.uri for each in await context.roots())

    @registry.tool
    def fail() -> str:
        """Go wrong."""
        raise ToolError(EVIL)

    @registry.tool
    def contents() -> list[Any]:
        """Return all kinds of content."""
        blob = base64.b64encode(bytes(range(256))).decode()
        return [
            EVIL,
            '{"json": [1, 2, 12345678901234567890]}',
            ImageContent(DOT, "image/png"),
            ResourceLink("note://eggs", "eggs"),
            ResourceLink("javascript:alert(1)", "a trap"),
            EmbeddedResource(BlobResourceContents("note://blob", blob)),
        ]

    @registry.tool(
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "password": {"type": "string", "format": "password"},
            },
        }
    )
    def secretive(**arguments: Any) -> str:
        """Take a password."""
        return arguments["name"]

    @registry.tool
    def long(characters: int = 10_000_000) -> str:
        """Return a long text."""
        return "x" * characters

    @registry.tool
    def grow(name: Annotated[str, "Of the new tool."]) -> str:
        """Add a tool."""

        def grown() -> str:
            return name

        registry.add_tool(grown, name=name)
        return "grown"

    @registry.tool
    def buy(context: Context, eggs: int) -> int:
        """Change a resource."""
        stock["eggs"] += eggs
        registry.notify_resource_updated("note://eggs")
        return stock["eggs"]

    @registry.tool(task=True)
    async def film(context: Context) -> str:
        """Take long, and ask."""
        answer = await context.elicit("Which film?", str)
        return f"a film: {answer.content}"

    @registry.tool
    def quit() -> str:
        """End the process."""
        print("No more of this", file=sys.stderr, flush=True)
        os._exit(3)

    @registry.resource("note://eggs", name="eggs", mime_type="text/plain")
    def eggs() -> str:
        """How many there are."""
        return f"{stock['eggs']} eggs"

    @registry.resource("shelf://{room}/{number}")
    def shelf(room: Literal["attic", "cellar"], number: int) -> str:
        """What is on a shelf."""
        return f"{room} {number}"

    @registry.prompt
    def review(dish: str, language: Literal["dutch", "danish"] = "dutch") -> str:
        """Review a dish."""
        return f"Review {dish} in {language}"

    return registry


def crowd(tools: int) -> Registry:
    """Make a server with many tools."""
    registry = Registry("crowd", version="1.0")

    def one(text: str = "") -> str:
        return text

    for number in range(tools):
        registry.add_tool(one, name=f"tool_{number:05}", description=f"Number {number}. " * 5)
    return registry


if __name__ == "__main__":
    trio.run(partial(serve, kitchen()))
