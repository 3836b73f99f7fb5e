"""`trio-mcp logout`: a login is forgotten here, and ended where it is from."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from cyclopts import Parameter

from trio_mcp import FileStore, Login, TokenStore
from trio_mcp.cli.failures import OK, Usage
from trio_mcp.cli.login.as_client import require_auth
from trio_mcp.cli.login.kept import (
    URL,
    about,
    check_url,
    is_good,
    login_store,
    place_of,
    renews,
)
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.errors import AuthorizationError


def logout(
    url: Annotated[str | None, URL] = None,
    /,
    *,
    everywhere: Annotated[bool, Parameter(name="--all", help="Of all servers.")] = False,
) -> int:
    """Forget the login of a server, and have its authorization server end it."""
    if (url is None) != everywhere:
        raise Usage("say what to log out of: the URL of a server, or --all")
    if url is not None:
        check_url(url)
    screen, store = Screen(), login_store()
    forget = partial(_forget_all, store) if url is None else partial(_forget, store, url)
    for each in run_async(forget):
        screen.text(f"The login of {each.resource} by {each.issuer} is forgotten.")
        if is_good(each) or renews(each):
            screen.note(run_async(partial(_end, each)))
    if everywhere:
        screen.text(f"No logins are left in {place_of(store)}.")
    return OK


async def _forget(store: TokenStore, url: str) -> list[Login]:
    async with store.locked():
        found = about(await store.load(), url)
        for each in found:
            await store.remove(each)
    return found


async def _forget_all(store: TokenStore) -> list[Login]:
    async with store.locked():
        try:
            found = await store.load()
        except AuthorizationError:
            if not isinstance(store, FileStore):
                raise
            found = []  # nobody can read it, so nobody misses it
        if isinstance(store, FileStore):
            store.path.unlink(missing_ok=True)
        else:
            for each in found:
                await store.remove(each)
    return found


async def _end(login: Login) -> str:
    """Have an authorization server end a login that is forgotten; say what came of it."""
    require_auth()
    from trio_mcp import Fetching
    from trio_mcp.auth.client.revocation import revoke

    try:
        if await revoke(login, Fetching()):
            return "It has been ended there as well."
        return "It cannot be ended there: its token stays good for its time."
    except AuthorizationError as error:
        return f"It was not ended there: {error}"
