"""A bank with FastMCP: tokens, scopes and middleware. Prints its port on stderr."""

import socket
import sys
from typing import Annotated, Any

import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import require_scopes
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import Middleware, MiddlewareContext
from pydantic import BaseModel, Field

CALLS: dict[str, int] = {}


class Count(Middleware):
    """Counts the calls of tools, those as well that fail."""

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        name = context.message.name
        CALLS[name] = CALLS.get(name, 0) + 1
        return await call_next(context)


class Bound(Middleware):
    """Refuses large amounts."""

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        if (context.message.arguments or {}).get("amount", 0) > 1000:
            raise ToolError("Large amounts need a person.")
        return await call_next(context)


auth = StaticTokenVerifier(
    tokens={
        "token-of-alice": {"client_id": "alice", "scopes": ["accounts:read", "accounts:write"]},
        "token-of-bob": {"client_id": "bob", "scopes": ["accounts:read"]},
    },
    required_scopes=["accounts:read"],
)
mcp = FastMCP("bank", version="1.0", auth=auth, middleware=[Count(), Bound()])


class Transfer(BaseModel):
    by: str
    amount: float
    to: str


@mcp.tool
async def whoami() -> str:
    """Say whose token it is."""
    token = get_access_token()
    assert token is not None
    return token.client_id


@mcp.tool(auth=require_scopes("accounts:write"))
async def transfer(amount: Annotated[float, Field(gt=0)], to: str) -> Transfer:
    """Send money to somebody."""
    token = get_access_token()
    assert token is not None
    return Transfer(by=token.client_id, amount=amount, to=to)


@mcp.tool
async def calls() -> dict[str, int]:
    """Tell how often each tool was called."""
    return CALLS


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"port {listener.getsockname()[1]}!", file=sys.stderr, flush=True)
    config = uvicorn.Config(mcp.http_app(), log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
