"""A protected server, a client that logs in, and the authorization server between them.

All of it runs on one machine: `python docs/examples/authorized.py`
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import trio
from authorization_server import authorization_server

from trio_mcp import Context, HttpOptions, HttpPolicy, Registry, connect, serve_http
from trio_mcp.auth import OAuth, ResourceServer

registry = Registry("library", version="1.0")
lent: dict[str, str] = {}


@registry.tool
async def shelf() -> list[str]:
    """List the books that are here."""
    return [title for title in ("Emma", "Middlemarch") if title not in lent]


@registry.tool(scopes=["library:borrow"])
async def borrow(title: str, context: Context) -> str:
    """Borrow a book."""
    caller = context.authorization
    lent[title] = caller.subject if caller is not None and caller.subject else "unknown"
    return f"{title} is lent to {lent[title]}"


@asynccontextmanager
async def protected_library(issuer: str) -> AsyncIterator[str]:
    """Serve the library to callers with a token of an authorization server; yield its URL."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
    auth = ResourceServer(resource=url, issuers=[issuer], scopes=["library"])
    serve = partial(serve_http, registry, listeners=listeners, policy=HttpPolicy(auth=auth))
    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield url
        nursery.cancel_scope.cancel()


async def agree(url: str) -> None:
    """Open a page and follow where it leads, as a person with a browser does."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        await browser.get(url)


async def borrow_emma(url: str) -> None:
    """Log in, and then get one more scope."""
    auth = OAuth(open_browser=agree)  # leave it out to log in with your own browser
    async with connect(url, http=HttpOptions(auth=auth)) as client:
        print("here:", *await client.call_tool("shelf", returns=list[str]))
        # This needs another scope: the client asks for it, and the call goes on.
        print(await client.call_tool("borrow", {"title": "Emma"}, returns=str))
        print("here:", *await client.call_tool("shelf", returns=list[str]))


async def main() -> None:
    """Run all three."""
    with authorization_server() as issuer:
        async with protected_library(issuer.url) as url:
            await borrow_emma(url)


if __name__ == "__main__":
    trio.run(main)
