"""A part that is not a registry: it answers in JSON, as a server elsewhere would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from trio_mcp import Context
from trio_mcp.errors import McpError
from trio_mcp.registry.forwarding import (
    ArgumentRef,
    forwarded_entry,
)
from trio_mcp.registry.provider import Provider, RefType
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.offers import PromptArgument, PromptDescription, ResourceTemplateDescription
from trio_mcp.wire.payloads import ToolDescription

QUESTION: dict[str, Json] = {
    "mode": "form",
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}},
}
LINK = {"type": "resource_link", "uri": "note://one", "name": "one"}


class Elsewhere(Provider):
    """Tells what it was sent, and has one of each thing."""

    completes = True

    def __init__(self) -> None:
        super().__init__("elsewhere")
        self.sent: list[tuple[str, dict[str, Json]]] = []
        self.subscribed: list[str] = []
        self.log: list[str] = []

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[str]:
        """Open it; its tables are filled only when it is `ready`."""
        self.log.append("open")
        try:
            yield "its state"
        finally:
            self.log.append("closed")

    async def ready(self, limits: Limits) -> None:
        """Fill the tables."""
        assert await self.replace("tools", [self.tool(name) for name in _TOOLS]) == []
        note = ResourceDescription("note://one", "one")
        template = ResourceTemplateDescription("note://by-id/{id}", "by id")
        ask = PromptDescription("ask", arguments=[PromptArgument("about", required=True)])
        await self.replace("resources", [forwarded_entry(note, self.read)])
        await self.replace("resource_templates", [forwarded_entry(template, self.read)])
        await self.replace("prompts", [forwarded_entry(ask, self.prompt)])
        self.log.append("ready")

    def tool(self, name: str, **more: Any) -> Any:
        """Make one of its tools."""
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return forwarded_entry(ToolDescription(name, schema, **more), _TOOLS[name].__get__(self))

    async def echo(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Say things on the way, and answer with all that a result may have."""
        self.sent.append(("tools/call", params))
        await context.progress(0.5, 1.0, "half")
        await context.log("warning", {"odd": True}, logger="deep")
        return {
            "content": [{"type": "text", "text": params["arguments"].get("text", "")}, LINK],
            "structuredContent": {"state": context.lifespan, "called": context.tool},
            "_meta": {"com.example/trace": context.params.get("_meta", {}).get("com.example/id")},
            "com.example/unknown": 1,
        }

    async def fail(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Fail, as a tool does."""
        return {"content": [{"type": "text", "text": "no luck"}], "isError": True}

    async def refuse(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Refuse, with a code of its own."""
        raise McpError(-32042, "visit the page first", {"url": "https://example.com"})

    async def hang(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Wait until cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            self.log.append("cancelled")
        raise AssertionError

    async def ask(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Ask the caller, with a question of its own."""
        answer = await context.ask("elicitation/create", QUESTION, key="which")
        return {"content": [{"type": "text", "text": answer["content"]["which"]}]}

    async def relay(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Answer by a question, as a modern server does, where that gets through."""
        self.sent.append(("tools/call", params))
        if not context.passes_questions:
            return await self.ask(params, context)
        if "requestState" not in params:
            question = {"method": "elicitation/create", "params": QUESTION}
            return {
                "resultType": "input_required",
                "inputRequests": {"q": question},
                "requestState": "theirs",
            }
        assert params["requestState"] == "theirs"
        text = params["inputResponses"]["q"]["content"]["which"]
        return {"content": [{"type": "text", "text": text}]}

    async def read(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Read anything."""
        self.sent.append(("resources/read", params))
        return {"contents": [{"uri": params["uri"], "text": f"at {params['uri']}"}]}

    def find_unlisted(self, uri: str) -> Any:
        """Know of hidden notes."""
        if uri.startswith("note://hidden/"):
            return forwarded_entry(ResourceDescription(uri, uri), self.read)
        return None

    async def prompt(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Write a prompt."""
        self.sent.append(("prompts/get", params))
        text = {"type": "text", "text": f"About {params['arguments']['about']}"}
        return {"messages": [{"role": "user", "content": text}]}

    def find_completer(self, kind: RefType, target: str, argument: str) -> Any:
        """Complete anything."""
        name = "name" if kind == "ref/prompt" else "uri"
        ref = {"type": kind, name: target}
        return forwarded_entry(ArgumentRef(ref, argument), self.complete)

    async def complete(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
        """Suggest one thing."""
        self.sent.append(("completion/complete", params))
        return {"completion": {"values": [params["argument"]["value"] + "!"], "total": 1}}

    def watched(self, uri: str) -> None:
        """Subscribe."""
        self.subscribed.append(f"+{uri}")

    def unwatched(self, uri: str) -> None:
        """Unsubscribe."""
        self.subscribed.append(f"-{uri}")


_TOOLS: dict[str, Any] = {
    method.__name__: method
    for method in (
        Elsewhere.echo,
        Elsewhere.fail,
        Elsewhere.refuse,
        Elsewhere.hang,
        Elsewhere.ask,
        Elsewhere.relay,
    )
}
