"""Who a request is from, where proxies stand before the server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tools import echo, registry_of
from tests.transports.http.support import ModernClient, hosting
from trio_mcp import HttpPolicy
from trio_mcp.transports.http.proxies import Proxies

OURS = ["127.0.0.1", "10.0.0.0/8", "::1"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", None, "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # says so, but who is that?
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),  # the client's own invention first
        ("127.0.0.1", "198.51.100.1, 10.1.2.3", "198.51.100.1"),  # two proxies of ours
        ("127.0.0.1", "10.9.9.9, 10.1.2.3", "10.9.9.9"),  # a machine of ours asks
        ("127.0.0.1", "198.51.100.1, nobody, 10.1.2.3", "10.1.2.3"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1:4711", "127.0.0.1"),
        ("::1", "2001:db8::1", "2001:db8::1"),
        ("::ffff:127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("::1", "2001:DB8:0::1 ", "2001:db8::1"),
        (None, "198.51.100.1", "unix"),
    ],
)
@pytest.mark.requirement("F2")
def test_the_last_address_that_is_no_trusted_proxy_asks(peer, forwarded, client) -> None:
    assert Proxies(OURS).client_of(peer, forwarded) == client


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("198.51.100.1", "198.51.100.2", False),
        ("::ffff:198.51.100.1", "198.51.100.1", True),
        ("::ffff:198.51.100.1", "::ffff:198.51.100.2", False),
        ("64:ff9b::198.51.100.1", "64:ff9b::198.51.100.2", False),
        (None, None, True),
        (None, "::1", False),
    ],
)
def test_an_ipv6_network_is_one_party(one, other, same) -> None:
    proxies = Proxies([])
    assert (proxies.network_of(one, None) == proxies.network_of(other, None)) == same


def test_a_unix_socket_can_be_trusted() -> None:
    assert Proxies(["unix"]).client_of(None, "1.2.3.4, 198.51.100.1") == "198.51.100.1"
    assert Proxies(["unix"]).client_of("127.0.0.1", "198.51.100.1") == "127.0.0.1"


@given(st.text(), st.ip_addresses(v=4).map(str))
def test_nobody_speaks_for_others(said: str, address: str) -> None:
    """Whatever somebody writes, the address that our proxy has seen comes after it."""
    proxies = Proxies(["unix"])
    assert proxies.client_of(None, f"{said}, {address}") == address
    assert Proxies([]).client_of(address, said) == address


@pytest.mark.requirement("F2")
async def test_clients_behind_a_proxy_have_rates_of_their_own() -> None:
    policy = HttpPolicy(rate=0.001, burst=2, trusted_proxies=["127.0.0.1"])
    async with hosting(registry_of(echo), policy) as host:
        client = ModernClient(host)
        client.address = ("127.0.0.1", 5000)

        async def status_for(address: str) -> int:
            headers = {"x-forwarded-for": f"9.9.9.9, {address}"}
            return (await client.begin("tools/list", None, **headers).end()).status

        assert [await status_for("198.51.100.1") for _ in range(3)] == [200, 200, 429]
        assert await status_for("198.51.100.2") == 200


@pytest.mark.parametrize("wrong", ["127.0.0.1", ["localhost"], ["10.0.0.0/40"], [""], "proxy"])
def test_what_is_no_address_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match="trusted_proxies"):
        HttpPolicy(trusted_proxies=wrong)
