"""A document with a little of everything, and services that are functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from trio_mcp import CallToolResult, Registry, TextContent
from trio_mcp.compose.openapi import openapi

EVERYTHING = Path(__file__).with_name("everything.yaml")
Answer = Callable[[httpx2.Request], httpx2.Response] | httpx2.Response


class Service:
    """Keeps the requests that it gets, and answers them by a function."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer: Any = answer if answer is not None else httpx2.Response(200)
        self.requests: list[httpx2.Request] = []

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle), timeout=None)

    def registry(self, document: Any = EVERYTHING, **options: Any) -> Registry:
        return openapi(document, client=self.client, **options)

    @property
    def request(self) -> httpx2.Request:
        """The last one."""
        return self.requests[-1]

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.requests.append(request)
        if isinstance(self.answer, httpx2.Response):
            return self.answer
        answered = self.answer(request)
        return await answered if hasattr(answered, "__await__") else answered


def document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document with these paths."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": paths,
        **more,
    }


def get(parameters: list[Any] = [], **more: Any) -> dict[str, Any]:  # noqa: B006
    """A path with one operation, called `it`."""
    return {"get": {"operationId": "it", "parameters": parameters, **more}}


def text_of(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
