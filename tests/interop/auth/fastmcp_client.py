"""A client made with FastMCP gets into a server, and prints as JSON whom that takes it for.

Usage: fastmcp_client.py URL [CLIENT_ID SECRET ISSUER]. Without a client id, it is a person's, who is
asked in the browser that the environment names (BROWSER).
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.auth import ClientCredentialsOAuthProvider


async def main(url: str, client_id: str = "", secret: str = "", issuer: str = "") -> None:
    """Get in by both ways of negotiating."""
    found: dict[str, Any] = {}
    for mode in ("legacy", "auto"):
        auth: Any = "oauth"
        if client_id:
            auth = ClientCredentialsOAuthProvider(
                client_id=client_id, client_secret=secret, issuer=issuer
            )
        async with Client(url, auth=auth, mode=mode) as client:
            result = await client.call_tool("whoami")
            found[mode] = result.structured_content
            if client_id:
                (block,) = (await client.call_tool("write")).content
                found[f"{mode} write"] = block.text
    print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
