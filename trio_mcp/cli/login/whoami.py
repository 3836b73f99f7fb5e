"""`trio-mcp whoami`: which logins are kept. No token is ever shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from trio_mcp import Login
from trio_mcp.cli.failures import OK
from trio_mcp.cli.login.kept import URL, about, check_url, is_good, login_store, renews
from trio_mcp.cli.options import AsJson
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.wire.jsonrpc import Json


def whoami(
    url: Annotated[str | None, URL] = None,
    /,
    *,
    as_json: AsJson = False,
) -> int:
    """Show which logins are kept, for which scopes and until when. No token is shown."""
    screen, store = Screen(as_json=as_json), login_store()
    if url is not None:
        check_url(url)
    logins = run_async(store.load)
    if url is not None:
        logins = about(logins, url)
    if as_json:
        screen.json({"logins": [_as_json(each) for each in logins]})
    elif logins:
        rows = [
            (
                each.resource,
                each.issuer,
                each.client.client_id if each.client is not None else "",
                " ".join(_scopes(each)),
                _until(each),
            )
            for each in logins
        ]
        screen.table(("Server", "Logged in by", "Client", "Scopes", "Until"), rows)
    else:
        screen.note("Nobody is logged in anywhere.")
    return OK


def _scopes(login: Login) -> Sequence[str]:
    return login.scopes if login.token is None else login.token.scopes


def _until(login: Login) -> str:
    """Say how long a login is good."""
    token, then = login.token, renews(login)
    if not is_good(login):
        return "renewed when it is used" if then else "it has ended"
    if token is None or token.expires_at is None:
        return ""
    when = datetime.fromtimestamp(token.expires_at).astimezone()
    return f"{when:%Y-%m-%d %H:%M}{', then renewed' if then else ''}"


def _as_json(login: Login) -> dict[str, Json]:
    token = login.token
    ends = None if token is None else token.expires_at
    return {
        "resource": login.resource,
        "issuer": login.issuer,
        "clientId": login.client.client_id if login.client is not None else None,
        "scopes": list(_scopes(login)),
        "good": is_good(login),
        "expiresAt": None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat(),
        "renews": renews(login),
    }
