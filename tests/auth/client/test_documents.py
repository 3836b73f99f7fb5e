"""Documents, tokens and URLs: what is taken, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.auth.client.redirect import Pkce
from trio_mcp.auth.client.tokens import Token, read_token
from trio_mcp.auth.documents import (
    ClientRegistration,
    DocumentError,
    ResourceMetadata,
    ServerMetadata,
    read,
)
from trio_mcp.auth.urls import (
    BadUrl,
    covers,
    origin,
    parsed,
    resource_metadata_urls,
    server_metadata_urls,
)

pytestmark = pytest.mark.requirement("J5")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
MEMBERS = [
    "resource",
    "issuer",
    "authorization_servers",
    "scopes_supported",
    "client_id",
    "client_secret",
    "token_endpoint",
    "redirect_uris",
    "access_token",
    "token_type",
    "expires_in",
    "scope",
    "refresh_token",
]
documents = st.dictionaries(st.sampled_from(MEMBERS), json_values) | json_values


@given(documents)
def test_a_document_is_read_or_refused_and_nothing_else(document: Any) -> None:
    for kind in (ResourceMetadata, ServerMetadata, ClientRegistration):
        try:
            assert isinstance(read(kind, document, "it"), kind)
        except DocumentError:
            pass
    try:
        assert isinstance(read_token(document, 0, asked=()), Token)
    except DocumentError:
        pass


def test_members_that_are_null_or_unknown_are_passed_over() -> None:
    found = read(ServerMetadata, {"issuer": "i", "token_endpoint": None, "new": {}}, "it")
    assert found == ServerMetadata(issuer="i")


TOKEN = {"access_token": "t", "token_type": "bearer"}


@pytest.mark.parametrize(
    "change",
    [
        {"access_token": None},
        {"access_token": ""},
        {"access_token": "a b"},
        {"access_token": "a\r\nX: y"},
        {"access_token": "ä"},
        {"access_token": "x" * 100_000},
        {"access_token": 1},
        {"token_type": None},
        {"token_type": "mac"},
        {"refresh_token": "a\nb"},
        {"expires_in": -1},
        {"expires_in": "soon"},
        {"expires_in": math.inf},
        {"expires_in": True},
        {"expires_in": 10**400},
        {"scope": ["a"]},
    ],
)
def test_a_token_that_cannot_be_used_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as caught:
        read_token({**TOKEN, **change}, 0, asked=())
    value = next(iter(change.values()))
    assert len(str(caught.value)) < 200
    assert not (isinstance(value, str) and len(value) > 1 and value in str(caught.value))


def test_a_token_has_its_time_and_its_scopes() -> None:
    token = read_token({**TOKEN, "expires_in": "60", "scope": "a b a"}, 1000, asked=("x",))
    assert (token.scheme, token.expires_at, token.scopes) == ("Bearer", 1060, ("a", "b"))
    assert token.is_good(1000)
    assert not token.is_good(1059)
    assert read_token(TOKEN, 0, asked=("x",)).scopes == ("x",)
    assert read_token(TOKEN, 0, asked=()).is_good(1e12)


def test_metadata_is_looked_for_in_the_prescribed_order() -> None:
    assert resource_metadata_urls("https://a.test/b/mcp?x=1") == (
        "https://a.test/.well-known/oauth-protected-resource/b/mcp",
        "https://a.test/.well-known/oauth-protected-resource",
    )
    assert len(resource_metadata_urls("https://a.test/")) == 1
    assert server_metadata_urls("https://a.test/t") == (
        "https://a.test/.well-known/oauth-authorization-server/t",
        "https://a.test/.well-known/openid-configuration/t",
        "https://a.test/t/.well-known/openid-configuration",
    )
    assert server_metadata_urls("https://a.test") == (
        "https://a.test/.well-known/oauth-authorization-server",
        "https://a.test/.well-known/openid-configuration",
    )


@pytest.mark.parametrize(
    ("resource", "is_covered"),
    [
        ("https://a.test/b/mcp", True),
        ("https://A.test:443/b/mcp/", True),
        ("https://a.test/b", True),
        ("https://a.test", True),
        ("https://a.test/b/mc", False),
        ("https://a.test/b/mcp/c", False),
        ("https://a.test:444/b/mcp", False),
        ("http://a.test/b/mcp", False),
        ("https://a.test.evil.test/b/mcp", False),
    ],
)
def test_a_resource_covers_what_is_in_it(resource: str, is_covered: bool) -> None:
    assert covers(resource, "https://a.test/b/mcp") is is_covered


@pytest.mark.parametrize(
    "url",
    [
        "http://a.test/",
        "http://127.0.0.1.evil.test/",
        "http://localhost.evil.test/",
        "https://",
        "https://a.test:99999/",
        "https://a.test/#f",
        "https://u@a.test/",
        "https://a.test\\@b.test/",
        "https://a.test/\r\n",
        "https://ä.test/",
        "file:///etc/passwd",
        "//a.test",
        "",
    ],
)
def test_a_url_that_must_not_be_used_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        parsed(url, "it")


@pytest.mark.parametrize(
    "url", ["https://a.test", "http://localhost:1/x?y=1", "http://127.9.9.9/", "http://[::1]:8/"]
)
def test_a_url_that_may_be_used_is_taken(url: str) -> None:
    assert parsed(url, "it").hostname


def test_an_origin_is_compared_without_what_goes_without_saying() -> None:
    assert origin("HTTPS://A.test:443/x") == "https://a.test"
    assert origin("http://[::1]:80/") == "http://[::1]"


def test_pkce_is_new_each_time_and_shows_nothing() -> None:
    one, two = Pkce(), Pkce()
    assert len({one.verifier, one.state, one.challenge, two.verifier, two.state}) == 5
    assert one.is_ours(one.state)
    assert not any(one.is_ours(state) for state in (None, "", two.state, one.state + "x", "ä"))
    assert one.verifier not in repr(one)
    # RFC 7636, appendix B
    assert (
        Pkce("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").challenge
        == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )
