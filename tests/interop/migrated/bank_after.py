"""A bank with trio-mcp: tokens, scopes and middleware. Prints its port on stderr."""

import sys
from typing import Annotated, Any

import trio
from pydantic import BaseModel, Field

from trio_mcp import Context, HttpPolicy, Registry, ToolError, serve_http
from trio_mcp.auth import Authorization
from trio_mcp.middleware import McpCall

CALLS: dict[str, int] = {}


async def count(call: McpCall, call_next: Any) -> Any:
    """Counts the calls of tools, those as well that fail."""
    CALLS[call.name] = CALLS.get(call.name, 0) + 1
    return await call_next(call)


async def bound(call: McpCall, call_next: Any) -> Any:
    """Refuses large amounts."""
    if call.arguments.get("amount", 0) > 1000:
        raise ToolError("Large amounts need a person.")
    return await call_next(call)


TOKENS = {
    "token-of-alice": Authorization(
        client_id="alice", scopes=frozenset({"accounts:read", "accounts:write"})
    ),
    "token-of-bob": Authorization(client_id="bob", scopes=frozenset({"accounts:read"})),
}


async def verify(token: str) -> Authorization | None:
    return TOKENS.get(token)


registry = Registry(
    "bank",
    version="1.0",
    scopes=["accounts:read"],
    filter_lists=True,
    middleware=[count, bound],
)


class Transfer(BaseModel):
    by: str
    amount: float
    to: str


@registry.tool
async def whoami(context: Context) -> str:
    """Say whose token it is."""
    assert context.authorization is not None
    return str(context.authorization.client_id)


@registry.tool(scopes=["accounts:write"])
async def transfer(amount: Annotated[float, Field(gt=0)], to: str, context: Context) -> Transfer:
    """Send money to somebody."""
    assert context.authorization is not None
    return Transfer(by=str(context.authorization.client_id), amount=amount, to=to)


@registry.tool
async def calls() -> dict[str, int]:
    """Tell how often each tool was called."""
    return CALLS


async def main() -> None:
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(
            lambda task_status: serve_http(
                registry, port=0, policy=HttpPolicy(verify=verify), task_status=task_status
            )
        )
        print(f"port {handle.port}!", file=sys.stderr, flush=True)


if __name__ == "__main__":
    trio.run(main)
