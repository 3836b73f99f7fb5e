"""A server whose people log in by our proxy.

Usage: proxied_server.py PORT ISSUER SECRET STORE. It ends when its input does.
"""

import sys

import trio

from tests.interop.auth.support import FETCHING, registry
from trio_mcp import serve_http
from trio_mcp.auth import oidc


async def main(port: str, issuer: str, secret: str, store: str) -> None:
    """Serve until the input ends."""
    auth = oidc(
        issuer,
        client_id="our-server",
        client_secret=secret,
        resource=f"http://127.0.0.1:{port}/mcp",
        scopes=["mcp"],
        fetching=FETCHING,
    )
    async with trio.open_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[object]) -> None:
            await serve_http(
                registry(),
                port=int(port),
                auth=auth,
                store=store,
                task_status=task_status,  # type: ignore[arg-type]
            )

        await nursery.start(serve)
        print("listening!", file=sys.stderr, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


trio.run(main, *sys.argv[1:])
