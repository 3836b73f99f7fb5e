"""`trio-mcp whoami` and `trio-mcp logout`: the kept logins. No token is ever shown."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from trio_mcp.auth import FileStore, Login, TokenStore
from trio_mcp.cli.failures import OK, Usage
from trio_mcp.cli.login.store import (
    URL,
    about,
    is_good,
    login_store,
    place_of,
    renews,
    require_auth,
)
from trio_mcp.cli.options import AsJson
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.errors import AuthorizationError
from trio_mcp.wire.jsonrpc import Json


def whoami(url: Annotated[str | None, URL] = None, /, *, as_json: AsJson = False) -> int:
    """Show which logins are kept, for which scopes and until when. No token is shown."""
    screen, store = Screen(as_json=as_json), login_store()
    logins = run_async(store.load)
    if url is not None:
        logins = about(logins, url)
    shown = [_as_json(login) for login in logins]
    if as_json:
        screen.json({"logins": shown})
    elif logins:
        rows = [
            (its["resource"], its["issuer"], its["clientId"] or "", " ".join(its["scopes"]), until)
            for its, until in zip(shown, map(_until, logins), strict=True)
        ]
        screen.table(("Server", "Logged in by", "Client", "Scopes", "Until"), rows)
    else:
        screen.note("No logins are kept.")
    return OK


def _until(login: Login) -> str:
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
        "clientId": None if login.client is None else login.client.client_id,
        "scopes": list(login.scopes if token is None else token.scopes),
        "good": is_good(login),
        "expiresAt": None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat(),
        "renews": renews(login),
    }


def logout(
    url: Annotated[str | None, URL] = None,
    /,
    *,
    everywhere: Annotated[bool, Parameter(name="--all", help="Of all servers.")] = False,
) -> int:
    """Forget the login of a server, and have its authorization server end it."""
    if (url is None) != everywhere:
        raise Usage("say what to log out of: the URL of a server, or --all")
    screen, store = Screen(), login_store()
    for login in run_async(partial(_forget, store, url)):
        screen.text(f"The login of {login.resource} by {login.issuer} is forgotten.")
        if is_good(login) or renews(login):
            screen.note(run_async(partial(_end, login)))
    if everywhere:
        screen.text(f"No logins are left in {place_of(store)}.")
    return OK


async def _forget(store: TokenStore, url: str | None) -> list[Login]:
    async with store.locked():
        try:
            found = await store.load()
        except AuthorizationError:
            if url is not None or not isinstance(store, FileStore):
                raise
            found = []  # what cannot be read opens nothing
        if url is None and isinstance(store, FileStore):
            store.path.unlink(missing_ok=True)
            return found
        found = found if url is None else about(found, url)
        for login in found:
            await store.remove(login)
    return found


async def _end(login: Login) -> str:
    """Revoke a forgotten login at its authorization server; describe the outcome."""
    require_auth()
    from trio_mcp.auth import Fetching
    from trio_mcp.auth.client.revocation import revoke

    try:
        if await revoke(login, Fetching()):
            return "It has been ended there as well."
        return "It cannot be ended there: its token stays good for its time."
    except AuthorizationError as error:
        return f"It was not ended there: {error}"
