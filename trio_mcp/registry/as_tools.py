"""Resources and prompts that are read and written by way of a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import evolve, frozen

from trio_mcp.layers.call import Call
from trio_mcp.registry.delegation import Target
from trio_mcp.registry.handlers import Keywords
from trio_mcp.registry.tools import Tool
from trio_mcp.threads import offload
from trio_mcp.wire.answers import Result
from trio_mcp.wire.errors import ResourceNotFound, ToolError
from trio_mcp.wire.jsonrpc import Json

Members = dict[str, Json]


@frozen
class ResourceTarget(Target):
    """A resource, or a template and its variables, which are keyword arguments already."""

    def ready(self, tool: Tool) -> tuple[Any, Keywords]:
        assert self.uri is not None
        return _through(tool, self.entry, self.uri, _contents), self.arguments


@frozen
class PromptTarget(Target):
    """A prompt."""

    def ready(self, tool: Tool) -> tuple[Any, Any]:
        keywords = self.entry.bind(self.arguments)
        return _through(tool, self.entry, self.entry.name, _messages), keywords


def _through(tool: Tool, entry: Any, name: str, convert: Callable[[Members], Members]) -> Tool:
    """Make the tool that runs an entry of another kind, as if that had been called itself."""
    return evolve(
        tool,
        function=_Through(entry, name, convert),
        context_parameter="context" if entry.gets_context else None,
        timeout=entry.timeout,
        origin=None,
        middleware=(),
        delegate=None,
    )


@frozen
class _Through:
    """The function of such a tool."""

    entry: Any
    name: str
    convert: Callable[[Members], Members]

    async def __call__(self, **arguments: Any) -> Any:
        raise NotImplementedError  # `forward` takes its place

    async def forward(self, call: Call) -> Result:
        try:
            result: Result = await self.entry.chain(
                Call(call.exchange, self.entry, self.name, call.arguments)
            )
        except ResourceNotFound:
            raise ToolError(f"There is no resource {self.name[:500]}") from None
        result.members = await offload(self.convert, result.members)
        return result


_BLOBS: Final = ("image", "audio")


def _contents(members: Members) -> Members:
    """Return the result of a read as that of a tool; a question stays what it is."""
    contents = members.get("contents")
    return {"content": list(map(_block, contents))} if isinstance(contents, list) else members


def _block(contents: Any) -> Json:
    if isinstance(contents, dict):
        if isinstance(contents.get("text"), str):
            return {"type": "text", "text": contents["text"]}
        media = str(contents.get("mimeType"))
        kind = media.partition("/")[0]
        if kind in _BLOBS and "blob" in contents:
            return {"type": kind, "data": contents["blob"], "mimeType": media}
    return {"type": "resource", "resource": contents}


def _messages(members: Members) -> Members:
    """Return the messages of a prompt as the result of a tool; a question stays what it is."""
    messages = members.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return members
    return {"content": [_spoken(message) for message in messages]}


def _spoken(message: Any) -> Json:
    """Return what is said; where it is not the user who speaks, say so."""
    content = message.get("content")
    if message.get("role") == "assistant" and isinstance(content, dict) and "text" in content:
        return {**content, "text": f"assistant: {content['text']}"}
    return content
