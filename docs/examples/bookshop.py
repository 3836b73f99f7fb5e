"""A bookshop's HTTP API as an MCP server, made of its OpenAPI document.

The shop itself is a function here, so that the example needs no network.
"""

import json
from pathlib import Path
from typing import Any

import httpx2
import trio

from trio_mcp import serve
from trio_mcp.compose.openapi import openapi

BOOKS: dict[str, dict[str, Any]] = {
    "1": {"isbn": "1", "title": "Emma", "author": "Jane Austen", "copies": 3},
    "2": {"isbn": "2", "title": "Middlemarch", "author": "George Eliot", "copies": 1},
}


def shop(request: httpx2.Request) -> httpx2.Response:
    """Stand in for https://bookshop.example."""
    if request.headers.get("Authorization") != "Bearer a-token":
        return httpx2.Response(401)
    path = request.url.path.removeprefix("/api/books")
    if not path:
        author = request.url.params.get("author", "")
        return httpx2.Response(
            200, json=[book for book in BOOKS.values() if author in book["author"]]
        )
    book = BOOKS.get(path.removeprefix("/"))
    if book is None:
        return httpx2.Response(404, json={"error": "we do not have that book"})
    if request.method == "PUT":
        book["copies"] += json.loads(request.content)["copies"]
        return httpx2.Response(204)
    return httpx2.Response(200, json=book)


registry = openapi(
    Path(__file__).with_name("bookshop.yaml"),
    client=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(shop)),
    auth={"token": "a-token"},
    leave_out="DELETE *",
    rename={"books/search": "search"},
)


if __name__ == "__main__":
    trio.run(serve, registry)
