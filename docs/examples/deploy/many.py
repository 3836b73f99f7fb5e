"""The server of the recipes for thousands of people: python many.py [HOST:PORT].

Its bounds have no options of the command line. STORE is the URL of what the instances share.
"""

import logging
import os
import sys
from functools import partial

import trio
from press import registry

from trio_mcp import HttpLimits, HttpPolicy, Limits, SessionOptions, serve_http
from trio_mcp.auth import ResourceServer


async def main(where: str = "127.0.0.1:8000") -> None:
    """Serve until SIGTERM, and then until calls have finished."""
    logging.basicConfig(level=logging.INFO)
    host, _, port = where.rpartition(":")
    await serve_http(
        registry,
        host,
        int(port),
        store=os.environ.get("STORE"),
        policy=HttpPolicy(
            auth=ResourceServer(
                resource="https://mcp.example.com/mcp",
                issuers=["https://login.example.com"],
            ),
            trusted_proxies=["127.0.0.1", "10.0.0.0/8"],
            rate=20.0,
            max_concurrent_each=32,
        ),
        sessions=SessionOptions(max_sessions=2500),
        limits=Limits(shutdown_grace=20.0),
        http_limits=HttpLimits(max_connections=3000),
        own_process=True,
    )


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
