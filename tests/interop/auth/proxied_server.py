"""A server whose people log in by our proxy.

Usage: proxied_server.py PORT ISSUER STORE. It ends when its input does.
"""

import sys

import trio

from tests.interop.auth.support import our_proxy, registry
from trio_mcp import serve_http


async def main(port: str, issuer: str, store: str) -> None:
    """Serve until the input ends."""
    auth = our_proxy(f"http://127.0.0.1:{port}/mcp", issuer)
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
