"""Logins: whatever a server and its authorization server say, there is a login or one error."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import httpx2
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.auth.client.world import ISSUER, SERVER, World
from trio_mcp.auth import ClientCredentials
from trio_mcp.auth.client.redirect import PATH, Pkce, receiving
from trio_mcp.errors import AuthorizationError

fewer = settings(max_examples=settings().max_examples // 3)
"""Each example starts a server, or logs in."""

URL = st.sampled_from(
    [
        ISSUER,
        SERVER,
        f"{ISSUER}/",
        "https://[",
        "http://as.test",
        "https://a:x",
        "//",
        "",
        "https://",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | URL,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
MEMBERS = st.sampled_from(
    [
        "resource",
        "authorization_servers",
        "scopes_supported",
        "dpop_bound_access_tokens_required",
        "issuer",
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "code_challenge_methods_supported",
        "token_endpoint_auth_methods_supported",
        "authorization_response_iss_parameter_supported",
        "client_id_metadata_document_supported",
        "dpop_signing_alg_values_supported",
        "access_token",
        "token_type",
        "expires_in",
        "refresh_token",
        "scope",
        "client_id",
        "client_secret",
        "redirect_uris",
    ]
)
PLACES = {
    "https://mcp.test/meta": "about_resource",
    f"{ISSUER}/.well-known/oauth-authorization-server": "about_server",
    f"{ISSUER}/register": "register",
    f"{ISSUER}/token": "token",
}


async def say_no(url: str) -> None:
    """Be a person who has been asked, which is far enough."""
    raise AuthorizationError("the person was asked")


def outcomes(change: Callable[[World], object]) -> list[str]:
    """Try to get in, as a person and as a program, and return what came of it."""

    async def attempt(is_person: bool) -> str:
        world = World()
        change(world)
        auth: httpx2.Auth = ClientCredentials(
            client_id="c", client_secret="secret", fetching=world.fetching
        )
        if is_person:
            auth = world.oauth(open_browser=say_no)
        async with world.client(auth) as client:
            try:
                return str((await client.get(SERVER)).status_code)
            except AuthorizationError as error:
                return str(error)

    return [trio.run(attempt, each) for each in (True, False)]


def test_what_is_changed_below_is_sound_as_it_is() -> None:
    assert outcomes(lambda _: None) == ["the person was asked", "200"]


@fewer
@given(st.sampled_from(sorted(PLACES)), st.dictionaries(MEMBERS, JSON, max_size=3))
def test_members_of_any_kind(place: str, changes: dict[str, Any]) -> None:
    def change(world: World) -> None:
        usual = getattr(world, PLACES[place])

        async def answer(request: httpx2.Request) -> httpx2.Response:
            document = json.loads((await usual(request)).content)
            return world.json({**document, **changes})

        world.on[place] = answer

    assert all(len(each) < 500 for each in outcomes(change))


@fewer
@given(
    st.sampled_from(sorted(PLACES)),
    JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60),
    st.sampled_from([200, 200, 200, 204, 400, 500]),
)
def test_documents_of_any_kind(place: str, body: bytes, status: int) -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body)

    said = outcomes(lambda world: world.on.update({place: answer}))
    assert all(len(each) < 500 for each in said)


@fewer
@given(
    st.text(st.sampled_from('Bearer DPoP,="\\ \tscopeimd_:/[]%errorx'), max_size=80)
    | st.text(st.characters(max_codepoint=126, min_codepoint=32), max_size=60)
)
def test_challenges_of_any_kind(challenge: str) -> None:
    said = outcomes(lambda world: setattr(world, "challenge", challenge))
    assert all(len(each) < 500 for each in said)


async def send(port: int, data: bytes) -> bytes:
    """Send all of a request, and return all of the answer."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        answer = b""
        with suppress(trio.BrokenResourceError):
            await stream.send_all(data)
            await stream.send_eof()
            while piece := await stream.receive_some():
                answer += piece
        return answer.partition(b"\r\n")[0]


@fewer
@given(
    st.lists(
        st.binary(max_size=80)
        | st.builds(
            lambda target, host: f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1"),
            st.text(st.sampled_from("/callback?state=&code[]%#:@ \xff"), max_size=30)
            | st.dictionaries(st.sampled_from(["state", "code", "iss"]), st.text(max_size=5)).map(
                lambda query: f"{PATH}?{urlencode(query, errors='replace')}"
            ),
            st.sampled_from(["HOST", "localhost", "", "evil.test", "[", "127.0.0.1:x"]),
        ),
        min_size=4,
        max_size=8,
    )
)
def test_redirects_of_any_kind(requests: list[bytes]) -> None:
    async def main() -> None:
        pkce = Pkce()
        async with receiving(pkce, port=0, host="127.0.0.1") as redirect:
            host = redirect.uri.split("/")[2].encode()
            port = int(host.partition(b":")[2])
            for each in requests:
                data = each.replace(b"HOST", host) + b"\r\n\r\n"
                assert b"200" not in await send(port, data)
            right = b"GET %s?state=%s&code=c HTTP/1.1\r\nHost: %s\r\n\r\n"
            sent = right % (PATH.encode(), pkce.state.encode(), host)
            assert b"200" in await send(port, sent)
            assert (await redirect.answer())["code"] == "c"

    trio.run(main)
