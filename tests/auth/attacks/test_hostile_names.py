"""URLs that a hostile server names in every place where it may name one: refused in one line."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import httpx2
import pytest
import trio

from tests.auth.client.world import SERVER, World
from trio_mcp.auth import ClientCredentials, Fetching
from trio_mcp.errors import AuthorizationError

URLS = [
    "",
    " ",
    "//a",
    "nonsense",
    "https:",
    "https:///x",
    "https://[",
    "https://[::1",
    "https://a:99999/",
    "https://a:x/",
    "https://a:0/",
    "https://" + "a." * 40_000,
    "https://a/" + "b" * 70_000,
    "https://a b/",
    "https://a\\@b/",
    "https://user@as.test/",
    "https://user:password-secret@as.test/",
    "https://as.test/#fragment",
    "http://as.test/",
    "http://127.0.0.1.as.test/",
    "http://localhost.as.test/",
    "HTTP://as.test/",
    "ftp://as.test/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:application/json,{}",
]
UNREACHABLE = [
    "https://[::1]x/",
    "https://a..b/",
    "https://" + "a" * 64 + ".test/",
    "https://" + "a." * 4_000,
    "https://xn--/",
    "https://xn--a/",
    "https://*/",
    "https://%/",
    "https://a%00b/",
]
"""They look like URLs, until somebody goes there."""
ODD = ["https://\xe4s.test/", "https://as.test/\u202e", "https://\ud83d/", "https://as\u3002test/"]

PLACES = ["resource", "authorization_servers"]
ENDPOINTS = ["authorization_endpoint", "token_endpoint", "registration_endpoint", "issuer"]


async def refused(world: World, **options: Any) -> str:
    """Try to get in, which must not be possible, and return why."""
    async with world.client(world.oauth(**options)) as client:
        with pytest.raises(AuthorizationError) as caught:
            await client.get(SERVER)
    assert world.pages == world.forms == [], "nobody is asked, and nothing is told"
    said = str(caught.value)
    assert "secret" not in said
    assert len(said) < 500
    return said


@pytest.mark.parametrize("url", URLS, ids=lambda url: repr(url[:40]))
async def test_in_the_challenge(url: str) -> None:
    escaped = url.replace("\\", "\\\\")
    await refused(World(challenge=f'Bearer resource_metadata="{escaped}"'))


@pytest.mark.parametrize("url", URLS + ODD, ids=lambda url: repr(url[:40]))
async def test_in_metadata(url: str) -> None:
    for place in PLACES:
        world = World()
        assert world.resource is not None
        world.resource[place] = [url] if place == "authorization_servers" else url
        await refused(world)
        if place == "authorization_servers":
            await refused(world, issuer="https://mine.test")
    for place in ENDPOINTS:
        world = World()
        assert world.server is not None
        world.server[place] = url
        await refused(world)


@pytest.mark.parametrize("url", UNREACHABLE, ids=lambda url: repr(url[:40]))
async def test_of_nobody(url: str) -> None:
    await refused(World(challenge=f'Bearer resource_metadata="{url}"'))
    world = World()
    assert world.resource is not None
    world.resource["authorization_servers"] = [url]
    await refused(world)
    world = World()
    assert world.server is not None
    world.server["registration_endpoint"] = url
    await refused(world)


@pytest.mark.parametrize("url", [*filter(None, URLS), *UNREACHABLE], ids=lambda url: repr(url[:40]))
async def test_over_the_network(url: str) -> None:
    trio.socket.set_custom_hostname_resolver(Nobody())
    with pytest.raises(AuthorizationError) as caught:
        await Fetching(trust_env=False).get(url, near="https://93.184.215.14/mcp")
    assert len(str(caught.value)) < 500


class Nobody(trio.abc.HostnameResolver):
    """A resolver that encodes names as the real one does, and knows none."""

    async def getaddrinfo(self, host: Any, *_: Any, **__: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        assert len(name.encode("idna")) > 0
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


class Here(trio.abc.HostnameResolver):
    """A resolver for whom every name is this machine, from now on."""

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


class Connection:
    """What a response says of the connection that it came over."""

    def get_extra_info(self, name: str) -> Any:
        """Return where the other end is."""
        return {"server_addr": ("93.184.215.14", 443)}.get(name)


@pytest.mark.parametrize("auth", ["person", "program"])
async def test_a_server_whose_name_leads_elsewhere_after_it_has_answered(auth: str) -> None:
    """Its owner decides where its name leads: to us, so that it may send us to our own machine."""
    trio.socket.set_custom_hostname_resolver(Here())
    world = World(challenge='Bearer resource_metadata="http://127.0.0.1:9/secrets"')

    async def answer(request: httpx2.Request) -> httpx2.Response:
        response = await world.call(request)
        response.extensions["network_stream"] = Connection()
        return response

    world.on[SERVER] = answer
    fetching = Fetching(trust_env=False)
    ways: dict[str, httpx2.Auth] = {
        "person": world.oauth(fetching=fetching),
        "program": ClientCredentials(client_id="c", client_secret="s", fetching=fetching),
    }
    async with world.client(ways[auth]) as client:
        with pytest.raises(AuthorizationError, match="must not send us"):
            await client.get(SERVER)


INSIDE = [
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.168.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "0.1.2.3",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "2001:0:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", INSIDE)
async def test_addresses_inside_a_network_in_all_their_forms(address: str) -> None:
    host = f"[{address}]" if ip_address(address).version == 6 else address
    with pytest.raises(AuthorizationError, match="must not send us"):
        await Fetching(trust_env=False).get(f"https://{host}/", near="https://93.184.215.14/mcp")


@pytest.mark.parametrize("host", ["0x7f000001", "2130706433", "127.1", "0177.0.0.1"])
async def test_addresses_in_forms_that_only_resolvers_know(host: str) -> None:
    with pytest.raises(AuthorizationError, match="must not send us"):
        await Fetching(trust_env=False).get(f"https://{host}/", near="https://93.184.215.14/mcp")
