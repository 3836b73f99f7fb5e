"""Pages from the public web, and from nowhere else.

A tool that fetches any URL stands inside the network, where its caller may not be. So a
name is resolved once, all of its addresses are checked, and the connection goes to one that was
checked: no name can lead to a private address, now or a moment later.
"""

import socket
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Annotated

import httpx2
import trio

from trio_mcp import Registry, ToolAnnotations, ToolError, serve

MOST_BYTES = 256 * 1024
UNICAST = IPv6Network("2000::/3")
registry = Registry("fetching", tool_timeout=20)


def is_public(address: str) -> bool:
    """Whether an address is on the internet, and no other one is wrapped up in it."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address) and (ip not in UNICAST or ip.sixtofour or ip.teredo):
        return False
    return ip.is_global and not ip.is_multicast


async def public_address(host: str, port: int) -> str:
    """Resolve a name to an address that everybody may reach."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise ToolError(f"{host!r} has no address; is it spelled right?") from None
    addresses = [str(info[4][0]) for info in found]
    if not addresses or not all(map(is_public, addresses)):
        raise ToolError(f"{host!r} is not on the public internet, so it is not fetched")
    return addresses[0]


@registry.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True))
async def fetch(url: Annotated[str, {"maxLength": 2000}]) -> str:
    """Fetch a page from the public web."""
    try:
        wanted = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ToolError("This is not a URL") from None
    ports = {"http": 80, "https": 443}
    if wanted.scheme not in ports or not wanted.host or wanted.port or wanted.userinfo:
        raise ToolError("Give a URL of http or https, without port, user and password")
    address = await public_address(wanted.host, ports[wanted.scheme])
    request = httpx2.Request(
        "GET",
        wanted.copy_with(host=address),
        headers={"Host": wanted.netloc.decode(), "Accept-Encoding": "identity"},
        extensions={"sni_hostname": wanted.host},  # what the certificate has to be for
    )
    try:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await text_of(await client.send(request, stream=True, follow_redirects=False))
    except httpx2.HTTPError as error:
        raise ToolError(f"{wanted.host!r} cannot be read: {type(error).__name__}") from None


async def text_of(response: httpx2.Response) -> str:
    """The text of a page, if it has one and is not too long."""
    if response.has_redirect_location:
        raise ToolError(f"It leads to {response.headers['location']!r}; fetch that instead")
    body = b""
    with trio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MOST_BYTES:
                scope.cancel()  # unlike `break`, it ends all that httpx2 has begun
    if scope.cancel_called:
        raise ToolError(f"The page has more than {MOST_BYTES} bytes")
    return body.decode(errors="replace")


if __name__ == "__main__":
    trio.run(serve, registry)
