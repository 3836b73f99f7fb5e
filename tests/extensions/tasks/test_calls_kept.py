"""A call as it is kept, and what is made of it when it is run."""

from datetime import date

import pytest

from trio_mcp import Implementation
from trio_mcp.auth import Authorization
from trio_mcp.extending import ExtensionRequest
from trio_mcp.extensions.tasks import TaskOptions
from trio_mcp.extensions.tasks.call import KeptCall
from trio_mcp.store.errors import Damaged

pytestmark = pytest.mark.requirement("K3")


def test_it_is_run_again_for_whoever_asked() -> None:
    token = Authorization(
        subject="alice",
        client_id="c",
        issuer="https://issuer.example",
        scopes=frozenset({"a", "b"}),
        claims={"team": ["x"], "since": date(2030, 1, 2)},
        expires_at=5.0,
    )
    request = ExtensionRequest(
        method="tools/call",
        params={"name": "f", "arguments": {"x": 1}, "inputResponses": {}, "requestState": "s"},
        capabilities={"elicitation": {}},
        client=Implementation("c", "1"),
        principal=token.principal,
        authorization=token,
    )
    kept = KeptCall.of(request, TaskOptions(on_restart="run again", timeout=5))
    again = KeptCall.decode(kept.encode())
    assert (again.on_restart, again.timeout) == ("run again", 5)
    made = again.again()
    assert made.params == {"name": "f", "arguments": {"x": 1}}
    assert (made.method, made.revision, made.principal) == (
        "tools/call",
        request.revision,
        token.principal,
    )
    assert (made.capabilities, made.client) == (request.capabilities, request.client)
    assert made.authorization is not None
    assert made.authorization.principal == token.principal
    assert made.authorization.scopes == token.scopes
    assert made.authorization.expires_at == 5.0
    assert made.authorization.claims == {"team": ["x"], "since": "2030-01-02"}


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"form": 1}', b'{"form": 2}'])
def test_what_is_damaged_is_not_run(kept: bytes) -> None:
    with pytest.raises(Damaged, match=r"damaged|newer"):
        KeptCall.decode(kept)
